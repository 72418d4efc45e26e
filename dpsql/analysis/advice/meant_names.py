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
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiler import function_name
from dpsql.errors import Fix
from dpsql.kernel.tree import literal_sql
from dpsql.language import call_end, write_name
from dpsql.policy import TableDomain, UnitColumn, ValuesDomain, fold
from dpsql.types import SqlType

_PARTS = {"year": "YEAR", "yr": "YEAR", "month": "MONTH", "month_name": "MONTHNAME", "quarter": "QUARTER"}
_PARTS |= {"hour": "HOUR", "date": "DATE", "day": "DATE"}
_PARTS |= {
    "week": "WEEK",
    "weekday": "DAYNAME",
    "day_of_week": "DAYNAME",
    "dayofweek": "DAYNAME",
    "dow": "DAYOFWEEK",
}
"""Parts of a day that people take for columns."""
_TIMES = frozenset({"at", "on", "created", "datetime", "dt", "of", "time", "timestamp", "ts", "when"})
"""Words of the names of a day that say nothing more."""
_SAME = {"gender": "sex", "sex": "gender", "pay": "salary", "wage": "salary"}
"""Columns that others call so."""
_LABELS = frozenset({"category", "class", "group", "kind", "label", "name", "type"})
"""Last words of the names of texts."""
_SALES = frozenset(
    {"amount", "income", "revenue", "sales", "spend", "spending", "spent", "turnover", "value"}
)
"""What people call the price of a row times its quantity."""


def find_meant(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Find what a name means: a part of the only day, a longer or shorter word, the key of a table."""
    here = [n for n in named if not node.table or fold(n.alias) == fold(node.table)]
    listed = _list_columns(of, here)
    name, at = fold(node.name), node.this.meta.get("start")
    span = of.outline.span(node)
    if at is None or difflib.get_close_matches(name, [fold(each) for each, _ in listed], 1, 0.85):
        return None
    day = next(
        (c for c, kind in _list_columns(of, named) if fold(c) == fold(node.table) and _is_day(kind)), None
    )
    if day is not None and name in _PARTS and span is not None and not here:  # booked_at.hour
        return f"{_PARTS[name]}({write_name(day)})", Fix(f"{_PARTS[name]}({write_name(day)})", *span)
    call = of.outline.call_around(at, "extract")
    if call is not None and len(call[2]) == 2 and name in _PARTS:  # EXTRACT(day, YEAR)
        value = call[2][0 if fold(call[2][1]) == name else 1]
        return f"EXTRACT({name.upper()} FROM {value})", Fix(
            f"EXTRACT({name.upper()} FROM {value})", *call[:2]
        )
    declared = [
        (each, kind)
        for n in here
        for each, kind in of.catalog.columns(n.table.name)
        if each in n.table.domain
    ]
    written, guess = _find_part_of_day(node, name, listed)
    if not written:  # of several days, the one that has a declared range
        written, guess = _find_part_of_day(node, name, declared)
        guess = guess or f"{written} for {node.name}"
    if not written and name in ("age", "age_group", "agegroup", "age_band"):
        written, guess = _find_age(name, listed), "this year's age"
    sales = "" if written else _find_sales(node, name, listed)
    written, guess = (sales, f"{sales} for {node.name}") if sales else (written, guess)
    if written and span is not None:
        return written, Fix(written, *span, guess=guess)
    near = [each for each, _ in listed if _has_same_words(name, fold(each))]
    short = [] if near else [each for each, _ in listed if _shortens(name, fold(each))]
    bare = re.sub(r"_(?:name|label|text|description|desc)\Z", "", name)
    prefixed = {name.removeprefix(f"{fold(n.table.name).removesuffix('s')}_") for n in here}  # plane_year
    near = near or [each for each, _ in listed if fold(each) in (bare, _SAME.get(name), *prefixed)]
    if not near and not isinstance(node.parent, exp.EQ):
        near = [each for each, _ in listed if fold(each) in (f"{name}_name", f"{name}_title")]
    for table in of.policy.tables.values() if not near else ():
        unit = table.unit.column if isinstance(table.unit, UnitColumn) else ""
        single = table.public or table.is_key(unit)  # one row of each key
        clauses = [join for n in here if single and (join := join_clause(of, table, n)) is not None]
        words = {bare, name.removeprefix(f"{fold(table.name).removesuffix('s')}_")} - {name}
        column = next((each for each in of.columns(table) if fold(each) in words), None)
        if clauses and column is not None:
            _, fix, *_ = rename_column(of, node, column)
            clause, place = clauses[0]
            added = None if fix is None else replace(fix, also=(Fix(f" {clause}", place, place),))
            return f"{column} is a column of {table.name}: {clause}", added
    if len(near) == 1:
        return rename_column(of, node, near[0])
    if len(short) == 1:
        return guess_column(of, node, short[0])
    own = [f"{fold(n.table.name).removesuffix('s')}_{name}" for n in here]  # the name of gyms: gym_name
    found = [each for each, _ in listed if fold(each) in own]
    if len(found) == 1:
        return guess_column(of, node, found[0])
    texts = [
        each
        for each, kind in listed
        if kind.name == "VARCHAR" and _begins(name.split("_")[0], _words(each)[0])
    ]
    if len(texts) == 1 and name.split("_")[-1] in _LABELS:
        return guess_column(of, node, texts[0])
    for one in here:
        for column, domain in one.table.domain.items():
            if isinstance(domain, TableDomain) and fold(domain.table) in (f"{name}s", f"{name}es"):
                return guess_column(of, node, column)
    return None


def _list_columns(of: RefusedStatement, named: list[FromTable]) -> list[tuple[str, SqlType]]:
    return [column for n in named for column in of.catalog.columns(n.table.name)]


def _is_day(kind: SqlType) -> bool:
    return kind.moment or kind.name == "DATE"


def _find_part_of_day(node: exp.Column, name: str, listed: list[tuple[str, SqlType]]) -> tuple[str, str]:
    """Return the part of a day that a name means, such as `hire_year`, and what is guessed."""
    words = [name] if name in _PARTS else name.split("_")
    part = next((word for word in reversed(words) if word in _PARTS), "")
    rest = [word for word in words if word not in _PARTS and word not in _TIMES]
    days = [(each, kind) for each, kind in listed if _is_day(kind)]
    near = [d for d in days if any(_begins(a, b) for a in rest for b in fold(d[0]).split("_"))]
    if len(days if not rest else near) != 1 or (not part and not _TIMES.intersection(words)):
        return "", ""
    ((day, kind),) = near if rest else days
    column = f"{node.table + '.' if node.table else ''}{write_name(day)}"
    guess = "" if name in _PARTS and part != "DATE" else f"{day} for {node.name}"
    call = _PARTS.get(part, "")
    if call == "DATE":
        call = "DATE" if kind.moment and not isinstance(node.parent, (exp.Binary, exp.Between)) else ""
    return (f"{call}({column})" if call else column), guess


def _find_age(name: str, listed: list[tuple[str, SqlType]]) -> str:
    """Return the age by the only column of births, of years or days; "" if there is none."""
    born = [(each, kind) for each, kind in listed if {"birth", "dob", "born", "birthdate"} & {*_words(each)}]
    if len(born) != 1 or not (born[0][1].integer or born[0][1].name == "DATE"):
        return ""
    year = write_name(born[0][0]) if born[0][1].integer else f"YEAR({write_name(born[0][0])})"
    written = f"(YEAR(current_date) - {year})"
    return written if name == "age" else f"({written} // 10 * 10)"


def _find_sales(node: exp.Column, name: str, listed: list[tuple[str, SqlType]]) -> str:
    """Return the only price times the only quantity of a table; "" if it is not what a name means."""
    prices, numbers = (
        [each for each, kind in listed if kind.numeric and words & {*_words(each)}]
        for words in ({"price", "fee", "cost"}, {"quantity", "qty", "units"})
    )
    own = [each for each in prices if len(_words(each)) == 1] or prices
    if not _SALES & {*_words(name)} or len(own) != 1 or len(numbers) != 1:
        return ""
    written = f"{write_name(own[0])} * {write_name(numbers[0])}"
    return f"({written})" if isinstance(node.parent, exp.Binary) else written


def find_measure(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Find the only number that an aggregate of a column can mean."""
    numbers = [each for each in _list_measures(of, node, named) if "year" not in _words(each)]
    alone = aggregate_name(node.parent) is not None if node.parent is not None else False
    return guess_column(of, node, numbers[0]) if len(numbers) == 1 and alone else None


def list_meant(of: RefusedStatement, node: exp.Column, here: list[FromTable]) -> Advice | None:
    """List the columns that have a name as one of several words, or the numbers that are no keys."""
    known = [*dict.fromkeys(c for n in here for c in n.columns if fold(node.name) in _words(c))]
    if len(known) > 1:
        return f"did you mean {' or '.join(map(write_name, known[:4]))}?", None
    numbers = _list_measures(of, node, here)
    close = difflib.get_close_matches(fold(node.name), [fold(name) for name in numbers], 1)
    return (f"columns here: {', '.join(numbers)[:200]}", None) if numbers and not close else None


def _list_measures(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> list[str]:
    """Return the numbers of tables that are no keys, if a column stands in an aggregate of numbers."""
    around = node.parent
    while around is not None and not isinstance(around, exp.Select) and aggregate_name(around) is None:
        around = around.parent
    select = node.find_ancestor(exp.Select)
    derived = select is None or any(
        isinstance(each.parent, (exp.From, exp.Join)) for each in select.find_all(exp.Subquery)
    )
    if derived or around is None or (aggregate_name(around) or "count").lower() == "count":
        return []
    return [
        name
        for n in named
        for name, kind in of.catalog.columns(n.table.name)
        if kind.numeric
        and not n.table.is_key(name)
        and name != n.unit
        and _words(name)[-1] not in ("id", "no")
        if not isinstance(n.table.domain.get(name), TableDomain)
    ]


def is_fitting(node: exp.Column, kind: SqlType) -> bool:
    """Return whether a column of a type can be what is compared with a literal, or matched with a pattern."""
    parent = node.parent
    if isinstance(parent, (exp.Like, exp.ILike)):
        return kind.name == "VARCHAR"
    values = (
        [v for v in parent.iter_expressions() if isinstance(v, exp.Literal)] if parent is not None else []
    )
    if not values or not isinstance(
        parent, (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)
    ):
        return True
    if all(value.is_string for value in values):
        digits = all(any(c.isdigit() for c in value.name) for value in values)
        return kind.name == "VARCHAR" or (digits or kind.name == "BOOLEAN")
    years = all(re.fullmatch(r"(?:19|20)\d\d", value.name) for value in values)
    return years or not (kind.moment or kind.name == "DATE")


def guess_column(of: RefusedStatement, node: exp.Column, column: str) -> Advice:
    """Return the advice to write another name for a column, which is a guess."""
    hint, fix, *_ = rename_column(of, node, column)
    return hint, None if fix is None else replace(fix, guess=f"{column} for {node.name}")


def _words(name: str) -> list[str]:
    return fold(name).split("_")


def _begins(one: str, other: str) -> bool:
    """Return whether one word is the beginning of the other."""
    return min(len(one), len(other)) > 2 and (one.startswith(other) or other.startswith(one))


def _shortens(name: str, other: str) -> bool:
    """Return whether a name has the first letters of another's words, or some letters of each in order.

    >>> [_shortens(*each) for each in (("dob", "date_of_birth"), ("mgr_id", "manager_id"), ("x", "xy"))]
    [True, True, False]
    """
    if len(name) > 2 and name == "".join(word[:1] for word in other.split("_")):
        return True
    pairs = [*zip(name.split("_"), other.split("_"), strict=False)]
    return name.count("_") == other.count("_") and all(a == b or _has_letters(a, b) for a, b in pairs)


def _has_letters(short: str, word: str) -> bool:
    letters = iter(word)
    return len(short) > 2 and short[:1] == word[:1] and all(letter in letters for letter in short)


def _has_same_words(name: str, other: str) -> bool:
    """Return whether each word of a name is the beginning of that of another, or the other way round.

    >>> _has_same_words("departure_delay", "dep_delay"), _has_same_words("dep_time", "air_time")
    (True, False)
    """
    words = [*zip(name.split("_"), other.split("_"), strict=False)]
    same = name.count("_") == other.count("_") and name != other
    return same and all(a == b or _begins(a, b) for a, b in words)


def drop_remark(of: RefusedStatement, node: exp.Column) -> Advice | None:
    """Leave out what stands behind `//` to the end of a line: it is a remark in other languages."""
    at = node.this.meta.get("start", 0)
    found = re.search(r"[ \t]*//[ \t]*\Z", of.text[:at])
    end = of.text.find("\n", at)
    if found is None or end < 0:
        return None
    return "-- begins a remark", Fix("", found.start(), end, guess=f"that `{of.text[at:end]}` is a remark")


def join_words(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """`order-id`, which is a difference, where there is a column `order_id`."""
    whole = node.parent
    sides = (whole.this, whole.expression) if isinstance(whole, exp.Sub) else ()
    span = of.outline.span(whole) if whole is not None and sides else None
    written = "_".join(side.name for side in sides if isinstance(side, exp.Column))
    column = next((c for n in named if (c := n.column(written)) is not None), None)
    return (column, Fix(column, *span)) if column is not None and span is not None else None


def quote_text(of: RefusedStatement, node: exp.Column) -> Advice | None:
    """Advise to write a value in single quotes: double quotes stand around names."""
    if node.table or "start" not in node.this.meta:
        return None
    if fold(node.name) in ("yes", "no") and isinstance(node.parent, (exp.EQ, exp.NEQ)):
        said = "TRUE" if fold(node.name) == "yes" else "FALSE"
        return said, Fix(said, node.this.meta["start"], node.this.meta["end"] + 1)
    if not node.this.args.get("quoted"):
        return None
    text = "'" + node.name.replace("'", "''") + "'"
    return f"{text} is a text", Fix(text, node.this.meta["start"], node.this.meta["end"] + 1)


def name_list(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Advise to name the column of a list: `SELECT item FROM UNNEST(['a', 'b'])` lacks `AS t(item)`."""
    first, found = select.args.get("from_"), [m.start() for m in re.finditer(r"(?i)\bunnest\b", of.text)]
    if first is None or not isinstance(first.this, exp.Unnest) or select.args.get("joins"):
        return None
    if first.this.args.get("alias") is not None or node.table or len(found) != 1:
        return None
    end = call_end(of.query.source, found[0])
    return (f"AS t({node.name})", Fix(f" AS t({node.name})", end + 1, end + 1)) if end >= 0 else None


def compare_with_value(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Write `status = 'completed'` for the condition `completed`, which may be compared with TRUE or 1."""
    span = of.outline.span(of.original(node))
    true = None if span is None else re.match(r"(?i)\s*(?:=|IS\b)\s*(?:TRUE|1)\b", of.text[span[1] :])
    holds = (exp.Where, exp.And, exp.Or, exp.Not, exp.If, exp.Having)
    if span is None or (true is None and not isinstance(node.parent, holds)):
        return None
    for one in named:
        for column, domain in one.table.domain.items():
            values = domain.values if isinstance(domain, ValuesDomain) else ()
            value = next((v for v in values if isinstance(v, str) and fold(v) == fold(node.name)), None)
            if value is not None:
                written = (
                    f"{node.table + '.' if node.table else ''}{write_name(column)} = {literal_sql(value)}"
                )
                return written, Fix(written, span[0], span[1] + (0 if true is None else true.end()))
    return None


def count_key(of: RefusedStatement, node: exp.Column) -> Advice | None:
    """`COUNT(flight_id)`, where rows have no key of their own: it is a number of rows."""
    call = of.call(of.original(node).parent or node)
    counts = call is not None and (function_name(node.parent or node) or "").lower() == "count"
    if call is None or not counts or fold(node.name).rsplit("_", maxsplit=1)[-1] not in ("id", "key", "no"):
        return None
    return "COUNT(*)", Fix("COUNT(*)", call[0], call[1], guess=f"* for {node.name}")
