"""Checks at every statement that a private table is the one that was opened; checks of unenforced facts."""

from __future__ import annotations

from typing import Any

from dpsql.engines.spark.catalog import files_of, find_table, identity
from dpsql.engines.spark.schema import columns_of
from dpsql.errors import OperationalError, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, ParquetSource, Policy, Table


@dataclass(frozen=True, slots=True)
class Guard:
    """A private table as the catalog described it when it was opened."""

    table: Table
    view: str
    """The name of the view by which a Parquet file is read."""
    read: tuple[str, ...]
    """The declared columns."""
    found: tuple[object, ...]

    @classmethod
    def of(cls, session: Any, table: Table, view: str, read: list[str]) -> Guard:  # noqa: ANN401  two classes of sessions
        """Describe a table that was just found."""
        made = cls(table, view, tuple(name.lower() for name in read), ())
        return cls(table, view, made.read, made.look(session)[0])

    def check(self, session: Any) -> tuple[object, ...]:  # noqa: ANN401  two classes of sessions
        """Refresh the table and return its version; raise if it is another one, or no table any more."""
        seen: tuple[tuple[object, ...], tuple[object, ...]] | None = None
        try:
            seen = self.look(session)
        except Exception:  # noqa: BLE001  its text may have paths, and the rows that Spark stopped at
            seen = None
        if seen is None or seen[0] != self.found:
            raise OperationalError(f"{self._what(seen)}; nothing was charged")
        return seen[1]

    def _what(self, seen: tuple[tuple[object, ...], tuple[object, ...]] | None) -> str:
        """Say what is not as it was when the table was opened, in names of the policy."""
        if seen is None:
            return f"table {self.table.name} is gone or cannot be read (the owner runs `dpsql check`)"
        then, now = dict(self.found[1]), dict(seen[0][1])  # type: ignore[call-overload]
        for name, word in then.items():
            if now.get(name) != word:
                how = "was altered" if name in now else "is gone"
                return f"table {self.table.name}: its column {name} {how} since it was opened"
        return f"table {self.table.name} was replaced since it was opened (the owner runs `dpsql check`)"

    def look(self, session: Any) -> tuple[tuple[object, ...], tuple[object, ...]]:  # noqa: ANN401  see above
        """Refresh the table; return what it is, and its version."""
        name, schema = find_table(session, self.table, self.view)
        columns = tuple((n, word) for n, word in columns_of(schema) if n.lower() in self.read)
        place = identity(session, name) if isinstance(self.table.source, DatabaseSource) else ()
        return (name, columns, *place), files_of(session, name)


def check_facts(policy: Policy) -> None:
    """Raise `PolicyError` if a table could change unnoticed after its unique facts were tested."""
    for table in policy.tables.values():
        seen = (
            isinstance(table.source, ParquetSource) and table.source.path.is_file()
        )  # its content is its version
        if table.unique and not (table.public or seen or table.trust_source or policy.data_version):
            raise PolicyError(
                f"tables.{table.name}.unique: Spark enforces no uniqueness, and tables may change unnoticed",
                hint='declare data_version = "1" and change it whenever rows are added, or remove unique',
            )
