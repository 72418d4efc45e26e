"""Refuse conversions of texts over released rows that may fail: a failure would come after the charge.

Each is tried on all values that its text may have: those of a constant, of a public table, or the declared
ones of a released key. Where these are not known, it may fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.errors import Fix, OperationalError, ProgrammingError, QueryRefused
from dpsql.kernel.tree import literal_sql, quote
from dpsql.language import Outline, Query, find_nodes
from dpsql.policy import fold

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.analysis.text_conversions import TextConversion
    from dpsql.engines.schema_database import SchemaDatabase

_MOST_TRIED = 100_000
"""The most declared groups of which a conversion is tried."""
_CONDITIONED = (exp.Connector, exp.Not, exp.Where, exp.Having, exp.Qualify, exp.If, exp.Join, exp.Filter)
"""What reads a condition."""


def refuse_failing(
    query: Query, made: Sequence[TextConversion], database: SchemaDatabase, plans: Mapping[str, Plan]
) -> None:
    """Refuse a statement with a conversion that may fail; `plans` has those of its released relations."""
    for each in made:
        if _may_fail(each, database, plans):
            raise _refuse(query, each)


def _may_fail(made: TextConversion, database: SchemaDatabase, plans: Mapping[str, Plan]) -> bool:
    """Return whether a conversion fails for some value that its text may have, as far as is known."""
    rows, least = _find_values(made, plans)
    if rows is None or made.tried is None:
        return True
    fails = f"{made.value} IS NOT NULL AND {made.tried} IS NULL"
    with suppress(OperationalError, ProgrammingError, QueryRefused):
        found = database.run(f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {fails}) FROM ({rows}) AS r")
        known, failing = (column[0].as_py() for column in found.columns)
        return bool(known < least or failing)
    return True


def _find_values(made: TextConversion, plans: Mapping[str, Plan]) -> tuple[str | None, int]:
    """Return the SELECT of all values `v` of a text, and how many rows it has at least; None if not known."""
    if made.text is not None:
        return f"SELECT {literal_sql(made.text)} AS v", 1
    if made.origin is None:
        return None, 0
    table, column = made.origin
    if made.public:
        return f"SELECT {quote(column)} AS v FROM main.{quote(table)}", 0
    plan = plans[fold(table)]
    output = next((o for o in plan.outputs if fold(o.name) == fold(column)), None)
    size, sparse = plan.domain_size, plan.compiled.sparse is not None
    if output is None or output.kind != "key" or size is None or size > _MOST_TRIED or sparse:
        return None, 0
    # The private tables are empty there, so it has the declared groups alone.
    return f"SELECT k{output.of} AS v FROM ({plan.compiled.sql}) AS g", size - plan.outside


def _refuse(query: Query, made: TextConversion) -> QueryRefused:
    """Return the refusal of a conversion over released rows that may fail after the charge."""
    source, tree, outline = query.source, query.tree, Outline.of(query.source.text)
    if made.text is not None:
        texts = find_nodes(tree, exp.Literal)
        text = next((n for n in texts if n.args.get("is_string") and str(n.this) == made.text), None)
        return source.refuse(f"this text is not a valid {made.type}", text, f"CAST(NULL AS {made.type})")
    said = f"a text of {made.column} may not be a valid {made.type}"
    if made.type == "strptime":
        said = f"a text of {made.column} may not have the format"
        call = next((t for t in outline.tokens if t.text.lower() == "strptime"), None)
        if call is None:
            return source.refuse(said, _find_last(outline, made.column), "try_strptime(..)")
        return source.refuse(said, call.start, "try_strptime", Fix("try_strptime", call.start, call.end + 1))
    if made.type.startswith("date"):
        said = f"{made.type} reads no part of a time from {made.column}"
        return source.refuse(said, _find_last(outline, made.column), "name the part: 'month'")
    for cast in find_nodes(tree, exp.Cast):
        span = outline.span(cast.this)
        reads = any(fold(n.name) == fold(made.column) for n in find_nodes(cast.this, exp.Column))
        if span is None or not reads or isinstance(cast, exp.TryCast):
            continue
        before = re.search(r"(?i)\bCAST\s*\(\s*\Z", source.text[: span[0]])
        if before is not None:
            start = before.start()
            return source.refuse(said, start, "TRY_CAST", Fix("TRY_CAST", start, start + len("CAST")))
        behind = re.compile(r"\s*::\s*(\w+)(?!\s*\()").match(source.text, span[1])
        if behind is not None:
            written = f"TRY_CAST({source.text[slice(*span)]} AS {behind[1]})"
            return source.refuse(said, span[0], written, Fix(written, span[0], behind.end()))
    named = [n for n in find_nodes(tree, exp.Column) if fold(n.name) == fold(made.column)]
    if made.type == "BOOLEAN":
        at = next((n for n in named if isinstance(n.parent, _CONDITIONED)), named[0] if named else None)
        said = f"a condition must be BOOLEAN, {made.column} is VARCHAR"
        key = (
            None
            if at is None or at.find_ancestor(exp.Ordered) is None
            else re.search(
                r"(?i)\bORDER\s+BY\s+[\w.]+\s+(AND)\s+[\w.]+(?:\s+(?:ASC|DESC))?\s*(?:LIMIT\b|;|\Z)",
                source.text,
            )
        )
        if key is not None:
            return source.refuse(said, at, "a comma", Fix(",", key.start(1) - 1, key.end(1)))
        return source.refuse(said, at, f"{made.column} = '..'")
    at = next((n for n in named if isinstance(n.parent, (exp.Binary, exp.Between, exp.In))), None)
    span = None if at is None else outline.span(at)
    if at is None or span is None:
        return source.refuse(
            said, at or _find_last(outline, made.column), f"TRY_CAST({made.column} AS {made.type})"
        )
    written = f"TRY_CAST({source.text[slice(*span)]} AS {made.type})"
    return source.refuse(said, at, written, Fix(written, *span))


def _find_last(outline: Outline, name: str) -> int | None:
    """Return the last place of a name in a text; None if it is not there."""
    return next((t.start for t in reversed(outline.tokens) if fold(t.text) == fold(name)), None)
