"""Make the kernel's `Facts` of a policy, and of what the schema database knows of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from dpsql.kernel.facts import ByColumn, ByParent, ByRow, Facts, TableFacts, Unit, fold
from dpsql.policy.model import Policy
from dpsql.policy.parts import UnitColumn, UnitRow, UnitVia
from dpsql.policy.table import Table
from dpsql.types import SqlType


class KnownTables(Protocol):
    """What is known of the declared tables beside the policy."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a table's columns, in order."""

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the declared sets of unique columns; of a public table, those that hold for its rows."""

    def not_null(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has NULL in a column."""

    def listed_domains(self) -> Mapping[str, SqlType]:
        """Return the names of the tables of listed domains, with the types of their values."""

    def places_of_domains(self) -> Mapping[str, int]:
        """Return for each of these tables a number that all its places are less than."""


def facts_of(policy: Policy, known: KnownTables, names: Iterable[str] | None = None) -> Facts:
    """Return the facts on which proofs rest: of all tables, or of some with those through which they belong.

    A proof needs those of the tables that its query reads. What is declared of a public table is tested on
    its rows, which takes time.
    """
    chosen = policy.tables if names is None else _with_parents(policy, names)
    return _facts([policy.tables[name] for name in policy.tables if name in chosen], known, known.unique)


def declared_facts_of(policy: Policy, known: KnownTables) -> Facts:
    """Return the facts of all tables as the policy declares them, untested, for the ledger to tell of.

    They differ from those on which proofs rest in unique columns that a public table does not have.
    """
    return _facts(policy.tables.values(), known, lambda name: policy.tables[name].unique)


Unique = Callable[[str], Iterable[tuple[str, ...]]]
"""Returns the sets of unique columns of a table."""


def _facts(chosen: Iterable[Table], known: KnownTables, unique: Unique) -> Facts:
    tables = tuple(_table(table, known, unique) for table in chosen)
    domains = sorted(known.listed_domains().items(), key=lambda found: found[0])
    return Facts(tables, tuple(domains), tuple(sorted(known.places_of_domains().items())))


def _with_parents(policy: Policy, names: Iterable[str]) -> set[str]:
    """Return the names of tables, and of those through which their rows belong to units."""
    found, waiting = set[str](), [*names]
    while waiting:
        table = policy.table(waiting.pop())
        if table is None or table.name in found:
            continue
        found.add(table.name)
        if isinstance(table.unit, UnitVia):
            waiting.append(table.unit.table)
    return found


def _table(table: Table, known: KnownTables, unique: Unique) -> TableFacts:
    columns = known.columns(table.name)
    return TableFacts(
        name=fold(table.name),
        unit=_unit(table),
        columns=tuple((fold(name), sql_type) for name, sql_type in columns),
        unique=frozenset(frozenset(map(fold, names)) for names in unique(table.name)),
        not_null=frozenset(
            fold(name) for name, _ in columns if not table.public and known.not_null(table.name, name)
        ),
        kind="" if table.unit is None else table.unit.kind,
    )


def _unit(table: Table) -> Unit | None:
    match table.unit:
        case UnitColumn(column=column):
            return ByColumn(fold(column))
        case UnitRow():
            return ByRow()
        case UnitVia(via=via, table=parent, column=key):
            return ByParent(fold(via), fold(parent), fold(key))
    return None
