"""SCRAM as a server: the RFC's example, wrong proofs, replays, downgrades and channel binding."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dpsql.login import PLAIN, PLUS, hash_key, prepare_password
from dpsql.login.scram import (
    MOST_KEYS,
    ScramError,
    ScramKeys,
    ScramRejectedError,
    ScramServer,
    ScramViolationError,
    Verifier,
)

BINDING = b"hash of the certificate"
PASSWORD = "correct horse battery"
VERIFIER = Verifier.of(PASSWORD, b"0123456789abcdef")
BOUND = "p=tls-server-end-point"


def log_in(client: Any, server: ScramServer, mechanism: str = PLAIN) -> bytes:
    return server.final(client.final(server.first(mechanism, client.first())))


def test_the_example_of_rfc_7677() -> None:
    verifier = Verifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    server = ScramServer(verifier, None, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = server.first(PLAIN, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = server.final(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode())
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("name", ["", "*", "alice", "somebody=2Celse"])
def test_the_name_in_the_exchange_is_not_read(scram_client: Any, name: str) -> None:
    client = scram_client(PASSWORD, name=name)
    answer = log_in(client, ScramServer(VERIFIER, None))
    assert answer == b"v=" + base64.b64encode(client.server_signature)


def test_plus_is_offered_under_tls_alone() -> None:
    assert ScramServer(VERIFIER, BINDING).mechanisms == (PLUS, PLAIN)
    assert ScramServer(VERIFIER, None).mechanisms == (PLAIN,)
    with pytest.raises(ScramViolationError, match="not offered"):
        ScramServer(VERIFIER, None).first(PLUS, f"{BOUND},,n=,r=abc".encode())


def test_a_login_bound_to_the_certificate(scram_client: Any) -> None:
    client = scram_client(PASSWORD, flag=BOUND, binding=BINDING)
    assert log_in(client, ScramServer(VERIFIER, BINDING), PLUS).startswith(b"v=")


def test_a_foreign_certificate_is_noticed(scram_client: Any) -> None:
    client = scram_client(PASSWORD, flag=BOUND, binding=b"hash of another certificate")
    with pytest.raises(ScramRejectedError, match="another certificate"):
        log_in(client, ScramServer(VERIFIER, BINDING), PLUS)


def test_a_client_that_cannot_bind_may_log_in_under_tls(scram_client: Any) -> None:
    assert log_in(scram_client(PASSWORD), ScramServer(VERIFIER, BINDING)).startswith(b"v=")


def test_a_downgrade_is_noticed(scram_client: Any) -> None:
    with pytest.raises(ScramViolationError, match="downgrade"):
        log_in(scram_client(PASSWORD, flag="y"), ScramServer(VERIFIER, BINDING))
    # Without TLS the server offers no binding, and such a client is right.
    assert log_in(scram_client(PASSWORD, flag="y"), ScramServer(VERIFIER, None)).startswith(b"v=")


def test_the_flag_is_part_of_what_is_proved(scram_client: Any) -> None:
    client, server = scram_client(PASSWORD, flag="y"), ScramServer(VERIFIER, BINDING)
    first = server.first(PLAIN, client.first().replace(b"y,,", b"n,,"))  # changed on the way
    with pytest.raises(ScramRejectedError):
        server.final(client.final(first))


def test_a_wrong_password_and_an_unknown_user_end_alike(scram_client: Any) -> None:
    ends = []
    for verifier in (VERIFIER, Verifier.mock(b"secret", "nobody")):
        server = ScramServer(verifier, None)
        with pytest.raises(ScramError) as caught:
            log_in(scram_client("wrong horse battery"), server)
        ends.append((type(caught.value), caught.value.sqlstate, caught.value.reason))
    assert ends[0] == ends[1] == (ScramRejectedError, "28P01", "wrong password")


def test_a_mock_is_stable_and_depends_on_name_and_secret() -> None:
    mock = Verifier.mock(b"secret", "nobody")
    assert mock == Verifier.mock(b"secret", "nobody")
    assert mock.salt != Verifier.mock(b"secret", "nobody2").salt != Verifier.mock(b"other", "nobody2").salt
    assert len(mock.salt) == len(VERIFIER.salt)
    assert Verifier.mock(b"secret", "nobody", VERIFIER).salt == VERIFIER.salt
    assert Verifier.mock(b"secret", "nobody", VERIFIER).keys != VERIFIER.keys


def test_a_recorded_login_cannot_be_repeated(scram_client: Any) -> None:
    client, server = scram_client(PASSWORD), ScramServer(VERIFIER, None)
    final = client.final(server.first(PLAIN, client.first()))
    server.final(final)
    with pytest.raises(ScramViolationError):
        server.final(final)
    later = ScramServer(VERIFIER, None)
    later.first(PLAIN, client.first())
    with pytest.raises(ScramViolationError, match="nonce"):
        later.final(final)


def test_one_wrong_proof_ends_the_login(scram_client: Any) -> None:
    client, server = scram_client(PASSWORD), ScramServer(VERIFIER, None)
    first = server.first(PLAIN, client.first())
    with pytest.raises(ScramRejectedError):
        server.final(scram_client("wrong horse battery").final(first))
    with pytest.raises(ScramViolationError):
        server.final(client.final(first))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=,r=",
        b"n,,n=",
        b"n,,r=abc",
        b"n,,n=,r=a\xc3\xa9",
        b"n,,n=,r=a b",
        b"n,,m=x,n=,r=abc",
        b"n,,n=,r=abc,bad",
        b"n,a=alice,n=,r=abc",
        b"x,,n=,r=abc",
        b"p=tls-unique,,n=,r=abc",
        b"p=tls-server-end-point,,n=,r=abc",
        b"n,,n=,r=" + b"a" * 257,
        b"n,,n=\xff,r=abc",
    ],
)
def test_a_malformed_first_message_ends_the_login(first: bytes) -> None:
    server = ScramServer(VERIFIER, BINDING)
    with pytest.raises(ScramViolationError) as caught:
        server.first(PLAIN, first)
    assert caught.value.sqlstate == "08P01"
    with pytest.raises(ScramViolationError):
        server.first(PLAIN, b"n,,n=,r=abc")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b",p=", b",q="),
        (b",p=", b",p=!"),
        (b",p=", b",p=AAAA"),
        (b"c=", b"d="),
        (b"c=biws", b"c=biw"),
        (b",r=", b",r=x"),
        (b",p=", b",noattribute,p="),
        (b"c=biws,", b""),
        (b"c=", b"\xff="),
    ],
)
def test_a_malformed_final_message_ends_the_login(scram_client: Any, old: bytes, new: bytes) -> None:
    client, server = scram_client(PASSWORD), ScramServer(VERIFIER, None)
    final = client.final(server.first(PLAIN, client.first()))
    assert old in final
    with pytest.raises(ScramViolationError):
        server.final(final.replace(old, new, 1))


def test_a_final_message_before_the_first() -> None:
    with pytest.raises(ScramViolationError):
        ScramServer(VERIFIER, None).final(b"c=biws,r=abc,p=AAAA")


def test_each_of_several_passwords_passes(scram_client: Any) -> None:
    both = Verifier.join([VERIFIER, Verifier.of("a second password", VERIFIER.salt)])
    for password in (PASSWORD, "a second password"):
        client = scram_client(password)
        assert log_in(client, ScramServer(both, None))[2:] == base64.b64encode(client.server_signature)
    with pytest.raises(ScramRejectedError):
        log_in(scram_client("a third password"), ScramServer(both, None))
    with pytest.raises(ValueError, match="one salt"):
        Verifier.join([VERIFIER, Verifier.of(PASSWORD, b"fedcba9876543210")])


def test_a_verifier_is_written_in_the_form_of_postgresql() -> None:
    text = str(VERIFIER)
    assert text.startswith("SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$")
    assert Verifier.parse(text) == VERIFIER
    assert text.rpartition(":")[2] not in repr(VERIFIER)


@pytest.mark.parametrize("text", ["", "md5abc", str(VERIFIER)[:-4], str(VERIFIER).replace("4096", "1")])
def test_another_text_is_no_verifier(text: str) -> None:
    with pytest.raises(ValueError, match="verifier"):
        Verifier.parse(text)


def test_keys_are_what_the_rfc_says() -> None:
    # Of RFC 7677's example.
    verifier = Verifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert verifier.keys == (
        ScramKeys(
            base64.b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
            base64.b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
        ),
    )


@pytest.mark.parametrize(
    ("given", "prepared"),  # the examples of RFC 4013
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX")],
)
def test_passwords_are_prepared(given: str, prepared: str) -> None:
    assert prepare_password(given) == prepared


@pytest.mark.parametrize("password", ["\u0007", "\u0627\u0031", "a\u0627", "a\U0001f600b", "a\ue000"])
def test_a_password_that_clients_send_differently_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="password"):
        prepare_password(password)


def test_two_spellings_of_a_password_are_one(scram_client: Any) -> None:
    composed = Verifier.of("caf\u00e9 au lait, svp", VERIFIER.salt)
    assert composed == Verifier.of("cafe\u0301 au lait, svp", VERIFIER.salt)


def test_as_many_keys_are_tried_whatever_the_user_has(
    scram_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bytes] = []

    def counted(data: bytes) -> bytes:
        tried.append(data)
        return hash_key(data)

    many = Verifier.join([Verifier.of(f"token number {i}", VERIFIER.salt) for i in range(MOST_KEYS)])
    counts = []
    for verifier in (VERIFIER, many, Verifier.mock(b"secret", "nobody")):
        client, server = scram_client("not it at all"), ScramServer(verifier, None)
        final = client.final(server.first(PLAIN, client.first()))
        monkeypatch.setattr("dpsql.login.scram.hash_key", counted)
        tried.clear()
        with pytest.raises(ScramRejectedError):
            server.final(final)
        counts.append(len(tried))
        monkeypatch.setattr("dpsql.login.scram.hash_key", hash_key)
    assert counts == [MOST_KEYS] * 3
