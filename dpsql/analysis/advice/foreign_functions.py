"""Advise on functions of other systems and of pandas, by those of dpsql that ask the same or nearly so."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.alike_functions import find_alike
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, change_all
from dpsql.analysis.compiler import call_name
from dpsql.errors import Fix, Obstacle
from dpsql.lazy_pattern import lazy_pattern

_OWN = (
    "dp_gap",
    "dp_stddev",
    "dp_interval_low",
    "dp_interval_high",
    "dp_pvalue",
    "dp_rank",
    "dp_left_out",
    "dp_bound",
)
_NUMBER = lazy_pattern(r"-?[\d.]+")
_PRIVATE = lazy_pattern(r"(?:dp|noisy|anon|private)_(count|sum|avg|mean|median|variance|stddev|quantile)s?")
"""Aggregates with noise as other systems call them: here each aggregate has it."""


def write_alike(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a function of another system by those that dpsql has, and say where it differs."""
    call = of.call(node)
    if call is None:
        return None
    start, end, arguments = call
    name = of.text[start : of.text.index("(", start)].strip().lower()
    private = _PRIVATE.fullmatch(name)
    if private is not None and len(arguments) == 2 and re.fullmatch(r"[\d.]+", arguments[1]):
        return _move_epsilon(of, f"{private[1].upper()}({arguments[0]})", (start, end), arguments[1])
    if private is not None and len(arguments) in (3, 4) and all(map(_NUMBER.fullmatch, arguments[1:])):
        bounds = f"contribution_bounds_per_row => ({arguments[1]}, {arguments[2]})"
        written = f"{private[1].upper()}({arguments[0]}, {bounds})"
        return (
            _move_epsilon(of, written, (start, end), arguments[3])
            if arguments[3:]
            else (written, Fix(written, start, end))
        )
    if private is not None:
        return private[1].upper(), Fix(private[1].upper(), start, start + len(name))
    made = find_alike(name, arguments)
    if made is None and name.startswith("dp_") and name not in _OWN:
        close = difflib.get_close_matches(name, _OWN, 1, 0.6)
        fix = Fix(close[0].upper(), start, start + len(name)) if close else None
        return (f"did you mean {close[0].upper()}?", fix) if close else None
    if made is None:
        return None
    return made.written, Fix(made.written, start, end, asks=made.asks, provided=made.provided)


_NAMING = ("dateadd", "timestampadd", "try_convert")
"""Functions whose first argument is a name."""


def write_around(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the function that reads a name as a part of a date, or as a type: `TRY_CONVERT(INT, x)`."""
    call = node.parent
    if not isinstance(node, exp.Column) or node.table or not isinstance(call, exp.Anonymous):
        return None
    token = next((t for t in of.outline.tokens if t.start == node.this.meta.get("start")), None)
    part = SHORT_PARTS.get(node.name.lower())
    if part is not None and token is not None and call_name(call).startswith(("date", "time")):
        return part, Fix(part, token.start, token.end + 1)
    first = call.expressions[:1] == [node] and call_name(call) in _NAMING
    return write_alike(of, call, one) if first else None


def replace_cast(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write what a number of a day, or a day of a number, is in the place of a conversion of a column."""
    value = of.original(node).this
    span = of.outline.span(value) if isinstance(value, exp.Column) else None
    if one.hint is None or span is None:
        return None
    name = re.escape(of.text[slice(*span)])
    found = [*re.finditer(rf"(?i)\bCAST\s*\(\s*{name}\s+AS\s+\w+\s*\)|\b{name}\s*::\s*\w+", of.text)]
    fixes = [Fix(one.hint, *m.span()) for m in found]
    call = one.hint.partition("(")[0]
    guess = {"make_date": "the first day of the year", "epoch": "seconds since 1970"}.get(call, "the year")
    return (one.hint, replace(fixes[0], also=tuple(fixes[1:]), guess=guess)) if fixes else None


def read_day(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Leave `TO_DATE(day, 'YYYY-MM-DD')` of a day out: it is a day already."""
    call = of.call(node)
    if call is None or not call[2]:
        return None
    form = call[2][1].lower() if call[2][1:] else "dd"
    part = "" if "d" in form else "month" if "%m" in form or "mm" in form else "year"
    written = f"DATE_TRUNC('{part}', {call[2][0]})" if part else call[2][0]  # the first day of its month
    return written, Fix(written, call[0], call[1])


def choose_quantile(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `APPROX_QUANTILES(x, 4)` as the list of quantiles that it is."""
    found = re.search(r"(?i)APPROX_QUANTILES\(\s*([^,()]+?)\s*,\s*(\d+)\s*\)", of.text)
    if found is None or not 1 < (parts := int(found[2])) <= 100:
        return None
    shares = ", ".join(f"{i / parts:.4g}" for i in range(1, parts))
    written = f"QUANTILE_CONT({found[1]}, [{shares}])"
    return written, Fix(written, *found.span(), asks="the parts without the smallest and the largest value")


def choose_part(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `SPLIT(x, ' ')[OFFSET(0)]` as the part of the text that it is."""
    form = r"(?i)\b(?:STRING_)?SPLIT\(([^()]+)\)\s*\[\s*(?:(?:SAFE_)?(OFFSET|ORDINAL)\((\d+)\)|(\d+))\s*\]"
    found = [*re.finditer(form, of.text)]
    fixes = [
        Fix(f"split_part({m[1]}, {int(m[3] or m[4]) + (m[2] or '').upper().startswith('OFF')})", *m.span())
        for m in found
    ]
    return change_all(fixes)


SHORT_PARTS = {"mon": "month", "mm": "month", "yr": "year", "yyyy": "year", "yy": "year", "dd": "day"}
SHORT_PARTS |= {"wk": "week", "ww": "week", "qtr": "quarter", "q": "quarter", "hr": "hour", "hh": "hour"}
SHORT_PARTS |= {"qq": "quarter", "mi": "minute", "ss": "second", "years": "year", "months": "month"}
SHORT_PARTS |= {"quarters": "quarter", "weeks": "week", "days": "day", "hours": "hour", "minutes": "minute"}
"""Short names of parts of a date, and their plurals."""
_METHODS = {
    "mean": "AVG({0})",
    "avg": "AVG({0})",
    "average": "AVG({0})",
    "sum": "SUM({0})",
    "count": "COUNT({0})",
    "nunique": "COUNT(DISTINCT {0})",
    "median": "MEDIAN({0})",
    "min": "MIN({0})",
    "max": "MAX({0})",
    "std": "STDDEV({0})",
    "var": "VARIANCE({0})",
    "size": "COUNT(*)",
    "mode": "MODE({0})",
    "corr": "CORR({0}, {1})",
    "cov": "COVAR_SAMP({0}, {1})",
    "quantile": "QUANTILE_CONT({0}, {1})",
}
"""Methods of pandas' columns, as aggregates."""
_METHOD = lazy_pattern(r"\b((?:\w+\.)?\w+)\.(\w+)\(([^()]*)\)")


def write_method(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `cost.mean()` as AVG(cost), and `clinic.value_counts()` as the counts of its groups."""
    found = [
        m for m in _METHOD.finditer(of.text) if m[2].lower() in _METHODS or m[2].lower() == "value_counts"
    ]
    if not found:
        return None
    first = found[0]
    said = f"{first[1]}.{first[2]}() is not SQL"
    if any(m[2].lower() == "value_counts" for m in found):
        block = of.outline.block(first.start())
        if len(found) > 1 or block is None or block.clause(TokenType.GROUP_BY) is not None:
            return None
        written, at = f"{first[1]}, COUNT(*) AS n", block.before(TokenType.GROUP_BY)
        added = Fix(f" GROUP BY {first[1]} ", at, at)
        return f"SELECT {written} .. GROUP BY {first[1]}", Fix(written, *first.span(), also=(added,)), said
    if any("{1}" in _METHODS[m[2].lower()] and not m[3].strip() for m in found):
        return None
    starred = [m[3].strip() == "*" for m in found]  # `v.COUNT(*)`
    fixes = [
        Fix(f"{m[2]}(*)" if star else _METHODS[m[2].lower()].format(m[1], m[3].strip()), *m.span())
        for m, star in zip(found, starred, strict=True)
    ]
    return fixes[0].text, replace(fixes[0], also=tuple(fixes[1:])), said


def bound_values(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write bounds of values that stand as plain arguments, or by another name: `SUM(x, 0, 100)`."""
    around = node if isinstance(node, exp.Anonymous) else node.find_ancestor(exp.Anonymous)
    call = None if around is None else of.call(around)
    if call is None:
        return None
    start, end, arguments = call
    name = of.text[start : of.text.index("(", start)].strip()
    number = r"-?[\d.]+"
    if len(arguments) == 3 and all(re.fullmatch(number, each) for each in arguments[1:]):
        bounds = ", ".join(arguments[1:])
    elif (
        len(arguments) == 3
        and (ends := [re.fullmatch(rf"\w+\s*(?:=>|:=|=)\s*({number})", each) for each in arguments[1:]])
        and all(ends)
    ):
        bounds = ", ".join(each[1] for each in ends if each is not None)
    elif len(arguments) == 2 and (
        pair := re.fullmatch(rf"\w+\s*(?:=>|:=|=)\s*[(\[]\s*({number}\s*,\s*{number})\s*[)\]]", arguments[1])
    ):
        bounds = pair[1]
    else:
        return None
    written = f"{name}({arguments[0]}, contribution_bounds_per_row => ({bounds}))"
    return written, Fix(written, start, end, guess="that each value is bounded")


def write_type(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a type of another system as DuckDB has it."""
    found = re.search(r"of type (\w+) are not supported", one.message)
    known = _TYPES.get(found[1].upper()) if found is not None else None
    close = difflib.get_close_matches(found[1].upper(), _NAMES, 1, 0.7) if found is not None else []
    known = known or next(iter(close), None)
    if found is None or known is None:
        return None
    form = rf"(?i)(?<=\bAS )\s*{found[1]}\b(\s+(?:INTEGER|INT))?|(?<=::)\s*{found[1]}\b"
    wide = "all are whole numbers of 64 bits" if found[1] in ("HUGEINT", "UHUGEINT") else ""
    fixes = [Fix(known, *m.span(), provided=wide) for m in re.finditer(form, of.text)]
    return (known, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


_NAMES = (
    "BOOLEAN",
    "INTEGER",
    "BIGINT",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIME",
    "FLOAT",
)
_TYPES = {
    "MONEY": "DECIMAL(19,4)",
    "FLOAT64": "DOUBLE",
    "SMALLMONEY": "DECIMAL(10,4)",
    "UNSIGNED": "UBIGINT",
    "DATETIME2": "TIMESTAMP",
}
_TYPES |= {
    "SMALLDATETIME": "TIMESTAMP",
    "DATETIMEOFFSET": "TIMESTAMPTZ",
    "LONG": "BIGINT",
    "NTEXT": "VARCHAR",
}
_TYPES |= {"HUGEINT": "BIGINT", "UHUGEINT": "BIGINT"}
_TYPES |= {"CLOB": "VARCHAR", "LONGTEXT": "VARCHAR", "MEDIUMINT": "INTEGER", "OBJECT": "VARCHAR"}
"""Types of other systems."""


def move_epsilon(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move `epsilon => 0.5` from the arguments of an aggregate into OPTIONS."""
    found = re.search(r"(?i)\s*,\s*(?:epsilon|eps)\s*(?:=>|:=|=)\s*([\d.]+)", of.text)
    return None if found is None else _move_epsilon(of, "", found.span(), found[1])


def _move_epsilon(of: RefusedStatement, written: str, span: tuple[int, int], epsilon: str) -> Advice | None:
    block = of.outline.block(span[0])
    if block is None or of.has_options:
        return None
    clause = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon})"
    added = Fix(f" {clause}", block.select.end + 1, block.select.end + 1)
    return f"SELECT {clause} ..", Fix(written, *span, also=(added,))


def bound_buckets(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the ends that `WIDTH_BUCKET(x, 10)` lacks."""
    call = of.call(node)
    if call is None or len(call[2]) != 2:
        return None
    written = f"WIDTH_BUCKET({call[2][0]}, 0, 100, {call[2][1]})"
    return written, Fix(written, call[0], call[1], guess="from 0 to 100")


def show_budget(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Show the budget where a function or a table is asked for it."""
    if "budget" not in of.text.lower() or one.unknown == "column":
        return None
    return "SHOW PRIVACY BUDGET", Fix("SHOW PRIVACY BUDGET", 0, len(of.text))


def round_number(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `ROUND(AVG(x), 2)` for `AVG(x, 2)`, also within ROUND."""
    call = of.call(node)
    if call is None or len(call[2]) != 2 or call[2][0] == "*" or not re.fullmatch(r"\d", call[2][1]):
        return None
    start, end, (value, digits) = call
    written = f"{of.text[start : of.text.index('(', start)]}({value})"
    around = re.search(r"(?i)\bROUND\s*\(\s*\Z", of.text[:start])
    made = f"{written}, {digits}" if around is not None else f"ROUND({written}, {digits})"
    return made, Fix(made, start, end, guess=f"that {digits} is a number of digits")


def join_conditions(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write AND and OR for the & and | of pandas between conditions."""
    whole, signs = of.original(node), {TokenType.AMP: "AND", TokenType.PIPE: "OR"}
    joins = isinstance(whole, (*_SIGNS, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ))
    compares = isinstance(whole.parent, exp.Predicate) or whole.find(exp.Predicate) is not None
    if "(BOOLEAN, BOOLEAN" not in one.message and not (joins and compares and whole.find(*_SIGNS)):
        return None
    tokens = [t for t in of.outline.tokens if t.token_type in signs]
    return change_all([Fix(signs[t.token_type], t.start, t.end + 1) for t in tokens])


_SIGNS = (exp.BitwiseAnd, exp.BitwiseOr)
