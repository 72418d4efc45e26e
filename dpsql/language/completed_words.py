"""The words of the language that front ends complete: keywords, values of options, settings."""

from __future__ import annotations

from dpsql.language.options import INTERVALS, MEASURE_STRATEGIES, MECHANISMS, NOISES

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "DISTINCT", "COUNT", "AS", "ASC"),
    *("DESC", "JOIN", "LEFT JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "FILTER", "WITH", "UNION", "EXISTS", "NULL", "TRUE"),
    *("FALSE", "EXPLAIN", "DESCRIBE", "SET", "SHOW TABLES", "SHOW PRIVACY BUDGET", "SHOW RELEASES"),
    *("REFINE RELEASE", "TO", "SHOW RELEASE", "EXPLAIN (FORMAT JSON)", "IS NOT NULL", "PARTITION BY"),
    *("EXPLAIN (FORMAT CERTIFICATE)",),
    *("WITH DIFFERENTIAL_PRIVACY", "OPTIONS", "TOP", "BY", "ABOVE THRESHOLD", "ARGMAX"),
    *("DP_GAP()", "DP_STDDEV", "DP_INTERVAL_LOW", "DP_INTERVAL_HIGH", "DP_PVALUE()", "DP_RANK()"),
    *("DP_LEFT_OUT", "DP_BOUND"),
)
VALUES = {
    "mechanism": MECHANISMS,
    "noise": NOISES,
    "measure_strategy": MEASURE_STRATEGIES,
    "intervals": INTERVALS,
    "measure": ("AUTO",),
    "fresh": ("TRUE", "FALSE"),
}
SETTINGS = ("dp_epsilon", "dp_error", "dp_delta", "dp_measure", "dp_confidence")
