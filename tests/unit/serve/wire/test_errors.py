"""Errors as the protocol sends them: their fields and places, and nothing of the machine."""

from __future__ import annotations

import pickle

import pytest

from dpsql.errors import Obstacle, QueryRefused, QuerySyntaxError
from dpsql.language import StatementText
from dpsql.serve.wire.messages import FatalError, ProtocolViolation, WireError, error_fields


def shown(error: BaseException, text: str = "", offset: int = 0) -> dict[bytes, str]:
    return dict(error_fields(error, text, offset))


def test_a_position_counts_characters_of_what_the_client_sent() -> None:
    sent = "SELECT 'ü';\nSELECT 'é',\n  oops"
    begin = sent.index("SELECT", 5)
    error = StatementText(sent[begin:]).refuse(
        "there is no column oops", sent[begin:].index("oops"), "write name"
    )
    found = shown(error, sent[begin:], begin)
    assert found[b"P"] == str(sent.index("oops") + 1)
    assert (found[b"S"], found[b"V"], found[b"C"]) == ("ERROR", "ERROR", "0A000")
    assert (found[b"M"], found[b"H"]) == ("there is no column oops", "write name")


def test_all_obstacles_and_the_accepted_statement_are_shown() -> None:
    error = QueryRefused("first")
    error.obstacles = (*error.obstacles, *(Obstacle(f"number {n}") for n in range(2, 12)))
    error.rewrite = "SELECT 1"
    found = shown(error)
    assert found[b"H"] == "would be accepted:\nSELECT 1"
    assert found[b"D"].startswith("2: number 2\n3: number 3\n")
    assert found[b"D"].endswith("8: number 8\nand 3 more")
    assert b"P" not in found


def test_what_is_no_error_of_dpsql_shows_nothing_of_itself() -> None:
    found = shown(ValueError("patient 17 has Asthma"))
    assert found[b"C"] == "XX000"
    assert "Asthma" not in "".join(found.values())


@pytest.mark.parametrize("error", [FatalError("over", "57P01"), ProtocolViolation("no")])
def test_an_error_that_ends_the_connection_is_fatal(error: FatalError) -> None:
    assert shown(error)[b"S"] == "FATAL"


def test_fields_that_tell_of_the_machine_are_never_sent() -> None:
    error = QuerySyntaxError("no", hint="yes", line=1, col=1, source="x")
    assert set(shown(error)) <= {b"S", b"V", b"C", b"M", b"D", b"H", b"P"}


@pytest.mark.parametrize(
    "error", [WireError("no", "25P02", "end it"), FatalError("x", "57P01"), ProtocolViolation("x")]
)
def test_errors_can_be_pickled(error: WireError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args, copy.sqlstate, copy.hint) == (
        type(error),
        error.args,
        error.sqlstate,
        error.hint,
    )
