"""What a policy declares, as the kernel has it: the facts on which proofs rest, for the owner to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from dpsql.engines import open_engine
from dpsql.kernel.facts import Facts, unit_words
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy
from dpsql.policy.kernel_facts import declared_facts_of, facts_of

COLUMNS = ("table", "rows", "columns", "unique", "never_null")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a policy declares of its tables, and which of it proofs use."""

    facts: Facts
    """As declared; the ledger has their hash."""
    used: Facts
    """Without what is not true of the rows of public tables."""
    columns: Mapping[str, str]
    """The columns whose domains are listed, as `table.column`, by the names of the domains' tables."""

    @property
    def table(self) -> pa.Table:
        """The facts as a table of texts: one row for each table, then one for each listed domain."""
        rows = list(self._rows())
        arrays = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)}
        return pa.table(arrays)

    @property
    def text(self) -> str:
        """The facts as text: a paragraph for each table, and one for each listed domain."""
        paragraphs = []
        for name, *cells in self._rows():
            told = zip(COLUMNS[1:], cells, strict=True)
            lines = [f"  {what.replace('_', ' '):<10}  {text}" for what, text in told if text]
            paragraphs.append("\n".join([name, *lines]))
        return "\n".join((*paragraphs, ""))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for table in sorted(self.facts.tables, key=lambda found: found.name):
            used = self.used.table(table.name)
            unused = table.unique - (frozenset() if used is None else used.unique)
            columns = ", ".join(f"{name} {sql_type}" for name, sql_type in table.columns)
            unique = (
                _words(names) + (" (not so in its rows)" if frozenset(names) in unused else "")
                for names in sorted(map(sorted, table.unique))
            )
            yield (
                *(table.name, unit_words(table), columns, ", ".join(unique)),
                ", ".join(sorted(table.not_null)),
            )
        for name, sql_type in sorted(self.facts.domains, key=lambda found: self.columns[found[0]]):
            most = f"distinct public values, {self.facts.places_of(name) or 0:,} at most, in {name}"
            yield f"domain of {self.columns[name]}", most, f"v {sql_type}", "v", "v"


def declared(policy: Policy) -> Declared:
    """Open the data of a policy, and return what it declares of them; no private row is read."""
    engine = open_engine(policy)
    try:
        known = engine.schema_database
        return Declared(declared_facts_of(policy, known), facts_of(policy, known), known.domains.columns())
    finally:
        engine.close()


def _words(names: list[str]) -> str:
    """Return a set of unique columns as text; one of several columns stands in parentheses."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
