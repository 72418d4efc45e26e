"""What functions of other systems are in dpsql: by their names and arguments alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from dpsql.lazy_pattern import lazy_pattern

_POSITIVE = "all {0} are above 0"


class _Form(NamedTuple):
    """Calls of other systems and what is like them; what that asks, and on which condition it is the same."""

    names: str
    arguments: int
    written: str
    asks: str = ""
    provided: str = ""


_ALIKE = (
    _Form("unix_timestamp", 1, "epoch({0})", provided="times are of UTC"),
    _Form("date", 2, "CAST({0} AT TIME ZONE 'UTC' AT TIME ZONE {1} AS DATE)", provided="times are of UTC"),
    _Form("format_number", 2, "ROUND({0}, {1})", "a number, not a text"),
    _Form("touint8 touint16 touint32 touint64 toint8 toint16 toint32 toint64", 1, "CAST({0} AS BIGINT)"),
    _Form("from_iso8601_date", 1, "CAST({0} AS DATE)"),
    _Form("from_iso8601_timestamp", 1, "CAST({0} AS TIMESTAMP)", provided="no text has a zone"),
    _Form("ieee_divide", 2, "({0} / {1})", provided="{1} is never 0"),
    _Form("floor", 2, "(FLOOR({0} * 1e{1}) / 1e{1})"),
    _Form("ceil ceiling", 2, "(CEIL({0} * 1e{1}) / 1e{1})"),
    _Form("tostartoffiveminutes", 1, "time_bucket(INTERVAL 5 MINUTE, {0})"),
    _Form("tostartoftenminutes", 1, "time_bucket(INTERVAL 10 MINUTE, {0})"),
    _Form("tostartoffifteenminutes", 1, "time_bucket(INTERVAL 15 MINUTE, {0})"),
    _Form("convert_timezone", 3, "({2} AT TIME ZONE {0} AT TIME ZONE {1})"),
    _Form("convert_timezone", 2, "({1} AT TIME ZONE 'UTC' AT TIME ZONE {0})", provided="times are of UTC"),
    _Form("try", 1, "{0}", provided="nothing in it fails"),
    _Form("tostartofinterval", 2, "time_bucket({1}, {0})"),
    _Form("standard_deviation", 1, "STDDEV({0})"),
    _Form("sumproduct", 2, "SUM({0} * {1})"),
    _Form("correlation correl pearson", 2, "CORR({0}, {1})"),
    _Form("med", 1, "MEDIAN({0})"),
    _Form("add_months", 2, "({0} + INTERVAL ({1}) MONTH)", provided="no day is the last of its month"),
    _Form("months_between", 2, "date_diff('month', {1}, {0})", "how many months begin between the days"),
    _Form("date_add adddate", 2, "({0} + {1})"),
    _Form("date_add dateadd timestampadd", 3, "({2} + INTERVAL ({1}) {0})"),
    _Form("date_sub subdate", 2, "({0} - {1})"),
    _Form("date_sub", 3, "({2} - INTERVAL ({1}) {0})"),
    _Form("eomonth", 2, "last_day({0} + INTERVAL ({1}) MONTH)"),
    _Form("to_days", 1, "({0} - DATE '1970-01-01')", "days since 1970"),
    _Form("to_char", 1, "CAST({0} AS VARCHAR)"),
    _Form("str", 1, "CAST({0} AS VARCHAR)", provided="no blanks are wanted before it"),
    _Form(
        "to_number val", 1, "TRY_CAST({0} AS DOUBLE)", provided="all texts are numbers; others are NULL here"
    ),
    _Form("to_decimal", 1, "TRY_CAST({0} AS DOUBLE)", provided="its fraction is wanted, too"),
    _Form(
        "try_to_number", 1, "TRY_CAST({0} AS DOUBLE)", provided="no text has decimals, which are kept here"
    ),
    _Form("try_convert", 2, "TRY_CAST({1} AS {0})"),
    _Form("isnumeric", 1, "(TRY_CAST({0} AS DOUBLE) IS NOT NULL)"),
    _Form("isdate", 1, "(TRY_CAST({0} AS DATE) IS NOT NULL)"),
    _Form("total", 1, "coalesce(SUM({0}), 0)"),
    _Form("ratio_to_report", 1, "{0} / SUM({0})"),
    _Form("div0null", 2, "coalesce({0} / nullif({1}, 0), 0)", provided="{0} is never NULL"),
    _Form("divide", 2, "({0} / {1})"),
    _Form("bitand", 2, "({0} & {1})"),
    _Form("truncate rounddown", 2, "(TRUNC({0} * 1e{1}) / 1e{1})"),
    _Form("roundup", 1, "CEIL({0})", provided="none is negative"),
    _Form("roundup", 2, "(CEIL({0} * 1e{1}) / 1e{1})", provided="none is negative"),
    _Form("rounddown", 1, "TRUNC({0})"),
    _Form("log", 2, "(LN({1}) / LN({0}))"),
    _Form("regexp_count", 2, "len(regexp_extract_all({0}, {1}))"),
    _Form("contains_substr", 2, "contains(lower({0}), lower({1}))"),
    _Form("lengthb datalength", 1, "LENGTH({0})", provided="all letters are of ASCII"),
    _Form("sumif", 1, "COUNT_IF({0})", "how many rows meet the condition"),
    _Form("averageif", 2, "AVG({1}) FILTER (WHERE {0})"),
    _Form("countd ndv hll hll_count", 1, "COUNT(DISTINCT {0})"),
    _Form("sem stderr", 1, "(STDDEV({0}) / SQRT(COUNT({0})))"),
    _Form("regr slope", 2, "REGR_SLOPE({0}, {1})"),
    _Form(
        "normalize standardize zscore",
        1,
        "AVG({0}), STDDEV({0})",
        "the numbers by which each value would be normalized",
    ),
    _Form("makedate", 2, "(make_date({0}, 1, 1) + ({1} - 1))"),
    _Form("trimmed_mean trimmean", 2, "MEDIAN({0})", "the median, not the mean of what is left"),
    _Form("stats_mode", 1, "MODE({0})"),
    _Form("covar", 2, "COVAR_SAMP({0}, {1})"),
    _Form("linest linear_regression", 2, "REGR_SLOPE({0}, {1}), REGR_INTERCEPT({0}, {1})"),
    _Form("intercept", 2, "REGR_INTERCEPT({0}, {1})"),
    _Form("rsq", 2, "REGR_R2({0}, {1})"),
    _Form("geomean geometric_mean", 1, "EXP(AVG(LN({0})))", provided=_POSITIVE),
    _Form("product", 1, "EXP(SUM(LN({0})))", provided=_POSITIVE),
    _Form("harmonic_mean harmean", 1, "(1 / AVG(1 / {0}))", provided=_POSITIVE),
    _Form("weighted_avg avg_weighted", 2, "(SUM({0} * {1}) / SUM({1}))", provided="{0} is never NULL"),
    _Form("range", 1, "(MAX({0}) - MIN({0}))"),
    _Form("first_value last_value", 1, "MODE({0})", "the most frequent {0}"),
    _Form("fixed", 2, "ROUND({0}, {1})", "a number, not a text"),
    _Form("clamp clip", 3, "GREATEST({1}, LEAST({2}, {0}))", provided="{0} is never NULL"),
    _Form("max", 2, "GREATEST({0}, {1})", provided="{0} is never NULL"),
    _Form("min", 2, "LEAST({0}, {1})", provided="{0} is never NULL"),
    _Form("weekdayname weekday_name", 1, "dayname({0})"),
    _Form(
        "dp_interval dp_confidence_interval dp_ci dp_confidence",
        1,
        "DP_INTERVAL_LOW({0}), DP_INTERVAL_HIGH({0})",
    ),
    _Form("dp_noise_scale dp_error dp_noise", 1, "DP_STDDEV({0})", "the standard deviation of the noise"),
    _Form("dp_interval_up dp_interval_upper", 1, "DP_INTERVAL_HIGH({0})"),
    _Form("dp_interval_lower", 1, "DP_INTERVAL_LOW({0})"),
)
_DIFFERENT = lazy_pattern(
    r"(?:approx_?|exact_?)?(?:count_?|num_?|n_?)*(?:distinct|unique|uniq)(?:_?count|_?values|_?approx|_?exact)*"
)
"""Names of the number of different values."""
_TESTS = frozenset(("ttest", "studentttest", "welchttest", "ttestind", "anova", "mannwhitneyutest", "ztest"))
"""Tests of a number between the groups of a key."""
_OF_COUNTS = ("chisq", "chi2", "crosstab", "fisher")
"""How the names of tests of counts by two keys begin."""
_CONDITIONAL = frozenset(("avg", "min", "max", "median", "uniq", "stddevsamp", "varsamp"))
"""Aggregates to which ClickHouse adds `If` and a condition."""
_VARIANT = lazy_pattern(
    r"(avg|sum|min|max|median|stddev|variance|any)(?:ornull|ordefault|exact|exactlow|exacthigh|tdigest|timing"
    r"|bfloat16|interpolated|deterministic|kahan|withoverflow)"
)
"""Aggregates to which ClickHouse adds how they are computed, or what they are of no rows."""
_WITH_ACCURACY = dict.fromkeys(("percentile_approx", "approx_percentile", "percentile", "approx_quantile"), 2)
_WITH_ACCURACY |= dict.fromkeys(("approx_count_distinct", "approx_distinct", "approx_median"), 1)
"""Aggregates that other systems give an accuracy besides, and how many other arguments they have."""
_CRITERION = lazy_pattern(r"""["'](>=|<=|<>|!=|>|<|=|)\s*(.*)["']""")
_OF_CRITERIA = lazy_pattern(r"(count|sum|average|avg|min|max)_?ifs?")


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


class Alike(NamedTuple):
    """A call that asks the same as another system's, or nearly so."""

    written: str
    asks: str = ""
    """What it asks, if that is something else."""
    provided: str = ""
    """On which condition it asks the same."""


_PARTS = {"quartile": 4, "quintile": 5, "decile": 10, "percentile": 100}
"""Into how many parts functions of quantiles divide the rows."""


def find_alike(name: str, arguments: tuple[str, ...]) -> Alike | None:
    """Return what is like a call of a function, whose name is in small letters; None if nothing is.

    >>> find_alike("quartile", ("x", "3")).written, find_alike("countif", ("x", "'>30'")).written
    ('QUANTILE_CONT(x, 0.75)', 'COUNT_IF(x > 30)')
    >>> find_alike("sqrt", ("x",))
    """
    first, *others = arguments or ("",)
    if (criteria := _read_criteria(name, arguments)) is not None:
        return Alike(criteria)
    if name == "substring_index" and len(arguments) == 3:
        same = "" if others[1] in ("1", "-1") else f"{others[1]} is 1 or -1"
        return Alike(f"split_part({', '.join(arguments)})", provided=same)
    if name == "date_part" and others and re.fullmatch(r"'[A-Za-z]+'", others[0]) and first[:1] != "'":
        return Alike(f"date_part({others[0]}, {first})")
    if name in ("choose", "elt") and others:
        return Alike(f"CASE {first} {' '.join(f'WHEN {i} THEN {x}' for i, x in enumerate(others, 1))} END")
    if name in ("array_position", "find_in_set") and len(others) > 1:
        cases = " ".join(f"WHEN {each} THEN {i}" for i, each in enumerate(others, 1))
        return Alike(f"CASE {first} {cases} ELSE 0 END")
    if name == "approx_percentile" and len(others) == 2 and others[1][:2] in ("0.", ".5"):  # with a weight
        return Alike(f"{name}({first}, {others[1]})", "" if others[0] == "1" else "it without weights")
    if (variant := _VARIANT.fullmatch(name)) is not None and len(arguments) == 1:
        return Alike(f"{variant[1].upper()}({first})")
    if name in _WITH_ACCURACY and len(others) == _WITH_ACCURACY[name]:
        return Alike(f"{name}({', '.join(arguments[:-1])})")
    if _DIFFERENT.fullmatch(name) and first and not others:
        return Alike(f"COUNT(DISTINCT {first})")
    if (percent := re.fullmatch(r"(?:p|percentile_?|pct_?)(\d\d)", name)) is not None and not others:
        return Alike(f"QUANTILE_CONT({first}, 0.{percent[1]})")
    if (pair := _find_of_pair(name, arguments)) is not None:
        return pair
    known = (f for f in _ALIKE if name in f.names.split() and f.arguments == len(arguments))
    return next((Alike(*(text.format(*arguments) for text in form[2:])) for form in known), None)


def _find_of_pair(name: str, arguments: tuple[str, ...]) -> Alike | None:
    """Return what is like a call of two arguments."""
    if len(arguments) != 2:
        return None
    first, second = arguments
    bare = name.replace("_", "")
    parts = _PARTS.get(re.sub(r"[._]?(?:inc|exc)?\Z", "", name))
    shifted = re.fullmatch(r"'([+-]?\d+)\s+(\w+?)s?'", second)
    if bare in _TESTS:
        listed = f"{second}, AVG({first}), STDDEV({first}), COUNT({first})"
        return Alike(listed, "the numbers that the test compares")
    if bare.startswith(_OF_COUNTS):
        return Alike(f"{first}, {second}, COUNT(*)", "the counts that the test compares")
    if parts is not None and second.isdigit() and 0 < int(second) < parts:
        return Alike(f"QUANTILE_CONT({first}, {int(second) / parts:g})")
    if name in ("date", "datetime") and shifted is not None:  # SQLite's
        day = "current_date" if first.lower() == "'now'" else first
        moved = f"({day} + INTERVAL ({int(shifted[1])}) {shifted[2].upper()})"
        exact = (
            "" if shifted[2].lower() in ("day", "hour", "minute", "second") else "no day is after the 28th"
        )
        return Alike(f"CAST({moved} AS DATE)" if name == "date" else moved, provided=exact)
    ends = re.fullmatch(r"(?:ARRAY\s*)?\[([-\d., ]+)\]", second, re.IGNORECASE)
    if name in ("range_bucket", "width_bucket") and ends is not None:
        cases = [f"WHEN {first} < {end.strip()} THEN {i}" for i, end in enumerate(ends[1].split(","))]
        last = f"WHEN {first} IS NOT NULL THEN {len(cases)}"
        return Alike(f"CASE {' '.join(cases)} {last} END")
    digits = re.fullmatch(r"'%\.(\d)f'", first)
    if name in ("printf", "format", "sprintf") and digits is not None:
        return Alike(f"ROUND({second}, {digits[1]})", "a number, not a text")
    cut = re.fullmatch(r"'start of (month|year|day)'", second)
    if name in ("date", "datetime") and cut is not None:
        moved = f"date_trunc('{cut[1]}', {first})"
        return Alike(f"CAST({moved} AS DATE)" if name == "date" else moved)
    if name.endswith("if") and name.removesuffix("if") in _CONDITIONAL:
        return Alike(f"{name.removesuffix('if').upper()}({first}) FILTER (WHERE {second})")
    return None
