"""What functions of other systems are in dpsql: by their names and arguments alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from dpsql.lazy_pattern import lazy_pattern

_POSITIVE = "all {0} are above 0"
_ALIKE: dict[str, tuple[tuple[int, str, str, str], ...]] = {
    "unix_timestamp": ((1, "epoch({0})", "", "times are of UTC"),),
    "date": ((2, "CAST({0} AT TIME ZONE 'UTC' AT TIME ZONE {1} AS DATE)", "", "times are of UTC"),),
    "standard_deviation": ((1, "STDDEV({0})", "", ""),),
    "sumproduct": ((2, "SUM({0} * {1})", "", ""),),
    "correlation": ((2, "CORR({0}, {1})", "", ""),),
    "med": ((1, "MEDIAN({0})", "", ""),),
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
    "sem": ((1, "(STDDEV({0}) / SQRT(COUNT({0})))", "", ""),),
    "stderr": ((1, "(STDDEV({0}) / SQRT(COUNT({0})))", "", ""),),
    "regr": ((2, "REGR_SLOPE({0}, {1})", "", ""),),
    "normalize": ((1, "AVG({0}), STDDEV({0})", "the numbers by which each value would be normalized", ""),),
    "standardize": ((1, "AVG({0}), STDDEV({0})", "the numbers by which each value would be normalized", ""),),
    "zscore": ((1, "AVG({0}), STDDEV({0})", "the numbers by which each value would be normalized", ""),),
    "makedate": ((2, "(make_date({0}, 1, 1) + ({1} - 1))", "", ""),),
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
    if name in ("field", "array_position", "find_in_set") and len(others) > 1:
        cases = " ".join(f"WHEN {each} THEN {i}" for i, each in enumerate(others, 1))
        return Alike(f"CASE {first} {cases} ELSE 0 END")
    if name in _WITH_ACCURACY and len(others) == _WITH_ACCURACY[name]:
        return Alike(f"{name}({', '.join(arguments[:-1])})")
    if _DIFFERENT.fullmatch(name) and first and not others:
        return Alike(f"COUNT(DISTINCT {first})")
    if (percent := re.fullmatch(r"(?:p|percentile_?|pct_?)(\d\d)", name)) is not None and not others:
        return Alike(f"QUANTILE_CONT({first}, 0.{percent[1]})")
    if (pair := _find_of_pair(name, arguments)) is not None:
        return pair
    form = next((form for form in _ALIKE.get(name, ()) if form[0] == len(arguments)), None)
    return None if form is None else Alike(*(text.format(*arguments) for text in form[1:]))


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
        return Alike(f"({day} + INTERVAL ({int(shifted[1])}) {shifted[2].upper()})")
    if name.endswith("if") and name.removesuffix("if") in _CONDITIONAL:
        return Alike(f"{name.removesuffix('if').upper()}({first}) FILTER (WHERE {second})")
    return None
