"""Until the client has logged in: encryption, versions, limits, and what a stranger can learn."""

from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from dpsql.serve import state
from dpsql.serve.users import Users
from dpsql.serve.wire import startup as startup_module
from dpsql.serve.wire.channel import Channel
from tests.serve import frontend as f
from tests.serve.bench import PASSWORD, Bench, run
from tests.serve.scram_client import ScramClient


async def refused(bench: Bench, *data: bytes) -> dict[str, str]:
    """Send bytes on a new connection and return the fields of the error that ends it."""
    stranger = await bench.connect()
    await stranger.send(*data)
    *_, (tag, body) = await stranger.rest()
    assert tag == b"E"
    return f.fields(body)


async def raw(frontend: f.Frontend) -> bytes:
    return await frontend.reader.read()


def test_a_login_tells_the_settings_and_a_key() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in(application_name="a test")
        assert alice.settings["server_version"].startswith("15.0 (dpsql")
        assert alice.settings["client_encoding"] == "UTF8"
        assert alice.settings["application_name"] == "a test"
        assert bench.connections.live.keys() == {alice.number}
        assert 0 < alice.number < 2**31
        assert len(alice.secret) == 4
        assert bench.service.clients[alice.number].login.user.name == "alice"

    run(test)


@pytest.mark.parametrize(("minor", "length"), [(0, 4), (2, 32), (3, 32), (9999, 32)])
def test_the_version_is_negotiated_down_and_never_up(minor: int, length: int) -> None:
    async def test(bench: Bench) -> f.Frontend:
        alice = await bench.connect()
        return await alice.log_in(version=3 << 16 | minor, password=PASSWORD)

    alice = run(test)
    assert len(alice.secret) == length
    expected = None if minor <= 2 else struct.pack("!ii", 3 << 16 | 2, 0)
    assert alice.negotiated == expected


def test_unknown_protocol_options_are_listed_and_those_of_dpsql_are_known() -> None:
    async def test(bench: Bench) -> f.Frontend:
        return await bench.log_in(**{"_pq_.new": "1", "_pq_.dpsql_errors": "1"})

    assert run(test).negotiated == struct.pack("!ii", 3 << 16, 1) + b"_pq_.new\0"


@pytest.mark.parametrize("version", [2 << 16, 4 << 16, 0, 1234 << 16 | 5])
def test_another_major_version_is_refused(version: int) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        return await refused(bench, f.startup({"user": "alice"}, version))

    assert run(test)["C"] == "0A000"


@pytest.mark.parametrize(
    ("parameters", "sqlstate"),
    [
        ({}, "28000"),
        ({"user": ""}, "28000"),
        ({"user": "alice", "replication": "database"}, "0A000"),
    ],
)
def test_a_startup_that_cannot_be_served_is_refused(parameters: dict[str, str], sqlstate: str) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        return await refused(bench, f.startup(parameters))

    found = run(test)
    assert (found["S"], found["C"]) == ("FATAL", sqlstate)


@pytest.mark.parametrize(
    ("parameters", "sqlstate"),
    [
        ({"database": "patients"}, "3D000"),
        ({"no_such_setting": "1"}, "42704"),
        ({"options": "-c x=1"}, "42704"),
    ],
)
def test_what_only_users_may_know_is_said_behind_the_login(parameters: dict[str, str], sqlstate: str) -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(f.RefusedError) as caught:
            await bench.log_in(**parameters)
        assert caught.value.fields["C"] == sqlstate
        assert caught.value.fields["S"] == "FATAL"
        outcome = {"address": "", "user": "alice", "reason": sqlstate, "outcome": sqlstate}
        assert bench.events == [("handshake failed", outcome)]
        stranger = await bench.connect()
        with pytest.raises(f.RefusedError) as unknown:
            await stranger.log_in("mallory", PASSWORD, parameters=parameters)
        assert unknown.value.fields["C"] == "28P01"

    run(test)


def test_an_unknown_user_and_a_wrong_password_look_alike() -> None:
    async def attempt(bench: Bench, name: str) -> list[bytes]:
        stranger = await bench.connect()
        scram = ScramClient("wrong")
        await stranger.send(f.startup({"user": name}))
        mechanisms = await stranger.receive()
        first = scram.first()
        await stranger.send(f.message(b"p", f.text(scram.mechanism), struct.pack("!i", len(first)), first))
        tag, challenge = await stranger.receive()
        assert tag == b"R"
        await stranger.send(f.message(b"p", scram.final(challenge[4:])))
        ((tag, body),) = await stranger.rest()
        salt = challenge[4:].split(b",")[1]
        rounds = challenge[4:].split(b",")[2]
        return [mechanisms[1], rounds, body.replace(name.encode(), b"NAME"), str(len(salt)).encode(), tag]

    async def test(bench: Bench) -> None:
        assert await attempt(bench, "alice") == await attempt(bench, "mallory")
        known, unknown = [fields for event, fields in bench.events if event == "handshake failed"]
        assert (known["user"], known["reason"]) == ("alice", "wrong password")
        assert "user" not in unknown, "an unknown name may be a password that was typed in the wrong place"

    run(test)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 4, 7, 10_001, 2**31 - 1])
def test_a_startup_of_an_impossible_length_is_refused_unread(length: int) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        return await refused(bench, struct.pack("!i", length))

    assert run(test)["C"] == "08P01"


@pytest.mark.parametrize("length", [-1, 0, 3, 1025, 2**31 - 1])
def test_a_message_of_the_login_of_an_impossible_length_is_refused_unread(length: int) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        return await refused(bench, f.startup({"user": "alice"}), b"p", struct.pack("!i", length))

    assert run(test)["C"] == "08P01"


@pytest.mark.parametrize(
    "data",
    [
        f.query("SELECT 1"),
        f.TERMINATE,
        f.message(b"p", f.text("SCRAM-SHA-256"), struct.pack("!i", 100), b"n,,n=,r=x"),
        f.message(b"p", f.text("SCRAM-SHA-256"), struct.pack("!i", -1)),
        f.message(b"p", f.text("PLAIN"), struct.pack("!i", 1), b"x"),
        f.message(b"p", f.text("SCRAM-SHA-256-PLUS"), struct.pack("!i", 9), b"n,,n=,r=x"),
        f.message(b"p", b"\xff\xff"),
    ],
)
def test_nothing_but_a_login_is_heard_before_the_login(data: bytes) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        found = await refused(bench, f.startup({"user": "alice"}), data)
        assert not bench.service.clients
        return found

    found = run(test)
    assert (found["S"], found["C"]) == ("FATAL", "08P01")


def test_tls_and_a_binding_to_the_certificate(server_tls: state.Tls, client_tls: ssl.SSLContext) -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.connect()
        await alice.start_tls(client_tls)
        await alice.log_in(password=PASSWORD)
        assert alice.binding == server_tls.binding
        assert [tag for tag, _ in await alice.ask(f.query("SELECT 1"))] == [b"T", b"D", b"C", b"Z"]

    run(test, Bench(tls=server_tls, tls_required=True))


def test_a_login_that_was_bound_to_another_certificate_fails(
    server_tls: state.Tls, client_tls: ssl.SSLContext
) -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.connect()
        await alice.start_tls(client_tls)
        alice.binding = bytes(32)
        with pytest.raises(f.RefusedError) as caught:
            await alice.log_in(password=PASSWORD)
        return caught.value.fields["C"]

    assert run(test, Bench(tls=server_tls)) == "28P01"


def test_a_client_that_was_not_offered_its_binding_is_cut_off(
    server_tls: state.Tls, client_tls: ssl.SSLContext
) -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.connect()
        await alice.start_tls(client_tls)
        await alice.send(f.startup({"user": "alice"}))
        await alice.receive()
        first = b"y,,n=,r=fyko+d2lbbFgONRv9qkxdawL"
        await alice.send(f.message(b"p", f.text("SCRAM-SHA-256"), struct.pack("!i", len(first)), first))
        ((_, body),) = await alice.rest()
        return f.fields(body)["C"]

    assert run(test, Bench(tls=server_tls)) == "08P01"


@pytest.mark.parametrize("alpn", [True, False])
def test_tls_may_begin_at_once_if_the_client_names_the_protocol(
    server_tls: state.Tls, certificate: object, alpn: bool
) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    if alpn:
        context.set_alpn_protocols(["postgresql"])

    async def test(bench: Bench) -> list[bytes] | str:
        alice = await bench.connect()
        await alice.writer.start_tls(context, server_hostname="localhost")
        if not alpn:
            ((_, body),) = await alice.rest()
            return f.fields(body)["C"]
        der = alice.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        alice.binding = server_tls.binding
        assert der
        await alice.log_in(password=PASSWORD)
        return [tag for tag, _ in await alice.ask(f.query("SELECT 1"))]

    assert run(test, Bench(tls=server_tls)) == ([b"T", b"D", b"C", b"Z"] if alpn else "08P01")


def test_plain_bytes_behind_the_request_for_tls_end_the_connection(server_tls: state.Tls) -> None:
    async def test(bench: Bench) -> bytes:
        stranger = await bench.connect()
        await stranger.send(f.SSL_REQUEST + f.startup({"user": "alice"}))
        return await raw(stranger)

    found = run(test, Bench(tls=server_tls))
    assert found[:1] == b"E", "TLS never begins"
    assert f.fields(found[5:])["C"] == "08P01"


def test_where_clients_need_certificates_nobody_logs_in_without_tls(server_tls: state.Tls) -> None:
    needed = state.load_tls(server_tls.certificate, server_tls.key, clientcert=server_tls.certificate)

    async def test(bench: Bench) -> str:
        alice = await bench.connect()
        await alice.send(f.startup({"user": "alice"}))
        ((_, body),) = await alice.rest()
        return f.fields(body)["C"]

    assert run(test, Bench(tls=needed)) == "28000"


def certified(folder: Path, name: str) -> Path:
    """Make a client's certificate, which is its own authority, with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    signed = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, hashes.SHA256()
    )
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = folder / f"{name}.pem"
    file.write_bytes(signed.public_bytes(Encoding.PEM) + key.private_bytes(*form))
    return file


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_a_certificate_is_that_of_the_user_who_logs_in(
    server_tls: state.Tls, tmp_path: Path, name: str
) -> None:
    """With another's, a right password gets the answer that a wrong one gets."""
    file = certified(tmp_path, name)
    needed = state.load_tls(server_tls.certificate, server_tls.key, clientcert=file)
    context = ssl.create_default_context(cafile=server_tls.certificate)
    context.load_cert_chain(file)
    bench = Bench(tls=needed)

    async def outcome(bench: Bench, password: str) -> dict[str, str]:
        alice = await bench.connect()
        await alice.start_tls(context)
        try:
            await alice.log_in(password=password)
        except f.RefusedError as refused:
            return refused.fields
        return {}

    async def test(bench: Bench) -> tuple[dict[str, str], dict[str, str]]:
        return await outcome(bench, PASSWORD), await outcome(bench, "wrong")

    right, wrong = run(test, bench)
    assert wrong["C"] == "28P01"
    assert right == ({} if name == "alice" else wrong)
    reasons = [fields["reason"] for _, fields in bench.events if fields.get("reason", "lost") != "lost"]
    assert reasons == ([] if name == "alice" else ["certificate of another user"]) + ["wrong password"]
    failures = bench.service.gate.throttle
    assert len(failures) == 1  # of the name


def test_tls_is_asked_for_once(server_tls: state.Tls, client_tls: ssl.SSLContext) -> None:
    async def test(bench: Bench) -> str:
        stranger = await bench.connect()
        await stranger.start_tls(client_tls)
        await stranger.send(f.SSL_REQUEST)
        ((_, body),) = await stranger.rest()
        return f.fields(body)["C"]

    assert run(test, Bench(tls=server_tls)) == "08P01"


def test_without_a_certificate_the_answer_is_no_and_the_client_may_go_on() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.connect()
        for request in (f.GSS_REQUEST, f.SSL_REQUEST):
            await alice.send(request)
            assert await alice.reader.readexactly(1) == b"N"
        await alice.log_in(password=PASSWORD)

    run(test)


@pytest.mark.parametrize("twice", [f.GSS_REQUEST, f.SSL_REQUEST])
def test_encryption_is_asked_for_once_of_each_kind(twice: bytes) -> None:
    async def test(bench: Bench) -> bytes:
        stranger = await bench.connect()
        await stranger.send(twice)
        assert await stranger.reader.readexactly(1) == b"N"
        await stranger.send(twice)
        return await raw(stranger)

    assert run(test)[:1] == b"E"


def test_where_tls_is_required_no_login_begins_without_it(server_tls: state.Tls) -> None:
    async def test(bench: Bench) -> dict[str, str]:
        return await refused(bench, f.startup({"user": "alice"}))

    assert run(test, Bench(tls=server_tls, tls_required=True))["C"] == "28000"


def test_bytes_that_are_no_tls_end_the_connection(server_tls: state.Tls) -> None:
    async def test(bench: Bench) -> None:
        for begin in (b"", f.SSL_REQUEST):
            stranger = await bench.connect()
            if begin:
                await stranger.send(begin)
                assert await stranger.reader.readexactly(1) == b"S"
            await stranger.send(b"\x16\x03\x01\x00\x05hello")
            found = await raw(stranger)
            assert found[:1] in (b"", b"\x15"), "an alert of TLS or nothing"

    run(test, Bench(tls=server_tls))


@pytest.mark.parametrize("sent", [b"", b"\0\0", f.startup({"user": "alice"})])
def test_a_client_that_does_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(startup_module, "STEP", 0.05)

    async def test(bench: Bench) -> None:
        stranger = await bench.connect()
        await stranger.send(sent)
        *_, (tag, body) = await stranger.rest()
        assert (tag, f.fields(body)["C"]) == (b"E", "57014")
        assert bench.connections.handshakes == 0

    run(test)


def test_a_handshake_of_tls_that_does_not_go_on_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, server_tls: state.Tls
) -> None:
    monkeypatch.setattr(startup_module, "STEP", 0.05)

    async def test(bench: Bench) -> bytes:
        stranger = await bench.connect()
        await stranger.send(f.SSL_REQUEST)
        return await raw(stranger)

    assert run(test, Bench(tls=server_tls)) == b"S"


def test_a_client_that_leaves_with_the_end_of_a_handshake_of_tls_is_not_logged(
    server_tls: state.Tls, caplog: pytest.LogCaptureFixture
) -> None:
    """The last of the handshake and the end of TLS arrive together: asyncio must not be asked to go on."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def test(bench: Bench) -> None:
        stranger, arrived, sent = await bench.connect(), ssl.MemoryBIO(), ssl.MemoryBIO()
        await stranger.send(f.SSL_REQUEST)
        assert await stranger.reader.readexactly(1) == b"S"
        client = context.wrap_bio(arrived, sent)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                await stranger.send(sent.read())
                arrived.write(await stranger.reader.read(1 << 16))
        with suppress(ssl.SSLWantReadError):
            client.unwrap()
        await stranger.send(sent.read())
        await raw(stranger)

    run(test, Bench(tls=server_tls))
    assert not caplog.records


def test_one_network_holds_a_fifth_of_the_logins_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(self: Channel, transport: asyncio.BaseTransport) -> None:
        self.address = next(addresses)
        made(self, transport)

    made, addresses = Channel.connection_made, iter(["10.0.0.1"] * 2 + ["10.0.0.2"])
    monkeypatch.setattr(Channel, "connection_made", peer)

    async def test(bench: Bench) -> None:
        held = await bench.connect()
        await held.send(f.startup({"user": "alice"}))
        await held.receive()
        assert (await refused(bench))["C"] == "53300"
        assert ("handshake refused", {"address": "10.0.0.1", "outcome": "53300"}) in bench.events
        await bench.log_in()

    run(test, Bench(handshakes=5))


def test_no_more_than_some_clients_may_log_in_at_once() -> None:
    async def test(bench: Bench) -> None:
        waiting = await bench.connect()
        await waiting.send(f.startup({"user": "alice"}))
        await waiting.receive()
        assert (await refused(bench))["C"] == "53300"
        waiting.writer.close()
        await waiting.rest()
        while bench.connections.handshakes:
            await asyncio.sleep(0)
        await bench.log_in()

    run(test, Bench(handshakes=1))


def test_an_analyst_has_as_many_connections_as_his_users_allow() -> None:
    async def test(bench: Bench) -> None:
        first, _ = await bench.log_in("alice"), await bench.log_in("ali")
        with pytest.raises(f.RefusedError) as caught:
            await bench.log_in("alice")
        assert caught.value.fields["C"] == "53300"
        *_, refused_client = bench.service.clients.values()
        assert refused_client.closed
        await bench.log_in("bob")
        await first.send(f.TERMINATE)
        await first.rest()
        await bench.log_in("alice")

    run(test, Bench(most=2))


def test_the_server_has_as_many_connections_as_it_allows() -> None:
    async def test(bench: Bench) -> str:
        await bench.log_in("alice")
        with pytest.raises(f.RefusedError) as caught:
            await bench.log_in("bob")
        return caught.value.fields["C"]

    assert run(test, Bench(maximum=1)) == "53300"


def test_a_user_who_is_removed_while_he_logs_in_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        def delay(name: str, address: str) -> float:
            bench.context.gate.users = Users({}, b"s" * 32)  # as a reload does, before the proof is checked
            return 0.0

        monkeypatch.setattr(bench.context.gate.throttle, "delay", delay)
        with pytest.raises(f.RefusedError) as caught:
            await bench.log_in()
        assert caught.value.fields["C"] == "28P01"
        assert not bench.service.clients

    run(test)


def test_a_failed_login_waits_before_its_proof_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            waited.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def test(bench: Bench) -> None:
        for _ in range(6):
            stranger = await bench.connect()
            with pytest.raises(f.RefusedError):
                await stranger.log_in(password="wrong")
        assert waited == [1.0]
        await bench.log_in()
        assert waited == [1.0, 2.0], "the right password waits, too"
        await bench.log_in()
        assert waited == [1.0, 2.0]

    run(test)
