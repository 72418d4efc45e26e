"""The check at every statement that a private table is unchanged since it was opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpsql.engines.postgres.catalog import CatalogQuery, CatalogTable, find_table
from dpsql.engines.postgres.schema import index_distinguishes
from dpsql.errors import OperationalError, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, Table, UnitColumn
from dpsql.types import SqlType


@dataclass(frozen=True, slots=True)
class Guard:
    """A private table as the catalog described it when it was opened."""

    table: Table
    source: DatabaseSource
    columns: tuple[tuple[str, SqlType], ...]
    found: CatalogTable

    @property
    def name(self) -> str:
        """The quoted name of the table."""
        return self.found.text

    def check(self, ask: CatalogQuery) -> None:
        """Raise if the table was changed, or if no index enforces a declared unique fact any more."""
        found = find_table(ask, self.table, self.source)
        if found != self.found and self._identity(found) != self._identity(self.found):
            raise OperationalError(self._changes(found))
        self.check_facts(found)

    @property
    def lockable(self) -> bool:
        """Whether PostgreSQL locks it: materialized views it does not."""
        return self.found.relation_kind != "m"

    def _changes(self, found: CatalogTable) -> str:
        """Say what is not as it was when the table was opened, in names of the policy."""
        now = {c.name.lower(): c for c in found.columns}
        for name, _ in self.columns:
            then = next(c for c in self.found.columns if c.name.lower() == name.lower())
            there = now.get(name.lower())
            if there is None:
                return f"table {self.table.name}: its column {name} is gone since it was opened"
            if replace(there, name=then.name) != then:
                return f"table {self.table.name}: its column {name} was altered since it was opened"
        return f"table {self.table.name} was replaced or altered since it was opened"

    def _identity(self, found: CatalogTable) -> tuple[object, ...]:
        names = {name.lower() for name, _ in self.columns}
        read = tuple(c for c in found.columns if c.name.lower() in names)
        return found.oid, found.text, found.relation_kind, found.children, found.definition, read

    def check_facts(self, found: CatalogTable) -> None:
        """Raise `PolicyError` unless an index of the server enforces each declared unique fact."""
        declared = {name.lower(): sql_type for name, sql_type in self.columns}
        seen = {c.name.lower(): c for c in found.columns}
        # Rows whose unit is NULL are not read.
        unit = self.table.unit.column.lower() if isinstance(self.table.unit, UnitColumn) else None
        for fact in self.table.unique:
            there = [seen[c.lower()] for c in fact]
            allowed = {
                c.number
                for c in there
                if index_distinguishes(c, declared[c.name.lower()], c.name.lower() == unit)
            }
            never_null = {c.number for c in there if c.never_null or c.name.lower() == unit}
            if found.children or not any(
                numbers <= allowed and (equal or numbers <= never_null) for numbers, equal in found.indexes
            ):
                listed = ", ".join(fact)
                raise PolicyError(
                    f"tables.{self.table.name}.unique: no index of PostgreSQL keeps ({listed}) unique",
                    hint=f"CREATE UNIQUE INDEX ON {self.name} ({listed}) and NOT NULL on each, of "
                    "whole numbers, NUMERICs, texts, booleans or UUIDs declared with their own types, in a "
                    "table without partitions; or leave the fact out",
                )


def raise_if_changed(guards: Iterable[Guard], ask: CatalogQuery) -> None:
    """Raise `OperationalError` in names of the policy if a table was altered, or may not be read any more."""
    for guard in guards:
        try:
            guard.check(ask)
        except (PolicyError, OperationalError) as problem:
            mend = getattr(problem, "hint", None) or "the owner runs `dpsql check`"
            raise OperationalError(f"{getattr(problem, 'message', problem)} ({mend})") from None
