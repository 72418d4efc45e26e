"""Advise on functions of other systems and of pandas, by those of dpsql that ask the same or nearly so."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.analysis.compiler import function_name
from dpsql.errors import Fix, Obstacle

_POSITIVE = "all {0} are above 0"
_ALIKE: dict[str, tuple[tuple[int, str, str, str], ...]] = {
    "unix_timestamp": ((1, "epoch({0})", "", "times are of UTC"),),
    "add_months": ((2, "({0} + INTERVAL ({1}) MONTH)", "", "no day is the last of its month"),),
    "months_between": ((2, "date_diff('month', {1}, {0})", "how many months begin between the days", ""),),
    "date_add": ((2, "({0} + {1})", "", ""), (3, "({2} + INTERVAL ({1}) {0})", "", "")),
    "adddate": ((2, "({0} + {1})", "", ""),),
    "date_sub": ((2, "({0} - {1})", "", ""), (3, "({2} - INTERVAL ({1}) {0})", "", "")),
    "subdate": ((2, "({0} - {1})", "", ""),),
    "dateadd": ((3, "({2} + INTERVAL ({1}) {0})", "", ""),),
    "timestampadd": ((3, "({2} + INTERVAL ({1}) {0})", "", ""),),
    "eomonth": ((2, "last_day({0} + INTERVAL ({1}) MONTH)", "", ""),),
    "to_days": ((1, "({0} - DATE '1970-01-01')", "days since 1970", ""),),
    "julianday": ((1, "(epoch(CAST({0} AS TIMESTAMP)) / 86400)", "days since 1970", ""),),
    "to_char": ((1, "CAST({0} AS VARCHAR)", "", ""),),
    "str": ((1, "CAST({0} AS VARCHAR)", "", "no blanks are wanted before it"),),
    "to_number": ((1, "TRY_CAST({0} AS DOUBLE)", "", "all texts are numbers; others are NULL here"),),
    "to_decimal": ((1, "TRY_CAST({0} AS DOUBLE)", "", "its fraction is wanted, too"),),
    "val": ((1, "TRY_CAST({0} AS DOUBLE)", "", "all texts are numbers; others are NULL here"),),
    "try_to_number": ((1, "TRY_CAST({0} AS DOUBLE)", "", "no text has decimals, which are kept here"),),
    "try_convert": ((2, "TRY_CAST({1} AS {0})", "", ""),),
    "isnumeric": ((1, "(TRY_CAST({0} AS DOUBLE) IS NOT NULL)", "", ""),),
    "isdate": ((1, "(TRY_CAST({0} AS DATE) IS NOT NULL)", "", ""),),
    "total": ((1, "coalesce(SUM({0}), 0)", "", ""),),
    "ratio_to_report": ((1, "{0} / SUM({0})", "", ""),),
    "div0null": ((2, "coalesce({0} / nullif({1}, 0), 0)", "", "{0} is never NULL"),),
    "divide": ((2, "({0} / {1})", "", ""),),
    "bitand": ((2, "({0} & {1})", "", ""),),
    "truncate": ((2, "(TRUNC({0} * 1e{1}) / 1e{1})", "", ""),),
    "roundup": (
        (1, "CEIL({0})", "", "none is negative"),
        (2, "(CEIL({0} * 1e{1}) / 1e{1})", "", "none is negative"),
    ),
    "rounddown": ((1, "TRUNC({0})", "", ""), (2, "(TRUNC({0} * 1e{1}) / 1e{1})", "", "")),
    "log": ((2, "(LN({1}) / LN({0}))", "", ""),),
    "regexp_count": ((2, "len(regexp_extract_all({0}, {1}))", "", ""),),
    "contains_substr": ((2, "contains(lower({0}), lower({1}))", "", ""),),
    "lengthb": ((1, "LENGTH({0})", "", "all letters are of ASCII"),),
    "datalength": ((1, "LENGTH({0})", "", "all letters are of ASCII"),),
    "sumif": ((1, "COUNT_IF({0})", "how many rows meet the condition", ""),),
    "averageif": ((2, "AVG({1}) FILTER (WHERE {0})", "", ""),),
    "countd": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "countunique": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "count_unique": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "nunique": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "n_distinct": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "ndv": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "hll": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "hll_count": ((1, "COUNT(DISTINCT {0})", "", ""),),
    "trimmed_mean": ((2, "MEDIAN({0})", "the median, not the mean of what is left", ""),),
    "trimmean": ((2, "MEDIAN({0})", "the median, not the mean of what is left", ""),),
    "stats_mode": ((1, "MODE({0})", "", ""),),
    "correl": ((2, "CORR({0}, {1})", "", ""),),
    "pearson": ((2, "CORR({0}, {1})", "", ""),),
    "covar": ((2, "COVAR_SAMP({0}, {1})", "", ""),),
    "linest": ((2, "REGR_SLOPE({0}, {1}), REGR_INTERCEPT({0}, {1})", "", ""),),
    "linear_regression": ((2, "REGR_SLOPE({0}, {1}), REGR_INTERCEPT({0}, {1})", "", ""),),
    "slope": ((2, "REGR_SLOPE({0}, {1})", "", ""),),
    "intercept": ((2, "REGR_INTERCEPT({0}, {1})", "", ""),),
    "rsq": ((2, "REGR_R2({0}, {1})", "", ""),),
    "geomean": ((1, "EXP(AVG(LN({0})))", "", _POSITIVE),),
    "geometric_mean": ((1, "EXP(AVG(LN({0})))", "", _POSITIVE),),
    "product": ((1, "EXP(SUM(LN({0})))", "", _POSITIVE),),
    "harmonic_mean": ((1, "(1 / AVG(1 / {0}))", "", _POSITIVE),),
    "harmean": ((1, "(1 / AVG(1 / {0}))", "", _POSITIVE),),
    "weighted_avg": ((2, "(SUM({0} * {1}) / SUM({1}))", "", "{0} is never NULL"),),
    "avg_weighted": ((2, "(SUM({0} * {1}) / SUM({1}))", "", "{0} is never NULL"),),
    "range": ((1, "(MAX({0}) - MIN({0}))", "", ""),),
    "first_value": ((1, "MODE({0})", "the most frequent {0}", ""),),
    "last_value": ((1, "MODE({0})", "the most frequent {0}", ""),),
    "fixed": ((2, "ROUND({0}, {1})", "a number, not a text", ""),),
    "clamp": ((3, "GREATEST({1}, LEAST({2}, {0}))", "", "{0} is never NULL"),),
    "clip": ((3, "GREATEST({1}, LEAST({2}, {0}))", "", "{0} is never NULL"),),
    "max": ((2, "GREATEST({0}, {1})", "", "{0} is never NULL"),),
    "min": ((2, "LEAST({0}, {1})", "", "{0} is never NULL"),),
    "weekdayname": ((1, "dayname({0})", "", ""),),
    "weekday_name": ((1, "dayname({0})", "", ""),),
    "day_name": ((1, "dayname({0})", "", ""),),
    "month_name": ((1, "monthname({0})", "", ""),),
    "dp_interval": ((1, "DP_INTERVAL_LOW({0}), DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_confidence_interval": ((1, "DP_INTERVAL_LOW({0}), DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_ci": ((1, "DP_INTERVAL_LOW({0}), DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_confidence": ((1, "DP_INTERVAL_LOW({0}), DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_noise_scale": ((1, "DP_STDDEV({0})", "the standard deviation of the noise", ""),),
    "dp_stderr": ((1, "DP_STDDEV({0})", "", ""),),
    "dp_error": ((1, "DP_STDDEV({0})", "the standard deviation of the noise", ""),),
    "dp_noise": ((1, "DP_STDDEV({0})", "the standard deviation of the noise", ""),),
    "dp_interval_up": ((1, "DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_interval_upper": ((1, "DP_INTERVAL_HIGH({0})", "", ""),),
    "dp_interval_lower": ((1, "DP_INTERVAL_LOW({0})", "", ""),),
}
"""Functions of other systems: of how many arguments, what is like them, what that asks, and when it
is the same."""
_DIFFERENT = re.compile(
    r"(?:approx_?|exact_?)?(?:count_?|num_?|n_?)*(?:distinct|unique|uniq)(?:_?count|_?values|_?approx|_?exact)*"
)
"""Names of the number of different values."""
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
_PRIVATE = re.compile(r"(?:dp|noisy|anon|private)_(count|sum|avg|mean|median|variance|stddev|quantile)s?")
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
    if private is not None:
        return private[1].upper(), Fix(private[1].upper(), start, start + len(name))
    if name == "substring_index" and len(arguments) == 3:
        written = f"split_part({', '.join(arguments)})"
        same = "" if arguments[2] in ("1", "-1") else f"{arguments[2]} is 1 or -1"
        return written, Fix(written, start, end, provided=same)
    if (criteria := _read_criteria(name, arguments)) is not None:
        return criteria, Fix(criteria, start, end)
    if name.replace("_", "") in _TESTS and len(arguments) == 2:
        written = f"{arguments[1]}, AVG({arguments[0]}), STDDEV({arguments[0]}), COUNT({arguments[0]})"
        return written, Fix(written, start, end, asks="the numbers that the test compares")
    if (
        name.replace("_", "").startswith(("chisq", "chi2", "chisquare", "crosstab", "fisher"))
        and len(arguments) == 2
    ):
        written = f"{arguments[0]}, {arguments[1]}, COUNT(*)"
        return written, Fix(written, start, end, asks="the counts that the test compares")
    if name in ("field", "array_position", "find_in_set") and len(arguments) > 2:
        cases = " ".join(f"WHEN {each} THEN {i}" for i, each in enumerate(arguments[1:], 1))
        written = f"CASE {arguments[0]} {cases} ELSE 0 END"
        return written, Fix(written, start, end)
    if name in _WITH_ACCURACY and len(arguments) == 1 + _WITH_ACCURACY[name]:
        written = f"{name}({', '.join(arguments[:-1])})"
        return written, Fix(written, start, end)
    if name == "choose" and len(arguments) > 1:
        cases = " ".join(f"WHEN {i} THEN {each}" for i, each in enumerate(arguments[1:], 1))
        written = f"CASE {arguments[0]} {cases} END"
        return written, Fix(written, start, end)
    if name.startswith("dp_") and name not in (*_ALIKE, *_OWN):
        close = difflib.get_close_matches(name, _OWN, 1, 0.6)
        fix = Fix(close[0].upper(), start, start + len(name)) if close else None
        return (f"did you mean {close[0].upper()}?", fix) if close else None
    if _DIFFERENT.fullmatch(name) and len(arguments) == 1:
        written = f"COUNT(DISTINCT {arguments[0]})"
        return written, Fix(written, start, end)
    if name.removesuffix("if") in _CONDITIONAL and name.endswith("if") and len(arguments) == 2:
        written = f"{name.removesuffix('if').upper()}({arguments[0]}) FILTER (WHERE {arguments[1]})"
        return written, Fix(written, start, end)
    form = next((form for form in _ALIKE.get(name, ()) if form[0] == len(arguments)), None)
    if form is None:
        return None
    _, read, asks, provided = form
    written = read.format(*arguments)
    return written, Fix(
        written, start, end, asks=asks.format(*arguments), provided=provided.format(*arguments)
    )


_TESTS = frozenset(("ttest", "studentttest", "welchttest", "ttestind", "anova", "mannwhitneyutest", "ztest"))
"""Tests of a number between the groups of a key."""
_OF_COUNTS = ("chisq", "chi2", "crosstab", "fisher")
"""How the names of tests of counts by two keys begin."""
_CONDITIONAL = frozenset(("avg", "min", "max", "median", "uniq", "stddevsamp", "varsamp"))
"""Aggregates to which ClickHouse adds `If` and a condition."""
_WITH_ACCURACY = dict.fromkeys(("percentile_approx", "approx_percentile", "percentile", "approx_quantile"), 2)
_WITH_ACCURACY |= dict.fromkeys(("approx_count_distinct", "approx_distinct", "approx_median"), 1)
"""Aggregates that other systems give an accuracy besides, and how many other arguments they have."""
_CRITERION = re.compile(r"""["'](>=|<=|<>|!=|>|<|=|)\s*(.*)["']""")
_OF_CRITERIA = re.compile(r"(count|sum|average|avg|min|max)_?ifs?")


def _read_criteria(name: str, arguments: tuple[str, ...]) -> str | None:
    """Return a spreadsheet's aggregate with criteria as SQL: `COUNTIF(x, ">30")`, `SUMIFS(y, x, "a*")`."""
    call = _OF_CRITERIA.fullmatch(name)
    if call is None or len(arguments) < 2:
        return None
    several, pairs = name.endswith("s"), list(arguments)
    value = pairs.pop(0) if several and call[1] != "count" else pairs[2] if len(pairs) == 3 else pairs[0]
    pairs = pairs[:2] if not several else pairs
    conditions = list[str]()
    for column, criterion in zip(pairs[::2], pairs[1::2], strict=False):
        said = _CRITERION.fullmatch(criterion)
        if said is None and not re.fullmatch(r"-?[\d.]+", criterion):
            return None
        sign, text = (said[1] or "=", said[2]) if said is not None else ("=", criterion)
        sign, text = ("LIKE", text.replace("*", "%")) if "*" in text and sign == "=" else (sign, text)
        number = re.fullmatch(r"-?\d+(\.\d+)?", text)
        conditions.append(f"{column} {sign} {text if number else chr(39) + text + chr(39)}")
    condition = " AND ".join(conditions)
    if call[1] == "count":
        return f"COUNT_IF({condition})"
    return f"{'AVG' if call[1] == 'average' else call[1].upper()}({value}) FILTER (WHERE {condition})"


_NAMING = ("dateadd", "timestampadd", "try_convert")
"""Functions whose first argument is a name."""


def write_around(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the function that reads a name as a part of a date, or as a type: `TRY_CONVERT(INT, x)`."""
    call = node.parent
    if not isinstance(node, exp.Column) or node.table or not isinstance(call, exp.Anonymous):
        return None
    token = next((t for t in of.outline.tokens if t.start == node.this.meta.get("start")), None)
    part = SHORT_PARTS.get(node.name.lower())
    if (
        part is not None
        and token is not None
        and (function_name(call) or "").lower().startswith(("date", "time"))
    ):
        return part, Fix(part, token.start, token.end + 1)
    first = call.expressions[:1] == [node] and (function_name(call) or "").lower() in _NAMING
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
    guess = "the first day of the year" if one.hint.startswith("make_date") else "the year"
    return (one.hint, replace(fixes[0], also=tuple(fixes[1:]), guess=guess)) if fixes else None


def write_char(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write VARCHAR for the CHAR of T-SQL's CONVERT."""
    found = [*re.finditer(r"(?i)\bCONVERT\s*\(\s*(N?CHAR)\b", of.text)]
    fixes = [Fix("VARCHAR", *m.span(1)) for m in found]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def choose_quantile(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `APPROX_QUANTILES(x, 4)[OFFSET(2)]` as the quantile that it is; without a place, all."""
    form = r"\(\s*([^,()]+?)\s*,\s*(\d+)\s*\)(?:\s*\[\s*(?:SAFE_)?(OFFSET|ORDINAL)\((\d+)\)\s*\])?"
    found = re.search(f"(?i)APPROX_QUANTILES{form}", of.text)
    if found is None or not 1 < int(found[2]) <= 100:
        return None
    parts = int(found[2])
    if found[4] is None:
        shares = ", ".join(f"{i / parts:.4g}" for i in range(1, parts))
        written = f"QUANTILE_CONT({found[1]}, [{shares}])"
        asks = "the parts without the smallest and the largest value"
        return written, Fix(written, *found.span(), asks=asks)
    share = (int(found[4]) - (found[3].upper() == "ORDINAL")) / parts
    written = f"QUANTILE_CONT({found[1]}, {share:g})"
    return (written, Fix(written, *found.span())) if 0 < share < 1 else None


def choose_part(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `SPLIT(x, ' ')[OFFSET(0)]` as the part of the text that it is."""
    form = r"(?i)\b(?:STRING_)?SPLIT\(([^()]+)\)\s*\[\s*(?:(?:SAFE_)?(OFFSET|ORDINAL)\((\d+)\)|(\d+))\s*\]"
    found = [*re.finditer(form, of.text)]
    fixes = [
        Fix(f"split_part({m[1]}, {int(m[3] or m[4]) + (m[2] or '').upper().startswith('OFF')})", *m.span())
        for m in found
    ]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


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
_METHOD = re.compile(r"\b((?:\w+\.)?\w+)\.(\w+)\(([^()]*)\)")


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
    fixes = [Fix(_METHODS[m[2].lower()].format(m[1], m[3].strip()), *m.span()) for m in found]
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
    if found is None or known is None:
        return None
    form = rf"(?i)(?<=\bAS )\s*{found[1]}\b(\s+(?:INTEGER|INT))?|(?<=::)\s*{found[1]}\b"
    wide = "all are whole numbers of 64 bits" if found[1] in ("HUGEINT", "UHUGEINT") else ""
    fixes = [Fix(known, *m.span(), provided=wide) for m in re.finditer(form, of.text)]
    return (known, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


_TYPES = {
    "MONEY": "DECIMAL(19,4)",
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


def join_conditions(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write AND and OR for the & and | of pandas between conditions."""
    whole = of.original(node)
    if "(BOOLEAN, BOOLEAN" not in one.message and not (
        isinstance(whole, (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ))
        and any(isinstance(each, (exp.BitwiseAnd, exp.BitwiseOr)) for each in whole.find_all(exp.Binary))
    ):
        return None
    signs = [t for t in of.outline.tokens if t.text in ("&", "|")]
    fixes = [Fix("AND" if t.text == "&" else "OR", t.start, t.end + 1) for t in signs]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def count_different_rows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the rows of SELECT DISTINCT for `COUNT(DISTINCT *)`."""
    found, block = re.search(r"(?i)\bCOUNT\s*\(\s*DISTINCT\s+\*\s*\)", of.text), of.outline.block(0)
    if found is None or block is None or block.clauses or block.from_ is None:
        return None
    fix = Fix(
        "COUNT(*)",
        *found.span(),
        also=(
            Fix(
                f"FROM (SELECT DISTINCT * {of.text[block.from_.start : block.end].strip()})",
                block.from_.start,
                block.end,
            ),
        ),
    )
    return "COUNT(*) FROM (SELECT DISTINCT * ..)", fix
