"""Price and describe one statement of a program, and say what its ticket will do. Nothing is charged here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsql.language import Outline
from dpsql.ledger import shown
from dpsql.privacy import Charge
from dpsql.serve.flight.arrow import size_of
from dpsql.serve.flight.errors import FlightError
from dpsql.serve.placeholders import conformed
from dpsql.serve.wire import command_types as c
from dpsql.serve.wire.statement import Statement, check_length, several, single

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.serve.answer import Answer
    from dpsql.serve.flight.sessions import Session

RELEASE, NOTICES = b"dpsql.release", b"dpsql.notices"
"""The metadata of an answer's schema: what a release says beside its rows, and the notices, as JSON."""
_ALL = ("name", "setting", "description")


@dataclass
class Offer:
    """What a ticket will give: its columns, the price, the work that gives the rows."""

    schema: pa.Schema
    work: Callable[[], Awaitable[pa.Table]]
    size: int = 0
    """Bytes that are kept for it until its ticket is redeemed, about."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the client is told beside the columns."""


async def offer(
    session: Session,
    text: str,
    longest: int,
    values: Sequence[object] = (),
    types: Sequence[pa.DataType | None] = (),
    size: int = 0,
) -> Offer:
    """Return the offer for a statement; raises what asking it would raise before anything is charged.

    `size` is that of the values, in bytes.
    """
    command = await _command(session, text, longest)
    if command is not None:
        if values:
            raise FlightError("42P02", "this statement takes no parameters")
        return _of_command(session, command)
    quoted = await session.turn.take(session.client.quote(text, values, types))
    # What reads nothing private costs nothing, also if the policy is read again meanwhile and it does then.
    most = Charge() if quoted.price is None else quoted.price

    async def work() -> pa.Table:
        asked = session.client.answer(text, values, types, most=most)
        return _shown(await session.turn.take(asked), quoted.schema)

    facts: dict[str, Any] = {"kind": quoted.kind}
    if quoted.price is not None:
        epsilon, delta = (float(shown(each, up=True)) for each in (quoted.price.epsilon, quoted.price.delta))
        facts |= {"epsilon": epsilon, "delta": delta}
    return Offer(quoted.schema, work, size_of(text) + size, facts)


async def description(session: Session, text: str, longest: int) -> tuple[tuple[pa.DataType, ...], pa.Schema]:
    """Return the types of a statement's parameters, and its columns; a price needs not be agreed for it."""
    command = await _command(session, text, longest)
    if command is not None:
        return (), _of_command(session, command).schema
    found = await session.turn.take(session.client.describe(text))
    return found.parameters, pa.schema([(column.name, column.type) for column in found.columns])


async def _command(session: Session, text: str, longest: int) -> c.Command | None:
    """Return the command of the session that a text is; raises unless it is one statement."""
    check_length(text, longest)
    found: Sequence[Statement] | None = single(text)
    if found is None:
        found = await session.client.beside(len(text), lambda: several(text))
    if len(found) != 1:
        raise FlightError("42601", "expected one statement", "send each statement by itself")
    statement = found[0]
    if not statement.may_be_command:
        return None
    return await session.client.beside(len(text), lambda: statement.command)


def _of_command(session: Session, command: c.Command) -> Offer:
    settings = session.settings
    match command:
        case c.SetSetting(local=False):
            done = _nothing(lambda: settings.set(command.name, command.value))
        case c.ResetSetting():
            done = _nothing(lambda: settings.reset(command.name))
        case c.ShowSetting():
            name = settings.show(command.name)[0]
            return _texts((name,), lambda: [(settings.show(name)[1],)])
        case c.ShowAll():
            return _texts(_ALL, settings.show_all)
        case _:
            raise FlightError(
                "0A000",
                "Flight SQL has no transactions, cursors or COPY here",
                "each statement stands by itself, and its rows come as Arrow data",
            )
    return Offer(pa.schema([]), done, facts={"kind": "command"})


def _nothing(change: Callable[[], object]) -> Callable[[], Awaitable[pa.Table]]:
    async def work() -> pa.Table:
        change()
        return pa.schema([]).empty_table()

    return work


def _texts(names: Sequence[str], rows: Callable[[], Sequence[Sequence[str]]]) -> Offer:
    schema = pa.schema([(name, pa.string()) for name in names])

    async def work() -> pa.Table:
        found = rows()
        columns = [pa.array([row[place] for row in found], pa.string()) for place in range(len(names))]
        return pa.Table.from_arrays(columns, schema=schema)

    return Offer(schema, work, facts={"kind": "command"})


def _shown(answer: Answer, schema: pa.Schema) -> pa.Table:
    """Return the rows of an answer as they were announced, with what is said beside them as metadata."""
    table = conformed(answer.table, schema)
    metadata = {}
    if answer.notices:
        said = [{"severity": each.severity, "text": each.text, "hint": each.hint} for each in answer.notices]
        metadata[NOTICES] = json.dumps(said)
    if answer.release is not None:
        metadata[RELEASE] = json.dumps(release_facts(answer.release))
    return table.replace_schema_metadata(metadata or None)


def release_facts(release: Release) -> dict[str, Any]:
    """Return what a release says beside its rows; `epsilon` and `delta` are what this answer was charged."""
    new = [part.charge for part in release.parts or (release,) if part.reused is None]
    found = {
        "number": release.number,
        "epsilon": float(shown(sum((each.epsilon for each in new), Fraction(0)), up=True)),
        "delta": float(shown(sum((each.delta for each in new), Fraction(0)), up=True)),
        "selection": release.selection,
        "mechanism": release.mechanism,
        "guarantee": release.guarantee,
        "confidence": float(release.confidence),
        "warnings": list(release.warnings),
        "assumed": [str(each) for each in release.assumed],
        "receipt": release.receipt or None,
        "reused": None if release.reused is None else release.reused.isoformat(),
        "charged_again": release.charged_again or None,
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def numbered(text: str) -> str:
    """Return a statement whose parameters `?` are `$1`, `$2`, .., as those of other protocols.

    >>> numbered("SELECT '?' FROM t WHERE a = ? AND b = ?")
    "SELECT '?' FROM t WHERE a = $1 AND b = $2"
    >>> numbered("SELECT $1, ?")
    'SELECT $1, ?'
    """
    if "?" not in text:
        return text
    tokens = Outline.of(text).tokens
    kinds = [token.token_type.name for token in tokens]
    if "PARAMETER" in kinds:
        return text
    places = [token.start for token, kind in zip(tokens, kinds, strict=True) if kind == "PLACEHOLDER"]
    parts, at = [], 0
    for number, place in enumerate(places, 1):
        parts += [text[at:place], f"${number}"]
        at = place + 1
    return "".join([*parts, text[at:]])
