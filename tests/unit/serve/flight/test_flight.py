"""Flight SQL by pyarrow's client: prices before charges, tickets, prepared statements, logins."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from dpsql.errors import PriceNotAgreed
from dpsql.privacy import Charge
from dpsql.serve.user import User
from tests.served import client_of

grpc = pytest.importorskip("grpc")
from dpsql.serve.flight import messages as m  # noqa: E402
from dpsql.serve.flight.protobuf import read, write  # noqa: E402
from dpsql.serve.flight.statements import NOTICES, RELEASE  # noqa: E402

from .conftest import PASSWORDS, Flight, Program, command_descriptor, words  # noqa: E402

REFUSED = (fl.FlightError, pa.ArrowException)
_numbers = itertools.count(1)


def new(epsilon: str = "1") -> str:
    """Return a statement that nobody has asked before."""
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) page, COUNT(DISTINCT user_id) AS n "
        f"FROM visits WHERE user_id < {1000 + next(_numbers)} GROUP BY page"
    )


# -- prices and tickets


def test_the_price_is_told_before_and_charged_once(flight: Flight, alice: Program) -> None:
    before = flight.spent
    info = alice.query(new("0.75"))
    assert json.loads(info.app_metadata) == {"kind": "private", "epsilon": 0.75, "delta": 0.0}
    assert flight.spent == before
    table = alice.fetch(info)
    assert flight.spent == before + 0.75
    assert table.schema.equals(info.schema)
    assert sorted(table.column("page").to_pylist()) == [0, 1, 2]
    facts = json.loads(table.schema.metadata[RELEASE])
    assert (facts["epsilon"], facts["confidence"]) == (0.75, 0.95)
    assert "epsilon 0.75 charged" in json.loads(table.schema.metadata[NOTICES])[0]["text"]


def test_a_ticket_holds_once(flight: Flight, alice: Program) -> None:
    info = alice.query(new())
    alice.fetch(info)
    before = flight.spent
    with pytest.raises(REFUSED) as refused:
        alice.fetch(info)
    assert "the ticket is not known, was used or has expired; nothing was charged" in words(refused)
    assert flight.spent == before


def test_the_ticket_of_another_user_is_refused_and_stays(
    flight: Flight, alice: Program, bob: Program
) -> None:
    before, ticket = flight.spent, alice.query(new()).endpoints[0].ticket
    with pytest.raises(REFUSED) as refused:
        bob.get(ticket)
    assert "the ticket is not known" in words(refused)
    assert flight.spent == before
    assert alice.get(ticket).num_rows == 3


def test_two_tickets_of_one_statement_are_charged_once(flight: Flight, alice: Program) -> None:
    text, before = new(), flight.spent
    infos = [alice.query(text) for _ in range(2)]
    tables = [alice.fetch(info) for info in infos]
    assert tables[0].equals(tables[1])
    assert flight.spent == before + 1
    assert json.loads(alice.query(text).app_metadata) == {"kind": "stored", "epsilon": 0.0, "delta": 0.0}
    assert json.loads(tables[1].schema.metadata[RELEASE])["epsilon"] == 0


def test_what_was_told_is_the_most_that_is_charged(flight: Flight) -> None:
    client, before = client_of(flight.service, User("alice", "alice")), flight.spent
    for most in (Charge(), Charge(Fraction(1, 2))):
        with pytest.raises(PriceNotAgreed):
            flight.call(client.answer(new(), most=most))
    assert flight.spent == before
    flight.call(client.answer(new(), most=Charge(Fraction(1))))
    assert flight.spent == before + 1


def test_results_that_are_not_read_have_a_limit(
    flight: Flight, alice: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = alice.query("SELECT title FROM pages")
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.serve.flight.calls.MOST_OF_ANALYST", -1)
        with pytest.raises(REFUSED, match="that your programs have not read are too large together"):
            alice.fetch(info)
    assert alice.fetch(info).num_rows == 3
    monkeypatch.setattr("dpsql.serve.flight.front.CALLS_OF_USER", 0)
    with pytest.raises(REFUSED, match="you make 0 calls at the same time"):
        alice.query("SELECT title FROM pages")


def test_a_client_that_does_not_read_is_cut(
    flight: Flight, alice: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ", ".join(f"pages t{number}" for number in range(10))
    columns = ", ".join(f"t{number % 10}.page AS c{number}" for number in range(40))
    info = alice.query(f"SELECT {columns} FROM {tables}")
    monkeypatch.setattr(flight.front, "_stalled", 0.3)
    name, value = alice.header
    with grpc.insecure_channel(flight.url.removeprefix("grpc://")) as channel:
        path = "/arrow.flight.protocol.FlightService/DoGet"
        ticket = write(m.TICKET, {"ticket": info.endpoints[0].ticket.ticket})
        call = channel.unary_stream(path)(ticket, metadata=[(name.decode(), value.decode())])
        held = flight.front._calls._held
        assert waited(lambda: held["alice"] > 1 << 20)
        assert waited(lambda: not held["alice"])
        with pytest.raises(grpc.RpcError) as cut:
            list(call)
        assert (cut.value.code(), cut.value.details()) == (
            grpc.StatusCode.CANCELLED,
            "the answer was not read in time",
        )


def waited(done: Callable[[], bool]) -> bool:
    """Wait for something, at most half a minute; return whether it has come."""
    end = time.monotonic() + 30
    while not done() and time.monotonic() < end:
        time.sleep(0.01)
    return done()


def test_a_guessed_ticket_is_refused(alice: Program) -> None:
    for guess in (b"", b"\0" * 32, b"SELECT 1", m.write_any("CommandStatementQuery", {"query": "SELECT 1"})):
        with pytest.raises(REFUSED, match="the ticket is not known"):
            alice.get(fl.Ticket(guess))


def test_a_price_must_be_agreed(flight: Flight, alice: Program) -> None:
    text, before = new().replace("WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) ", ""), flight.spent
    with pytest.raises(REFUSED) as refused:
        alice.query(text)
    said = words(refused)
    assert "this costs epsilon 0.5, and nobody has agreed to it; nothing was charged" in said
    assert "would be accepted:\nSELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) page" in said
    described = alice.client.get_schema(
        Program.descriptor("CommandStatementQuery", query=text), alice.options
    )
    assert described.schema.names == ["page", "n"]
    assert flight.spent == before
    assert alice.ask("SET dp_epsilon = 0.25").num_columns == 0
    assert alice.ask("SHOW dp_epsilon").to_pylist() == [{"dp_epsilon": "0.25"}]
    alice.ask(text)
    assert flight.spent == before + 0.25
    with pytest.raises(REFUSED, match="nobody has agreed"):
        flight.client("alice").query(text.replace("<", "<="))  # the agreement is of that session alone


def test_setting_options_agrees_to_a_price_too(alice: Program) -> None:
    def changed(**options: str) -> dict[str, int]:
        entries = [
            write(m.OPTION_ENTRY, {"key": key, "value": write(m.OPTION_VALUE, {"text": value})})
            for key, value in options.items()
        ]
        (answer,) = alice.act("SetSessionOptions", write(m.SET_OPTIONS, {"session_options": entries}))
        found = [read(m.OPTION_ERROR_ENTRY, each) for each in read(m.SET_RESULT, answer).get("errors", ())]
        return {each["key"]: read(m.OPTION_ERROR, each["value"])["value"] for each in found}

    assert changed(dp_columns="interval", dp_epsilon="x", nope="1", dp_most="0.5") == {
        "dp_epsilon": m.INVALID_VALUE,
        "nope": m.INVALID_NAME,
    }
    info = alice.query(new("0.5"))
    assert info.schema.names == ["page", "n", "n_low", "n_high"]
    assert alice.fetch(info).schema.equals(info.schema)
    (options,) = alice.act("GetSessionOptions", b"")
    entries = [read(m.OPTION_ENTRY, each) for each in read(m.GET_RESULT, options)["session_options"]]
    assert {each["key"]: read(m.OPTION_VALUE, each["value"])["text"] for each in entries}["dp_most"] == "0.5"


def test_what_costs_nothing_has_no_price(alice: Program) -> None:
    for text, kind in [
        ("SELECT title FROM pages ORDER BY page", "public"),
        ("SELECT 1 AS a", "catalogue"),
        ("SELECT * FROM visits WHERE 1 = 0", "probe"),
        ("SHOW PRIVACY BUDGET", "command"),
    ]:
        info = alice.query(text)
        assert json.loads(info.app_metadata) == {"kind": kind}
        assert alice.fetch(info).schema.equals(info.schema)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT nope FROM pages", "nope"),
        ("SELECT * FROM visits", "the rows of a private table are counted, never shown (at character 8)"),
        ("SELECT 1; SELECT 2", "expected one statement"),
        ("", "expected one statement"),
        ("BEGIN", "Flight SQL has no transactions, cursors or COPY here"),
        ("SELECT '" + "x" * 70_000 + "'", "the statement is longer than 65,536"),
    ],
)
def test_refusals_have_the_words_of_other_protocols(alice: Program, text: str, said: str) -> None:
    with pytest.raises(REFUSED) as refused:
        alice.query(text)
    assert said in words(refused)


def test_a_failure_of_our_own_tells_nothing(
    flight: Flight, alice: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("unit 4711")

    monkeypatch.setattr("dpsql.serve.flight.calls.flight_data", fail)
    monkeypatch.setattr("dpsql.serve.client.Client.quote", fail)
    tickets = alice.info("CommandGetCatalogs")
    calls: list[Callable[[], object]] = [lambda: alice.query(new()), lambda: alice.fetch(tickets)]
    for call in calls:
        with pytest.raises(fl.FlightInternalError) as failed:
            call()
        assert words(failed).startswith("this is a bug of dpsql: please report it")
        assert "4711" not in str(failed.value)


# -- prepared statements


def test_a_prepared_statement_is_described_bound_and_run(flight: Flight, alice: Program) -> None:
    text, before = new().replace("GROUP BY", "AND page >= ? GROUP BY"), flight.spent
    made = alice.prepare(text)
    assert pa.ipc.read_schema(pa.py_buffer(made["dataset_schema"])).names == ["page", "n"]
    assert pa.ipc.read_schema(pa.py_buffer(made["parameter_schema"])).types == [pa.int64()]
    handle = made["prepared_statement_handle"]
    assert flight.spent == before
    for first in (1, 2):
        assert alice.bind(handle, pa.record_batch({"a": [first]})) == handle
        assert min(alice.run(handle).column("page").to_pylist()) == first
    assert flight.spent == before + 2
    closing = {"prepared_statement_handle": handle}
    assert (
        alice.act("ClosePreparedStatement", m.write_any("ActionClosePreparedStatementRequest", closing)) == []
    )
    with pytest.raises(REFUSED, match="there is no such prepared statement"):
        alice.run(handle)


def test_a_handle_is_of_its_session_alone(alice: Program, bob: Program) -> None:
    handle = alice.prepare("SELECT title FROM pages")["prepared_statement_handle"]
    with pytest.raises(REFUSED, match="there is no such prepared statement"):
        bob.run(handle)
    assert alice.run(handle).num_rows == 3


def test_values_that_are_no_parameters_are_refused(alice: Program) -> None:
    handle = alice.prepare("SELECT title FROM pages WHERE page = ?")["prepared_statement_handle"]
    for batch, said in [
        (pa.record_batch({"a": [1, 2]}), "more than one row"),
        (pa.record_batch({"a": [[1]]}), "a type that is not known here"),
        (pa.record_batch({"a": pa.array(["x"]).dictionary_encode()}), "a type that is not known here"),
    ]:
        with pytest.raises(REFUSED, match=said):
            alice.bind(handle, batch)
    alice.bind(handle, pa.record_batch({"a": [1], "b": [2]}))
    with pytest.raises(REFUSED, match="1 of the parameters given are not used"):
        alice.run(handle)


def test_an_update_changes_settings_alone(flight: Flight, alice: Program) -> None:
    def update(text: str) -> int:
        asked = Program.descriptor("CommandStatementUpdate", query=text)
        writer, reader = alice.client.do_put(asked, pa.schema([]), alice.options)
        with writer:
            writer.done_writing()
            return int(read(m.UPDATE_RESULT, reader.read().to_pybytes())["record_count"])

    before = flight.spent
    assert update("SET dp_confidence = 0.9") == 0
    for text in (new(), "INSERT INTO pages VALUES (3, 'd')"):
        with pytest.raises(REFUSED):
            update(text)
    assert flight.spent == before


# -- metadata


def test_metadata_shows_the_policy(alice: Program) -> None:
    assert alice.look_up("CommandGetCatalogs").to_pylist() == [{"catalog_name": "shop"}]
    schemas = [{"catalog_name": "shop", "db_schema_name": "public"}]
    assert alice.look_up("CommandGetDbSchemas").to_pylist() == schemas
    assert alice.look_up("CommandGetDbSchemas", catalog="other").num_rows == 0
    assert alice.look_up("CommandGetTableTypes").column(0).to_pylist() == ["TABLE", "VIEW"]
    assert alice.look_up("CommandGetTables").column("table_name").to_pylist() == ["pages", "visits"]
    found = alice.look_up("CommandGetTables", table_name_filter_pattern="v%", include_schema=True).to_pylist()
    assert [each["table_name"] for each in found] == ["visits"]
    columns = pa.ipc.read_schema(pa.py_buffer(found[0]["table_schema"]))
    assert dict(zip(columns.names, columns.types, strict=True)) == {"user_id": pa.int64(), "page": pa.int64()}
    assert alice.look_up("CommandGetTables", table_types=["VIEW"]).num_rows == 0
    for keys in ("PrimaryKeys", "ExportedKeys", "ImportedKeys"):
        assert alice.look_up(f"CommandGet{keys}", table="visits").num_rows == 0
    assert alice.look_up("CommandGetCrossReference").num_rows == 0
    known = {row["info_name"]: row["value"] for row in alice.look_up("CommandGetSqlInfo").to_pylist()}
    assert (known[0], known[3], known[8]) == ("dpsql", True, 0)
    assert alice.look_up("CommandGetSqlInfo", info=[3, 999]).num_rows == 1
    assert alice.look_up("CommandGetXdbcTypeInfo", data_type=12).column(0).to_pylist() == ["VARCHAR"]


# -- cancelling


def test_a_ticket_that_is_cancelled_charges_nothing(flight: Flight, alice: Program, bob: Program) -> None:
    before, info = flight.spent, alice.query(new())
    request = write(m.CANCEL_REQUEST, {"info": info.serialize()})
    (by_other,) = bob.act("CancelFlightInfo", request)
    assert read(m.CANCEL_RESULT, by_other)["status"] == m.NOT_CANCELLABLE
    (answer,) = alice.act("CancelFlightInfo", request)
    assert read(m.CANCEL_RESULT, answer)["status"] == m.CANCELLED
    with pytest.raises(REFUSED, match="the ticket is not known"):
        alice.fetch(info)
    assert flight.spent == before


# -- logins


def test_all_that_is_wrong_with_a_login_has_one_text(flight: Flight) -> None:
    said = []
    for name, password in [("alice", "wrong"), ("nobody", "wrong"), ("x" * 300, "y"), ("alice", "z" * 2000)]:
        with pytest.raises(fl.FlightUnauthenticatedError) as refused:
            fl.FlightClient(flight.url).authenticate_basic_token(name, password)
        said.append(words(refused))
    assert set(said) == {"name or password is wrong"}


def test_nothing_is_answered_before_a_login(flight: Flight) -> None:
    channel = grpc.insecure_channel(flight.url.removeprefix("grpc://"))
    path = "/arrow.flight.protocol.FlightService/"
    info = command_descriptor("CommandGetSqlInfo")
    for headers in (
        [],
        [("authorization", "Bearer x")],
        [("authorization", "Basic x")],
        [("authorization", "x")],
    ):
        for call in (
            lambda: channel.unary_unary(f"{path}GetFlightInfo")(info, metadata=headers, timeout=10),  # noqa: B023
            lambda: channel.unary_unary(f"{path}GetSchema")(info, metadata=headers, timeout=10),  # noqa: B023
            lambda: list(channel.unary_stream(f"{path}DoGet")(b"", metadata=headers, timeout=10)),  # noqa: B023
            lambda: list(channel.unary_stream(f"{path}ListActions")(b"", metadata=headers, timeout=10)),  # noqa: B023
            lambda: list(channel.unary_stream(f"{path}DoAction")(b"", metadata=headers, timeout=10)),  # noqa: B023
            lambda: list(channel.stream_stream(f"{path}DoPut")(iter([b""]), metadata=headers, timeout=10)),  # noqa: B023
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    channel.close()


def test_messages_beyond_the_limit_and_compressed_ones_are_refused(flight: Flight) -> None:
    path = "/arrow.flight.protocol.FlightService/GetFlightInfo"
    for compression, size, code in [
        (grpc.Compression.NoCompression, (1 << 20) + 1, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (grpc.Compression.Gzip, 1 << 20, grpc.StatusCode.UNIMPLEMENTED),
    ]:
        with grpc.insecure_channel(flight.url.removeprefix("grpc://"), compression=compression) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(path)(bytes(size), timeout=10)
            assert refused.value.code() is code


def test_a_password_with_each_call_has_one_session(flight: Flight) -> None:
    import base64

    pair = base64.b64encode(f"bob:{PASSWORDS['bob']}".encode())
    client = fl.FlightClient(flight.url)
    options = fl.FlightCallOptions(headers=[(b"authorization", b"Basic " + pair)])
    asked = Program.descriptor("CommandStatementQuery", query="SET dp_confidence = 0.75")
    client.do_get(client.get_flight_info(asked, options).endpoints[0].ticket, options).read_all()
    shown = Program.descriptor("CommandStatementQuery", query="SHOW dp_confidence")
    ticket = client.get_flight_info(shown, options).endpoints[0].ticket
    assert client.do_get(ticket, options).read_all().to_pylist() == [{"dp_confidence": "0.75"}]


def test_a_closed_session_is_over(alice: Program) -> None:
    (answer,) = alice.act("CloseSession", b"")
    assert read(m.CLOSE_RESULT, answer)["status"] == m.CLOSED
    with pytest.raises(fl.FlightUnauthenticatedError, match="the login has ended"):
        alice.ask("SELECT 1 AS a")


def test_another_session_ends_the_one_that_was_used_least_recently(flight: Flight) -> None:
    programs = [flight.client("bob") for _ in range(3)]
    programs[0].ask("SELECT 1 AS a")
    programs.append(flight.client("bob"))
    with pytest.raises(fl.FlightUnauthenticatedError, match="the login has ended"):
        programs[1].ask("SELECT 1 AS a")
    for program in (programs[0], *programs[2:]):
        assert program.ask("SELECT 1 AS a").num_rows == 1


def test_no_secret_is_logged(flight: Flight, alice: Program) -> None:
    info = alice.query(new())
    alice.fetch(info)
    handle = alice.prepare("SELECT title FROM pages")["prepared_statement_handle"]
    logged = repr(flight.log)
    token = alice.header[1].decode().removeprefix("Bearer ")
    assert len(token) == 43
    for secret in (token, PASSWORDS["alice"], info.endpoints[0].ticket.ticket, handle):
        shown = secret if isinstance(secret, str) else repr(secret)[2:-1]
        assert shown not in logged
        assert (secret if isinstance(secret, str) else secret.hex()) not in logged
    assert any(name == "connected" and fields["protocol"] == "flight" for name, fields in flight.log)


@pytest.mark.parametrize(
    "bytes_", [b"\xff", b"\x0a\xff", b"\x08\x02\x12\x04\x0a\x7fab", b"\x08\x01\x1a\x01a"]
)
def test_malformed_messages_are_told(alice: Program, flight: Flight, bytes_: bytes) -> None:
    name, value = alice.header
    headers = [(name.decode(), value.decode())]
    with grpc.insecure_channel(flight.url.removeprefix("grpc://")) as channel:
        for method in ("GetFlightInfo", "GetSchema"):
            call = channel.unary_unary(f"/arrow.flight.protocol.FlightService/{method}")
            with pytest.raises(grpc.RpcError) as refused:
                call(bytes_, metadata=headers, timeout=10)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
