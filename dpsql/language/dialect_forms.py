"""Read functions and clauses of other dialects as the forms that dpsql knows, in the parsed tree.

``dialects.csv`` has one line a spelling: a call, with its arguments in order, what it is read as, and the
dialects that have this meaning; without any, all that have the call. A small letter stands for any
expression; the words stand for: PART, a part of a date without quotes; DAY, that part; `=week`, that bare
name; `'day'`, that text; WEEK, the part ISOWEEK; WEEKS, a week of BigQuery, of which `w` shifts the first day
to Monday; INTERVAL; DAYS, an INTERVAL without months; SHIFT, SQLite's text of days or less (its months are
longer); NUMBER, a whole number; TO_CHAR, DATE_FORMAT and STRFTIME, a literal format of that function.
`extract dow` is EXTRACT of that part.

A difference of dates has one of two rules: it counts the borders between the parts, or full periods. Where
dialects with one name differ (`DATEDIFF(month, a, b)`), the call is refused with both, unless the statement
says its dialect. The engine's own date_diff counts borders, but of weeks full periods of seven days. A call
that the engine itself has means what it means there; what other dialects mean by it is told (`READINGS`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from sqlglot import exp

from dpsql.language.clause_forms import (
    FORMATS,
    compare_elapsed,
    compare_rows,
    filter_window,
    flatten_joins,
    move_subqueries,
    move_unnest,
    read_interval,
    read_name,
    read_ordered_set,
    read_place,
    select_series,
    split_joins,
    unnest_series,
)
from dpsql.language.duckdb_dialect import DuckDBText
from dpsql.language.select_parts import make_presence
from dpsql.language.statement import StatementText
from dpsql.language.syntax_trees import MARK, copy_tree, find_nodes, walk_tree
from dpsql.language.tokens import mark_functions
from dpsql.lazy_pattern import lazy_pattern

_PARTS = frozenset({"year", "quarter", "month", "day", "hour", "minute", "second", "isoweek"})
"""Parts of a date that all dialects cut at the same places; other weeks begin on different days."""
_SPANS = frozenset({"week", "day", "hour", "minute", "second"})
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHIFT = lazy_pattern(r"(?i)\s*\+?(-?\d+)\s+(day|hour|minute|second)s?\s*")
_STEP = lazy_pattern(r"(?i)\s*(-?\d+)\s+(year|quarter|month|week|day|hour|minute|second)s?\s*")
_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d")
_NAMED = frozenset({"PART", "DAY", "WEEK", "WEEKS"})
"""The words of a spelling that stand for a part of a date."""
_MONTHS = """(date_diff('month', a, b) - CASE
WHEN (b) >= (a) AND {0} < {1} THEN 1 WHEN (b) < (a) AND {0} > {1} THEN -1 ELSE 0 END)""".format(
    *(
        f"date_diff('microsecond', date_trunc('month', CAST({x} AS TIMESTAMP)), CAST({x} AS TIMESTAMP))"
        for x in "ba"
    )
)
"""What MONTHS of a spelling is: whole months between two times, nearer 0 where the day is not reached."""
READINGS = {
    "dayofweek": "dayofweek: Sunday is 0 (BigQuery, MySQL, Spark: 1)",
    "weekday": "weekday: Sunday is 0 (MySQL, Spark: Monday)",
    "week": "week: ISO weeks, 1 to 53 (BigQuery, MySQL: from Sunday, 0 to 53)",
}
"""What is told of calls that mean something else in other dialects, if the statement says none."""
READ = "read"
"""Under this key the metadata of a call say that the dialect of the statement is known for it."""


def standardize_forms(tree: exp.Expr, dialect: str = "") -> exp.Expr:
    """Return a parsed statement with the spellings of other dialects as dpsql reads them.

    `dialect` is that of the statement, if it says one.
    """
    whole = exp.Paren(this=tree)  # so that every node has a parent
    for node in reversed(walk_tree(whole)):
        made = _standardize_node(node, dialect.lower())
        if made is not None and made is not node:
            start = {k: v for k, v in node.meta.items() if k in ("start", "end", "line", "col")}
            for each in walk_tree(made):
                if isinstance(each, exp.Anonymous) and "start" not in each.meta:
                    each.meta.update(start)
            made.meta.update(start)
            node.replace(made)
    return _take_out(whole)


def standardize_limits(source: StatementText, nodes: Sequence[exp.Expr]) -> None:
    """Take the casts, which some drivers write, out of LIMIT and OFFSET; refuse what is limited BY a key.

    >>> from dpsql.language import parse
    >>> parse("SELECT a FROM t LIMIT 5::BIGINT OFFSET CAST(2 AS INT)").tree.sql()
    'SELECT a FROM t LIMIT 5 OFFSET 2'
    """
    for node in nodes:
        if not isinstance(node, (exp.Limit, exp.Offset, exp.Fetch)):
            continue
        if node.expressions:
            raise source.refuse("LIMIT .. BY is not supported", node.expressions[0], _hint_ranks(node))
        name = "count" if isinstance(node, exp.Fetch) else "expression"
        cast = node.args.get(name)
        if isinstance(cast, exp.Cast) and cast.to.this in exp.DataType.INTEGER_TYPES and _is_whole(cast.this):
            node.set(name, cast.this)


def _hint_ranks(limit: exp.Expr) -> str | None:
    """Return the condition that keeps the first rows of each value that LIMIT .. BY names, in their order."""
    order = limit.parent.args.get("order") if limit.parent is not None else None
    if order is None or isinstance(limit, exp.Offset):
        return None
    keys, terms = (", ".join(map(write_node, of.expressions)) for of in (limit, order))
    return f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {terms}) <= {limit.expression.sql()}"


def _is_whole(node: exp.Expr) -> bool:
    """Return whether a node is a literal whole number."""
    return isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal()


def _take_out(paren: exp.Paren) -> exp.Expr:
    """Return the text in a pair of parentheses, without them."""
    found: exp.Expr = paren.this
    found.pop()
    return found


def _read_first_day(node: exp.Expr) -> int | None:
    """Return the first day of BigQuery's weeks, 0 for Monday; None for another expression.

    WEEK begins on Sundays, ISOWEEK on Mondays, WEEK(TUESDAY) on Tuesdays.
    """
    if isinstance(node, exp.Column) and not node.table and not node.this.quoted:
        return {"week": 6, "isoweek": 0}.get(node.name.lower())
    if (
        read_name(node) == "week"
        and len(node.expressions) == 1
        and isinstance(node.expressions[0], exp.Column)
    ):
        name = node.expressions[0].name.lower()
        return _WEEKDAYS.index(name) if name in _WEEKDAYS else None
    return None


def write_node(node: exp.Expr) -> str:
    """Return the SQL of an expression, with functions as they were typed."""
    return node.sql("duckdb", normalize_functions=False).replace(MARK, "")


def write_call(name: str, part: str, arguments: list[exp.Expr]) -> str:
    """Return a call whose first argument is a part of a date, in quotes."""
    return f"{name}('{part}', {', '.join(map(write_node, arguments))})"


@cache
def read_forms() -> Mapping[str, tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]]:
    """Return the spellings by the function's name: the kinds of the arguments, the form, and its dialects."""
    found: dict[str, tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]] = {}
    text = Path(__file__).with_name("dialects.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        name, _, rest = row["written"].partition("(")
        read = row["read"].replace("MONTHS", _MONTHS)
        form = tuple(rest.rstrip(")").split()), read, tuple(row["dialects"].split())
        found[name] = (*found.get(name, ()), form)
    return found


def _standardize_node(node: exp.Expr, dialect: str) -> exp.Expr | None:
    """Return a node as dpsql reads it; None if it stays as it is."""
    if isinstance(node, exp.Anonymous):
        return _standardize_call(node, dialect)
    if isinstance(node, exp.National):  # N'a' of T-SQL and Oracle
        return exp.Literal.string(node.name)
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Filter):
        return filter_window(node)
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return read_place(node)
    if isinstance(node, exp.Extract) and node.name.upper() == "DATE":
        return exp.Cast(this=node.expression, to=exp.DataType.build("DATE"))
    if isinstance(node, exp.Extract) and (found := _average_difference(node)) is not None:
        return found
    if isinstance(node, exp.Extract):
        return _read_call(f"extract {node.name.lower()}", [node.expression], dialect)
    if isinstance(node, (exp.Interval, exp.Neg, exp.Mul, exp.Cast)) and not isinstance(node, exp.TryCast):
        return read_interval(node)
    if isinstance(node, (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)):
        return compare_elapsed(node)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and node.args.get("alias"):
        table, joins = split_joins(node.this)
        node.set("this", exp.Select(expressions=[exp.Star()], from_=exp.From(this=table), joins=joins))
    if isinstance(node, exp.In):
        return compare_rows(node)
    if isinstance(node, (exp.Table, exp.Lateral)) and isinstance(node.this, exp.Anonymous):
        return unnest_series(node)
    if isinstance(node, exp.With) and (node.args.get("recursive") or dialect == "tsql"):
        from dpsql.language.recursive_series import read_recursive_series  # noqa: PLC0415  few count up

        read_recursive_series(node, dialect)
    if isinstance(node, exp.Select):
        select_series(node, rows=dialect == "postgres")
        flatten_joins(node)
        move_unnest(node)
        move_subqueries(node)
    return None


def _average_difference(node: exp.Extract) -> exp.Expr | None:
    """Return the days or seconds of an average or sum of times between two; None for other parts.

    Such an average adds up days and the time of the day apart, so its days are those of the average of days,
    without their fraction: of 1 day 23 hours and 23 hours it is 1 day 11 hours, and of -1 day it is -1.
    """
    part, call = node.name.lower(), node.expression.unnest()
    inner = call.this if isinstance(call, exp.Filter) else call
    name = read_name(inner)
    if part not in ("day", "epoch") or name not in ("avg", "sum") or len(inner.expressions) != 1:
        return None
    if not _is_difference(inner.expressions[0]):
        return None
    each = exp.Extract(this=exp.Var(this=node.name), expression=copy_tree(inner.expressions[0]))
    made = copy_tree(inner, "expressions")
    made.set("expressions", [each])
    if isinstance(call, exp.Filter):
        made = exp.Filter(this=made, expression=copy_tree(call.expression))
    whole = part == "day" and name == "avg"
    return exp.Anonymous(this=f"{MARK}trunc", expressions=[made]) if whole else made


_WITH_TIME = ("120", "121", "126")
_STYLES = {"101": "%m/%d/%Y", "103": "%d/%m/%Y", "104": "%d.%m.%Y", "105": "%d-%m-%Y", "23": "%Y-%m-%d"}
_STYLES |= {"111": "%Y/%m/%d", "112": "%Y%m%d"}
_STYLES |= dict.fromkeys(_WITH_TIME, "%Y-%m-%d")
"""The formats of T-SQL's CONVERT of a day to a text, by their numbers."""


_NULL_TEXTS = ("bigquery", "mysql", "snowflake", "spark")
"""Dialects whose CONCAT is NULL where an argument is: elsewhere it leaves these out."""
_RENAMED = {"listagg": "string_agg", "count_big": "count"}
"""Aggregates with another name, which take DISTINCT and `*`, too."""


def _convert_to_text(arguments: list[exp.Expr]) -> exp.Expr | None:
    """Return `CONVERT(varchar(7), day, 120)` as the first characters of a format; None for other calls."""
    text, style = arguments[0], _STYLES.get(arguments[2].name)
    sized = text.expressions[0] if isinstance(text, exp.Anonymous) and len(text.expressions) == 1 else None
    if style is None or text.name.lower().lstrip("n") not in ("varchar", "char"):
        return None
    if arguments[2].name in _WITH_TIME and (sized is None or int(sized.name) > 10):
        return None  # with the time of the day
    bound = {"a": arguments[1], "FORMAT": style, "n": sized or exp.Literal.number(30)}
    return fill_form("left(strftime(a, 'FORMAT'), n)", bound)


def _standardize_call(node: exp.Anonymous, dialect: str) -> exp.Expr | None:
    name, arguments = read_name(node), node.expressions
    if name == "convert" and len(arguments) == 3:
        return _convert_to_text(arguments) or _read_call(name, arguments[:2], dialect)
    if name == "generate_series" and len(arguments) == 3:
        for end in [end for end in arguments[:2] if end.is_string and _DAY.fullmatch(end.name)]:
            end.replace(exp.Cast(this=copy_tree(end), to=exp.DataType.build("DATE")))
        if arguments[2].is_string and (step := _STEP.fullmatch(arguments[2].name)) is not None:
            arguments[2].replace(
                exp.Interval(this=exp.Literal.string(step[1]), unit=exp.Var(this=step[2].upper()))
            )
    if name in _RENAMED:
        renamed = copy_tree(node)
        renamed.set("this", f"{MARK}{_RENAMED[name]}")
        return renamed
    if name == "concat" and dialect in _NULL_TEXTS:
        there = [make_presence(a) for a in arguments if not isinstance(a, exp.Literal)]
        whole = exp.If(this=exp.and_(*there, copy=False), true=copy_tree(node)) if there else None
        return whole and exp.Case(ifs=[whole])
    if name == "field" and len(arguments) > 1:
        ways = [
            exp.If(this=copy_tree(each), true=exp.Literal.number(i))
            for i, each in enumerate(arguments[1:], 1)
        ]
        return exp.Case(this=copy_tree(arguments[0]), ifs=ways, default=exp.Literal.number(0))
    if name in ("date_part", "datepart") and len(arguments) == 2 and _is_difference(arguments[1]):
        part = arguments[0]
        if isinstance(part, exp.Literal) and part.is_string:
            return exp.Extract(this=exp.Var(this=part.name), expression=arguments[1])
    if name == "strftime" and len(arguments) == 2 and arguments[0].is_string and "%" in arguments[0].name:
        made = copy_tree(node)  # DuckDB takes the arguments in both orders
        made.set("expressions", [copy_tree(argument) for argument in reversed(arguments)])
        return made
    if (found := read_ordered_set(name, arguments)) is not None:
        return found
    return _read_call(name, arguments, dialect)


def _read_call(name: str, arguments: list[exp.Expr], dialect: str) -> exp.Expr | None:
    """Return what a call is read as in a dialect, or in all that have it; None if it stays as it is.

    Arguments with a name, such as bounds, are those of the function that it is read as.
    """
    forms = read_forms().get(name, ())
    named = [argument for argument in arguments if isinstance(argument, exp.Kwarg)]
    arguments = (
        [argument for argument in arguments if not isinstance(argument, exp.Kwarg)] if named else arguments
    )
    own = [form for form in forms if dialect in form[2]]
    for kinds, read, dialects in (*own, *(form for form in forms if not form[2])):
        bound = _bind_arguments(kinds, arguments, read, quoted=bool(dialects))
        if bound is not None:
            made = fill_form(read, bound)
            if read in (f"{name}(a)" for name in READINGS) and not dialects:
                made.meta.pop(READ)
            call = next((n for n in walk_tree(made) if isinstance(n, exp.Anonymous) and READ in n.meta), None)
            if named and call is None:
                return None
            if call is not None:
                call.set("expressions", [*call.expressions, *map(copy_tree, named)])
            return made
    return None


def _is_difference(node: exp.Expr) -> bool:
    """Return whether a node is the time between two."""
    return isinstance(node.unnest(), exp.Sub) or read_name(node) == "age"


def _bind_arguments(
    kinds: tuple[str, ...], arguments: list[exp.Expr], read: str, *, quoted: bool
) -> dict[str, exp.Expr | str] | None:
    """Return what the words and letters of a spelling stand for; None if a call is not of its kinds.

    With `quoted`, parts of dates may stand in quotes, too.
    """
    read_as_difference = read.startswith(("date_diff", "date_sub"))
    if len(kinds) != len(arguments) or any(isinstance(a, (exp.Distinct, exp.Star)) for a in arguments):
        return None
    if (
        _NAMED & set(kinds)
        and len([a for a in arguments if read_part(a) or _read_first_day(a) is not None]) != 1
    ):
        return None
    bound: dict[str, exp.Expr | str] = {}
    for kind, argument in zip(kinds, arguments, strict=True):
        literal = isinstance(argument, exp.Literal) and argument.is_string
        if kind == "PART":
            part = read_part(argument) or (_read_quoted_part(argument) if quoted else "")
            if not part or (part == "week" and read_as_difference):
                return None
            bound["PART"] = part
        elif kind[0] in "='":
            if not _is_word(argument, kind, quoted=quoted):
                return None
        elif kind == "DAY":
            if read_part(argument) != "day":
                return None
        elif kind in ("WEEK", "WEEKS"):
            first = _read_first_day(argument)
            if first is None or (kind == "WEEK" and first):
                return None
            bound["w"] = exp.Interval(this=exp.Literal.string(str(-first % 7)), unit=exp.Var(this="DAY"))
        elif kind in ("INTERVAL", "DAYS"):
            if not isinstance(argument, exp.Interval) or (kind == "DAYS" and _has_months(argument)):
                return None
            bound["i"] = argument
        elif kind == "SHIFT":
            shift = _SHIFT.fullmatch(argument.name) if literal else None
            if shift is None or (arguments[0].is_string and arguments[0].name.lower() == "now"):
                return None
            bound["i"] = exp.Interval(this=exp.Literal.string(shift[1]), unit=exp.Var(this=shift[2].upper()))
        elif kind == "NUMBER":
            number = argument.unnest().this if isinstance(argument.unnest(), exp.Neg) else argument.unnest()
            if not isinstance(number, exp.Literal) or number.is_string:
                return None
            unit = next((kind.strip("='") for kind in kinds if kind[0] in "='"), read_part(arguments[0]))
            span = exp.Interval(this=exp.Literal.string(number.name), unit=exp.Var(this=unit.upper()))
            bound["i"] = span if number is argument.unnest() else exp.Neg(this=span)
        elif kind in FORMATS:
            text = FORMATS[kind](argument.name) if literal else None
            if text is None:
                return None
            bound["FORMAT"] = text
        elif _NAMED & set(kinds) and literal and argument.name.strip().isalpha():
            return None  # DuckDB's own form has the part in quotes, and no date is one word
        else:
            bound[kind] = argument
    return bound


def read_part(node: exp.Expr) -> str:
    """Return the part of a date that a bare name is; "" for anything else."""
    if (
        isinstance(node, exp.Column)
        and not node.table
        and node.name.lower() in _PARTS
        and not node.this.quoted
    ):
        return node.name.lower().replace("isoweek", "week")
    return ""


def _read_quoted_part(node: exp.Expr) -> str:
    """Return the part of a date that a text is; "" for anything else."""
    text = node.name.lower() if isinstance(node, exp.Literal) and node.is_string else ""
    return text if text in _PARTS else ""


def _is_word(node: exp.Expr, kind: str, *, quoted: bool) -> bool:
    """Return whether a node is the bare name of a kind `=week`, in quotes if it may, or the text `'week'`."""
    bare = isinstance(node, exp.Column) and not node.table and not node.this.quoted and kind[0] == "="
    text = isinstance(node, exp.Literal) and node.is_string and (quoted or kind[0] == "'")
    return (bare or text) and node.name.lower() == kind.strip("='")


def _has_months(node: exp.Interval) -> bool:
    unit = node.args.get("unit")
    return not isinstance(unit, exp.Var) or unit.name.lower().rstrip("s") not in _SPANS


def fill_form(read: str, bound: Mapping[str, exp.Expr | str]) -> exp.Expr:
    """Return an expression that is written, with others in the places of its small letters."""
    made = exp.Paren(this=_parse_form(read).copy())
    for node in walk_tree(made):
        if isinstance(node, exp.Column) and isinstance(value := bound.get(node.name), exp.Expr):
            node.replace(copy_tree(value))
        elif isinstance(node, exp.Literal) and node.name in ("PART", "FORMAT"):
            node.replace(exp.Literal.string(str(bound[node.name])))
    for node in find_nodes(made, exp.Add, exp.Sub):
        if isinstance(node.expression, exp.Interval) and node.expression.this.name == "0":
            node.replace(node.this)
        elif isinstance(node.expression, exp.Neg) and isinstance(node.expression.this, exp.Interval):
            node.replace(exp.Sub(this=node.this, expression=node.expression.this))
    return _take_out(made)


@cache
def _parse_form(read: str) -> exp.Expr:
    text = f"SELECT {read}"
    tree = DuckDBText().parser().parse(mark_functions(list(DuckDBText().tokenize(text))), text)[0]
    assert tree is not None  # noqa: S101  the forms are ours
    form: exp.Expr = tree.expressions[0]
    for node in walk_tree(form):
        for key in ("start", "end", "line", "col"):
            node.meta.pop(key, None)
        if isinstance(node, exp.Anonymous):
            node.meta[READ] = True
    form.pop()
    return form
