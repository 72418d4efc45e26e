"""Messages that were changed at random are answered or refused: nothing is charged, and no bug is met."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

pytest.importorskip("grpc")
from dpsql.errors import Error
from dpsql.serve.flight import messages as m
from dpsql.serve.flight.calls import Calls
from dpsql.serve.flight.protobuf import MalformedMessageError, write
from dpsql.serve.flight.sessions import Session

from .conftest import PASSWORDS, Flight, command_descriptor

REFUSALS = (Error, MalformedMessageError)


def seeds() -> dict[str, list[bytes]]:
    """Return valid messages for each method."""
    named = {"table_name_filter_pattern": "v%", "include_schema": True, "table_types": ["TABLE"]}
    commands = [
        command_descriptor("CommandStatementQuery", query="SELECT title FROM pages WHERE page = 1"),
        command_descriptor("CommandStatementQuery", query="SELECT COUNT(*) AS n FROM visits"),
        command_descriptor("CommandGetTables", catalog="shop", **named),
        command_descriptor("CommandGetDbSchemas", catalog="shop", db_schema_filter_pattern="p_b%"),
        command_descriptor("CommandGetSqlInfo", info=[0, 3, 8]),
        command_descriptor("CommandGetXdbcTypeInfo", data_type=-7),
        command_descriptor("CommandPreparedStatementQuery", prepared_statement_handle=b"x" * 16),
    ]
    text = write(m.OPTION_VALUE, {"text": "0.9"})
    entry = write(m.OPTION_ENTRY, {"key": "dp_confidence", "value": text})
    ticket = write(m.TICKET, {"ticket": b"x" * 32})
    info = write(m.INFO, {"endpoint": [write(m.ENDPOINT, {"ticket": ticket})]})
    bodies = {
        "CreatePreparedStatement": m.write_any(
            "ActionCreatePreparedStatementRequest", {"query": "SELECT title FROM pages WHERE page = ?"}
        ),
        "ClosePreparedStatement": m.write_any(
            "ActionClosePreparedStatementRequest", {"prepared_statement_handle": b"x"}
        ),
        "CancelFlightInfo": write(m.CANCEL_REQUEST, {"info": info}),
        "CancelQuery": m.write_any("ActionCancelQueryRequest", {"info": info}),
        "SetSessionOptions": write(m.SET_OPTIONS, {"session_options": [entry]}),
        "GetSessionOptions": b"",
    }
    batch = pa.record_batch({"a": [1], "b": ["x"], "c": [1.5]})
    message = pa.ipc.read_message(batch.schema.serialize())
    data = {"flight_descriptor": commands[-1], "data_header": message.metadata.to_pybytes()}
    return {
        "info": commands,
        "schema": commands,
        "act": [write(m.ACTION, {"type": name, "body": body}) for name, body in bodies.items()],
        "get": [ticket],
        "put": [write(m.DATA, data)],
    }


def mutated(random_: random.Random, data: bytes) -> bytes:
    """Change, drop, repeat or add a few bytes."""
    made = bytearray(data)
    for _ in range(random_.randint(0, 4)):
        at = random_.randrange(len(made) + 1)
        match random_.randrange(4):
            case 0:
                made[at:at] = random_.randbytes(random_.randint(1, 4))
            case 1:
                del made[at : at + random_.randint(1, 8)]
            case 2 if at < len(made):
                made[at] ^= 1 << random_.randrange(8)
            case _:
                made[at:at] = made[at : at + random_.randint(1, 16)]
    return bytes(made)


async def answered(calls: Calls, session: Session, method: str, data: bytes) -> None:
    async def once() -> object:
        yield data

    if method == "get":
        async for _ in calls.get(session, data):
            pass
    elif method == "put":
        await calls.put(session, once())  # type: ignore[arg-type]  # it yields bytes
    else:
        await getattr(calls, method)(session, data)


def mutations(flight: Flight, rounds: int, seed: int) -> None:
    random_, front, before = random.Random(seed), flight.front, flight.spent

    async def main() -> None:
        token = await front._sessions.log_in("alice", PASSWORDS["alice"], "192.0.2.7", None)
        session = await front._sessions.of_call(f"Bearer {token}", "192.0.2.7", None)
        given = seeds()
        for _ in range(rounds):
            method = random_.choice(list(given))
            data = mutated(random_, random_.choice(given[method]))
            try:
                await answered(front._calls, session, method, data)
            except REFUSALS:
                continue
            except Exception as problem:
                raise AssertionError((method, data)) from problem

    flight.call(main(), 600)
    assert flight.spent == before


def test_changed_messages_are_answered_or_refused(flight: Flight) -> None:
    mutations(flight, 300, 22)


@pytest.mark.slow
def test_very_many_changed_messages_are_answered_or_refused(flight: Flight) -> None:
    mutations(flight, 30_000, 23)
