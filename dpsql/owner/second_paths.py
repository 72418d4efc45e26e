"""Finds other ways from a table's rows to units of its kind, and reports rows where these disagree."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.engines.exact import ExactQueries
from dpsql.owner.findings import Report
from dpsql.owner.naming import is_bare_key, names_rows
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, fold, path_of
from dpsql.types import SqlType


def verify_second_paths(report: Report, inspector: ExactQueries, policy: Policy, table: Table) -> set[str]:
    """Report rows that belong to one unit as declared and to another one in another way.

    Returns the folded names of the columns that name units, which were compared.
    """
    compared = set()
    for column, other in _find_others(inspector, policy, table):
        differ, rows = inspector.disagreeing(table.name, other)
        if differ:
            text = (
                f"{differ:,} of {rows:,} rows have another {other.kind} by it than by "
                f"{_describe_way(policy, table)}: the declared one counts, the other is not protected in "
                f"them; correct them, or write unit = {_write_unit(other)} if that is right"
            )
            report.add("note", table.place("columns", column), text)
        if isinstance(other, UnitColumn) and rows:
            compared.add(fold(column))
    return compared


def _find_others(
    inspector: ExactQueries, policy: Policy, table: Table
) -> Iterator[tuple[str, UnitColumn | UnitVia]]:
    """Yield the columns that lead to a unit of the table's kind by their names, each with its way."""
    own = table.unit
    if not isinstance(own, UnitColumn | UnitVia):
        return
    columns, declared = inspector.readers[table.name].columns, _declared_way(own)
    direct = set()
    for parent in policy.tables.values():
        unit = parent.unit
        if parent is table or parent.trust_source or unit is None or unit.kind != own.kind:
            continue
        whom = unit.column if isinstance(unit, UnitColumn) else ""
        for name, kind in columns:
            if name in direct or is_bare_key(name) or fold(name) not in {fold(whom)} - {declared[-1]}:
                continue
            if _alike(kind, _type_of(inspector, parent, whom)):
                direct.add(name)
                yield name, UnitColumn(name, own.kind)
        if table in path_of(policy.tables, parent):
            continue  # its rows find their unit here
        for key in (fact[0] for fact in parent.unique if len(fact) == 1 and fold(fact[0]) != fold(whom)):
            for name, kind in columns:
                same = fold(name) == fold(key) and not is_bare_key(name)
                leads = same or names_rows(name, parent.name, key)
                other = (fold(parent.name), fold(name)) != declared
                if leads and other and _alike(kind, _type_of(inspector, parent, key)):
                    yield name, UnitVia(name, parent.name, key, own.kind)


def _declared_way(unit: UnitColumn | UnitVia) -> tuple[str, str]:
    """Return the table to which the declared way leads first, and the column by which it does."""
    return (fold(unit.table), fold(unit.via)) if isinstance(unit, UnitVia) else ("", fold(unit.column))


def _type_of(inspector: ExactQueries, table: Table, column: str) -> SqlType:
    return next(kind for name, kind in inspector.readers[table.name].columns if fold(name) == fold(column))


def _alike(one: SqlType, other: SqlType) -> bool:
    return one == other or (one.integer and other.integer)


def _describe_way(policy: Policy, table: Table) -> str:
    if isinstance(table.unit, UnitColumn):
        return table.unit.column
    return "the path through " + ", ".join(parent.name for parent in path_of(policy.tables, table))


def _write_unit(unit: UnitColumn | UnitVia) -> str:
    """Write a unit as the policy does."""
    if isinstance(unit, UnitVia):
        return f'{{ via = "{unit.via}", table = "{unit.table}", column = "{unit.column}" }}'
    return f'"{unit.column}"' + (
        f' and unit_kind = "{unit.kind}"' if unit.kind != UnitColumn("").kind else ""
    )
