"""Find what the name of a column means that does not exist: a part of a day, an age, another word."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.advice.refused_statement import (
    Advice,
    FromTable,
    RefusedStatement,
    join_clause,
    rename_column,
)
from dpsql.errors import Fix
from dpsql.language import write_name
from dpsql.policy import TableDomain, fold

_PARTS = {"year": "YEAR", "yr": "YEAR", "month": "MONTH", "month_name": "MONTHNAME", "quarter": "QUARTER"}
_PARTS |= {
    "week": "WEEK",
    "weekday": "DAYNAME",
    "day_of_week": "DAYNAME",
    "dayofweek": "DAYNAME",
    "dow": "DAYOFWEEK",
}
"""Parts of a day that people take for columns."""


def find_meant(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Find what a name means: a part of the only day, a longer or shorter word, the key of a table."""
    here = [n for n in named if not node.table or fold(n.alias) == fold(node.table)]
    listed = [(name, kind) for n in here for name, kind in of.catalog.columns(n.table.name)]
    name, at = fold(node.name), node.this.meta.get("start")
    if at is None or difflib.get_close_matches(name, [fold(each) for each, _ in listed], 1, 0.85):
        return None
    days = [each for each, kind in listed if kind.moment or kind.name == "DATE"]
    if name in _PARTS and len(days) == 1:
        written = f"{_PARTS[name]}({node.table + '.' if node.table else ''}{write_name(days[0])})"
        span = of.outline.span(node)
        return None if span is None else (written, Fix(written, *span))
    born = [each for each, kind in listed if kind.integer and "birth" in fold(each)]
    if name in ("age", "age_group", "agegroup", "age_band") and len(born) == 1:
        written = f"(YEAR(current_date) - {write_name(born[0])})"
        written = written if name == "age" else f"({written} // 10 * 10)"
        span = of.outline.span(node)
        return None if span is None else (written, Fix(written, *span, guess="this year's age"))
    near = [each for each, _ in listed if _has_same_words(name, fold(each))]
    bare = re.sub(r"_(?:name|label|text|description|desc)\Z", "", name)
    near = near or [each for each, _ in listed if fold(each) == bare]
    for table in of.policy.tables.values() if bare != name and not near else ():
        clauses = [join for n in here if table.public and (join := join_clause(of, table, n)) is not None]
        column = next((each for each in of.columns(table) if fold(each) == bare), None)
        if clauses and column is not None:
            hint, fix, *_ = rename_column(of, node, column)
            clause, place = clauses[0]
            added = None if fix is None else replace(fix, also=(Fix(f" {clause}", place, place),))
            return f"{column} is a column of {table.name}: {clause}", added
    if len(near) == 1:
        return rename_column(of, node, near[0])
    for one in here:
        for column, domain in one.table.domain.items():
            if isinstance(domain, TableDomain) and fold(domain.table) in (f"{name}s", f"{name}es"):
                hint, fix, *_ = rename_column(of, node, column)
                return hint, None if fix is None else replace(fix, guess=f"{column} for {node.name}")
    return None


def _has_same_words(name: str, other: str) -> bool:
    """Return whether each word of a name is the beginning of that of another, or the other way round.

    >>> _has_same_words("departure_delay", "dep_delay"), _has_same_words("dep_time", "air_time")
    (True, False)
    """
    words = [*zip(name.split("_"), other.split("_"), strict=False)]
    same = name.count("_") == other.count("_") and name != other
    return same and all(min(len(a), len(b)) > 2 and (a.startswith(b) or b.startswith(a)) for a, b in words)
