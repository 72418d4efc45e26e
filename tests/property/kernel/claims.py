"""Whether a certificate holds of what a query counts with all units, and without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from fuzz.check import plain_values

from dpsql.kernel.check import Certificate, Change, Keys
from dpsql.kernel.tree import Query, Select, plain
from kernel.sites import remade

__all__ = [
    "Broken",
    "Counted",
    "Fetched",
    "Reached",
    "broken",
    "certified",
    "count",
    "cut_wrongly",
    "ends_of_row",
    "fetch",
    "read",
    "uncut",
]


class Broken(Exception):  # noqa: N818  what it says
    """A query does not give what its certificate says of any database."""


Group = tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """The groups of a query by the text of all columns that are no numbers, with their numbers."""

    names: tuple[str, ...]
    numbers: dict[Group, tuple[int, ...]]


@dataclass(frozen=True)
class Fetched:
    """The columns of a query, whether each has whole numbers, and its rows."""

    names: tuple[str, ...]
    whole: tuple[bool, ...]
    rows: list[tuple[Any, ...]]

    def same(self, other: Fetched) -> bool:
        """Return whether the rows are those of another one, whatever their order."""
        return sorted(map(repr, self.rows)) == sorted(map(repr, other.rows))


def uncut(query: Query, claim: Certificate) -> Query:
    """Return the query of all groups, where only those are left that are largest by a number."""
    made = plain(query)
    if claim.largest is None or not isinstance(made, Select):
        return query
    query = made
    return remade(query, order=(), limit=None) if query.limit is not None else remade(query, where=None)


def count(
    connection: duckdb.DuckDBPyConnection, sql: duckdb.Statement, claim: Certificate, *, exact: bool = False
) -> Counted:
    """Count, and tell groups apart by the columns that are no numbers; `Broken` if that is wrong."""
    return read(fetch(connection, sql, exact=exact), claim)


def fetch(
    connection: duckdb.DuckDBPyConnection, sql: duckdb.Statement | str, *, exact: bool = False
) -> Fetched:
    """Return the columns and the rows of a query.

    In Python infinity and the last day are one. Where that matters it is counted again, and `exact`.
    """
    if exact:
        table = connection.sql(sql).to_arrow_table()
        whole = [pa.types.is_integer(f.type) or pa.types.is_decimal(f.type) for f in table.schema]
        rows = list(zip(*(plain_values(column) for column in table.columns), strict=True))
        return Fetched(tuple(table.column_names), tuple(whole), rows)
    rows = connection.execute(sql).fetchall()
    described = connection.description or ()
    names = tuple(str(each[0]) for each in described)
    return Fetched(names, tuple(str(each[1]) in _WHOLE for each in described), rows)


def read(fetched: Fetched, claim: Certificate) -> Counted:
    """Return the numbers of each group; `Broken` if they are not as a certificate says."""
    names, whole, rows = fetched.names, fetched.whole, fetched.rows
    wanted = [n.column for n in claim.numbers]
    for name in {*claim.columns, *wanted, *set().union(*claim.distinct)}:
        if names.count(name) != 1:
            raise Broken(f"the certificate names {name} of the columns {names}")
    for name, is_whole in zip(names, whole, strict=True):
        if name in wanted and not is_whole:
            raise Broken(f"the number {name} is not a whole number")
    at = {name: i for i, name in enumerate(names)}
    others = [name for name in names if name not in wanted]
    numbers: dict[Group, tuple[int, ...]] = {}
    for row in rows:
        group = tuple(repr(row[at[name]]) for name in others)
        found = tuple(row[at[name]] for name in wanted)
        if any(n is None for n in found):
            raise Broken(f"group {group} has no number: {found}")
        if group in numbers:
            raise Broken(f"group {group} comes twice")
        numbers[group] = tuple(map(int, found))
    for names_ in claim.distinct:
        places = [others.index(name) for name in names_ if name in others]
        if len({tuple(group[i] for i in places) for group in numbers}) < len(numbers):
            raise Broken(f"two groups are equal in {sorted(names_)}")
    return Counted(tuple(others), numbers)


_WHOLE = ("BIGINT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT", "UBIGINT", "UINTEGER", "UHUGEINT")


Reached = set[tuple[str, int, int]]
"""What changed as much as is certified: a number in a group, one in all groups, the groups of a unit."""


def broken(claim: Certificate, whole: Counted, less: Counted, reached: Reached | None = None) -> str:
    """Say what of a certificate fails when one unit is added: `less` is without it; nothing if all holds.

    What changes as much as it may is added to `reached`.
    """
    reached = set() if reached is None else reached
    if claim.keys in (Keys.ONE, Keys.DECLARED) and whole.numbers.keys() != less.numbers.keys():
        return f"the groups differ: {set(whole.numbers) ^ set(less.numbers)}"
    if claim.keys is Keys.ONE and len(whole.numbers) > 1:  # there is none of an empty domain
        return f"there are {len(whole.numbers)} groups instead of one"
    touched, together = set[Group](), [0] * len(claim.numbers)
    nothing = (0,) * len(claim.numbers)
    fewer, more = _of_groups(claim, less), _of_groups(claim, whole)
    repeated = fewer is not None and more is not None
    for group in {**whole.numbers, **less.numbers}:
        absent = group not in whole.numbers or group not in less.numbers
        old, new = less.numbers.get(group, nothing), whole.numbers.get(group, nothing)
        for found in claim.together:
            pairs = zip(claim.numbers, old, new, strict=True)
            moves = sum(abs(m - n) for change, n, m in pairs if change.column in found.columns)
            if not absent and moves > found.each:
                return f"{sorted(found.columns)} change by {moves} together, certified {found.each}"
        for place, (change, before, after) in enumerate(zip(claim.numbers, old, new, strict=True)):
            if (absent and _by_others(claim, change)) or (repeated and change.column == claim.decides):
                continue
            low, high = _ends(claim, change, whole.names, group)
            if not low <= after - before <= high:
                return f"{change.column} of {group} goes from {before} to {after}, certified [{low}, {high}]"
            together[place] += abs(after - before)
            if abs(after - before) == max(-low, high):
                reached.add(("number", low, high))
            if after != before or (absent and claim.keys is Keys.UNKNOWN):
                touched.add(group)
    for found in claim.together:
        mine = [i for i, change in enumerate(claim.numbers) if change.column in found.columns]
        moves = sum(together[i] for i in mine)
        if found.total is not None and moves > found.total:
            return f"{sorted(found.columns)} change by {moves} together, certified {found.total}"
    for change, moves in zip(claim.numbers, together, strict=True):
        if change.total is not None and moves > change.total:
            return f"{change.column} changes by {moves} in all groups, certified {change.total}"
        if moves == change.total:
            reached.add(("all groups", 0, moves))
    if claim.most_groups == len(touched):
        reached.add(("groups", 0, len(touched)))
    if claim.most_groups is not None and len(touched) > claim.most_groups:
        return f"one unit changes {len(touched)} groups, certified {claim.most_groups}: {touched}"
    for columns, most in claim.grouped_by:
        at = [i for i, name in enumerate(whole.names) if name in columns]
        values = {tuple(group[i] for i in at) for group in touched}
        if columns <= set(whole.names) and len(values) > most:
            return f"one unit is in {len(values)} values of {sorted(columns)}, certified {most}"
    cells = {name for name, _ in claim.cells}
    cells = {"n0"} & cells or cells
    at = [i for i, name in enumerate(whole.names) if name not in cells]
    if claim.one_cell and len({tuple(group[i] for i in at) for group in touched}) < len(touched):
        return f"one unit is in several cells of a group: {touched}"
    decides = claim.number(claim.decides) if repeated and claim.decides else None
    return _decided(decides, fewer or {}, more or {}) or _there(claim, whole)


def certified(claim: Certificate) -> Reached:
    """Return what a unit changes at most, in the words of `broken`."""
    found = {("number", change.low, change.high) for change in claim.numbers if change.low or change.high}
    found |= {("all groups", 0, change.total) for change in claim.numbers if change.total is not None}
    return found | ({("groups", 0, claim.most_groups)} if claim.most_groups is not None else set())


def _by_others(claim: Certificate, change: Change) -> bool:
    """Return whether other units may count in a group that is there by one: its number alone decides that."""
    decides = None if claim.decides is None else claim.number(claim.decides)
    return decides is not None and change is not decides and decides.high <= 1


def _of_groups(claim: Certificate, counted: Counted) -> dict[Group, int] | None:
    """Return the number that decides which groups there are by group, if all its cells have it."""
    cells = {name for name, _ in claim.cells}
    cells = {"n0"} & cells or cells
    place = next((i for i, n in enumerate(claim.numbers) if n.column == claim.decides), None)
    if not cells or place is None:
        return None
    at = [i for i, name in enumerate(counted.names) if name not in cells]
    numbers: dict[Group, int] = {}
    for group, row in counted.numbers.items():
        if numbers.setdefault(tuple(group[i] for i in at), row[place]) != row[place]:
            return None
    return numbers


def _decided(change: Change | None, before: dict[Group, int], after: dict[Group, int]) -> str:
    """Say whether the number that decides which groups there are changes too much."""
    for group in {**before, **after} if change is not None else {}:
        moved = after.get(group, 0) - before.get(group, 0)
        if change is not None and not change.low <= moved <= change.high:
            return f"{change.column} of {group} changes by {moved}, certified [{change.low}, {change.high}]"
    return ""


def _ends(claim: Certificate, change: Change, names: tuple[str, ...], group: Group) -> tuple[int, int]:
    """Return the ends of the change of a number in a group, of a search that of the group's rung."""
    if claim.bounds and claim.columns == ("n0",):
        return ends_of_row(claim.bounds, claim.fine, int(group[names.index("n0")]), change)
    return change.low, change.high


def ends_of_row(bounds: tuple[int, ...], fine: int | None, row: int, change: Change) -> tuple[int, int]:
    """Return the ends of the change of a number of a search, in the row of units above so many bounds."""
    if change.column not in ("n3", "n4", "n6") or row >= len(bounds):
        return change.low, change.high
    last = bounds[row - 1] if row else 0
    most = bounds[row] - (last if change.column != "n3" else 0)
    if fine is not None and change.column == "n3":
        most = -(-most // max(last // fine, 1))
    return (-most if change.low < 0 else 0), most


def _there(claim: Certificate, whole: Counted) -> str:
    """Say whether the number that decides which groups there are is below 1, or a cell has no place."""
    for place, change in enumerate(claim.numbers):
        if change.column == claim.decides:
            wrong = [group for group, row in whole.numbers.items() if row[place] < 1]
            if wrong:
                return f"{change.column} decides which groups there are, but is below 1 in {wrong[0]}"
    for name, (low, high) in claim.cells:
        place = whole.names.index(name)
        there = [group[place] for group, row in whole.numbers.items() if any(row)]
        numbers = {cell: int(cell == "True") if cell in ("True", "False") else int(cell) for cell in there}
        beyond = [cell for cell, number in numbers.items() if not low <= number <= high]
        if beyond:
            return f"the cell {beyond[0]} of {name} is not between {low} and {high}"
    return ""


def cut_wrongly(claim: Certificate, every: Counted, left: Counted) -> str:
    """Say whether those groups that are left are not the largest by the number that the certificate names."""
    largest = claim.largest
    if largest is None or claim.number(largest.column) is None:
        return ""  # without the number nothing can be read of it
    (place,) = (i for i, n in enumerate(claim.numbers) if n.column == largest.column)
    at = [every.names.index(name) for name in sorted(largest.within)]
    sizes: dict[Group, list[int]] = {}
    cut: dict[Group, list[int]] = {}
    kept = {tuple(g[every.names.index(n)] for n in claim.columns) for g in every.numbers}
    for group, row in every.numbers.items():
        sizes.setdefault(tuple(group[i] for i in at), []).append(row[place])
    at = [left.names.index(name) for name in sorted(largest.within)]
    for group, row in left.numbers.items():
        if tuple(group[left.names.index(n)] for n in claim.columns) not in kept:
            return f"{group} is among the largest groups only"
        cut.setdefault(tuple(group[i] for i in at), []).append(row[place])
    for within, values in sizes.items():
        if sorted(values)[::-1][: largest.most] != sorted(cut.get(within, []))[::-1]:
            return f"{largest.most} largest of {sorted(values)} are not {sorted(cut.get(within, []))}"
    return ""
