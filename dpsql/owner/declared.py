"""What a policy declares, as the kernel has it: the facts on which proofs rest, for the owner to compare."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dpsql.engines import open_engine
from dpsql.kernel.facts import Facts, TableFacts, unit_words
from dpsql.policy import Policy
from dpsql.policy.kernel_facts import facts_of

COLUMNS = ("table", "rows", "columns", "unique", "never_null")


def declared_facts(policy: Policy) -> Facts:
    """Open the data of a policy, and return what it declares of them; no private row is read."""
    engine = open_engine(policy)
    try:
        return facts_of(policy, engine.schema_database)
    finally:
        engine.close()


def facts_table(facts: Facts) -> pa.Table:
    """Return the facts as a table of texts: one row for each table, then one for each listed domain."""
    rows = list(_rows(facts))
    return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)})


def facts_text(facts: Facts) -> str:
    """Return the facts as text: a paragraph for each table, and one for each listed domain."""
    paragraphs = []
    for name, *cells in _rows(facts):
        told = zip(COLUMNS[1:], cells, strict=True)
        lines = [f"  {what.replace('_', ' '):<10}  {text}" for what, text in told if text]
        paragraphs.append("\n".join([name, *lines]))
    return "\n".join((*paragraphs, ""))


def _rows(facts: Facts) -> Iterator[tuple[str, ...]]:
    for table in sorted(facts.tables, key=lambda found: found.name):
        yield (
            table.name,
            unit_words(table),
            _columns(table),
            _unique(table),
            ", ".join(sorted(table.not_null)),
        )
    for name, sql_type in sorted(facts.domains, key=lambda found: found[0]):
        words = f"distinct public values, {facts.places_of(name) or 0:,} at most"
        yield f"domain {name}", words, f"v {sql_type}", "v", "v"


def _columns(table: TableFacts) -> str:
    return ", ".join(f"{name} {sql_type}" for name, sql_type in table.columns)


def _unique(table: TableFacts) -> str:
    """Return the sets of unique columns; one of several columns stands in parentheses."""
    sets = sorted(sorted(names) for names in table.unique)
    return ", ".join(names[0] if len(names) == 1 else f"({', '.join(names)})" for names in sets)
