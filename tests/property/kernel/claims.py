"""Whether a certificate holds of what a query counts with all units, and without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from fuzz.check import plain_values

from dpsql.kernel.check import Certificate, Keys
from dpsql.kernel.tree import Binary, Column, Derived, Expr, Query, Select, Window
from kernel.sites import remade

__all__ = ["Broken", "Counted", "broken", "count", "uncut"]

Row = tuple[object, ...]


class Broken(Exception):  # noqa: N818  what it says
    """A query does not give what its certificate says of any database."""


@dataclass(frozen=True)
class Counted:
    """The groups of a query by the text of their columns, with their numbers and public places."""

    numbers: dict[tuple[str, ...], tuple[int, ...]]
    places: dict[tuple[str, ...], tuple[str, ...]]


def uncut(query: Query, claim: Certificate) -> Query:
    """Return the query of all groups, where a mechanism reads those alone that are largest by a number."""
    if claim.keys is not Keys.UNKNOWN or not isinstance(query, Select):
        return query
    keys = {c for c in claim.columns if claim.number(c) is None}
    if query.limit is not None and _by_size([(t.expr, t.direction) for t in query.order], keys):
        return remade(query, order=(), limit=None)
    match query:
        case Select(source=Derived(Select() as inner), where=Binary("<=", Column(_, name), _), order=()):
            ranks = [i.expr for i in inner.items if i.name == name and isinstance(i.expr, Window)]
            if ranks and _by_size([(t.expr, t.direction) for t in ranks[0].order], keys):
                return remade(query, where=None)
    return query


def _by_size(order: Sequence[tuple[Expr, str]], keys: set[str]) -> bool:
    """Return whether the order is by one number, the largest first, and then by all keys."""
    if not order or order[0][1] != "DESC":
        return False
    names = [expr.name if isinstance(expr, Column) else "" for expr, _ in order]
    return names[0].startswith("n") and set(names[1:]) >= keys


def count(
    connection: duckdb.DuckDBPyConnection, sql: duckdb.Statement, claim: Certificate, *, exact: bool = False
) -> Counted:
    """Count, and tell groups apart by the columns that the certificate names; `Broken` if that is wrong.

    In Python infinity and the last day are one. Where that matters it is counted again, and `exact`.
    """
    if exact:
        table = connection.sql(sql).to_arrow_table()
        names = table.column_names
        whole = [pa.types.is_integer(f.type) or pa.types.is_decimal(f.type) for f in table.schema]
        rows = list(zip(*(plain_values(column) for column in table.columns), strict=True))
    else:
        rows = connection.execute(sql).fetchall()
        names = [str(described[0]) for described in connection.description or ()]
        whole = [str(described[1]) in _WHOLE for described in connection.description or ()]
    wanted = [n.column for n in claim.numbers]
    known = {*claim.columns, *wanted, *claim.places}
    for name in known:
        if names.count(name) != 1:
            raise Broken(f"the certificate names {name} of the columns {names}")
    for name, is_whole in zip(names, whole, strict=True):
        if name not in known:
            raise Broken(f"nothing is certified of the column {name}")
        if name in wanted and not is_whole:
            raise Broken(f"the number {name} is not a whole number")
    at = {name: i for i, name in enumerate(names)}
    numbers: dict[tuple[str, ...], tuple[int, ...]] = {}
    places: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in rows:
        group = tuple(repr(row[at[name]]) for name in claim.columns)
        found = tuple(row[at[name]] for name in wanted)
        if any(n is None for n in found):
            raise Broken(f"group {group} has no number: {found}")
        if group in numbers:
            raise Broken(f"group {group} comes twice")
        numbers[group] = tuple(map(int, found))
        places[group] = tuple(repr(row[at[name]]) for name in claim.places)
    if claim.places and len(set(places.values())) < len(places) and claim.keys is not Keys.CELLS:
        raise Broken("two groups have one place")
    return Counted(numbers, places)


_WHOLE = ("BIGINT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT", "UBIGINT", "UINTEGER", "UHUGEINT")


def broken(claim: Certificate, whole: Counted, less: Counted) -> str:
    """Say what of a certificate fails when one unit is added: `less` is without it; nothing if all holds."""
    fixed = claim.keys in (Keys.ONE, Keys.DECLARED)
    if fixed and whole.numbers.keys() != less.numbers.keys():
        return f"the groups differ: {set(whole.numbers) ^ set(less.numbers)}"
    if claim.keys is Keys.ONE and len(whole.numbers) != 1:
        return f"there are {len(whole.numbers)} groups instead of one"
    if any(less.places[g] != places for g, places in whole.places.items() if g in less.places):
        return "a place differs"
    touched, made, together = set[tuple[str, ...]](), 0, [0] * len(claim.numbers)
    nothing = (0,) * len(claim.numbers)
    for group in {**whole.numbers, **less.numbers}:
        absent = group not in whole.numbers or group not in less.numbers
        made += absent
        old, new = less.numbers.get(group, nothing), whole.numbers.get(group, nothing)
        for place, (change, before, after) in enumerate(zip(claim.numbers, old, new, strict=True)):
            if absent and claim.existence and change.column not in claim.existence:
                continue  # its group is shown by the number of units alone
            if not change.low <= after - before <= change.high:
                bounds = f"[{change.low}, {change.high}]"
                return f"{change.column} of group {group} goes from {before} to {after}, certified {bounds}"
            together[place] += abs(after - before)
            if after != before or absent:
                touched.add(group)
    for change, moves in zip(claim.numbers, together, strict=True):
        if change.total is not None and moves > change.total:
            return f"{change.column} changes by {moves} in all groups, certified {change.total}"
    if claim.most_groups is not None and len(touched) > claim.most_groups:
        return f"one unit changes {len(touched)} groups, certified {claim.most_groups}: {touched}"
    for columns, most in claim.grouped_by:
        at = [i for i, name in enumerate(claim.columns) if name in columns]
        values = {tuple(group[i] for i in at) for group in touched}
        if len(values) > most:
            return f"one unit is in {len(values)} values of {sorted(columns)}, certified {most}"
    return _existing(claim, whole)


def _existing(claim: Certificate, whole: Counted) -> str:
    """Say whether a number that decides existence is below 1 in a group that is there."""
    if claim.keys is not Keys.UNKNOWN:
        return ""
    for place, change in enumerate(claim.numbers):
        if change.column in claim.existence:
            if change.high > 1 or change.low < 0:
                return f"{change.column} decides existence, certified [{change.low}, {change.high}]"
            wrong = [group for group, row in whole.numbers.items() if row[place] < 1]
            if wrong:
                return f"{change.column} decides existence, but is below 1 in {wrong[0]}"
    return ""
