"""Check the plan that the engine's binder makes of the counting SQL, independently of the rules.

The SQL is bound on the schema database (private tables are empty, nothing is read), and every function,
conversion and scan of the bound plan is checked. This catches implicit conversions, unexpected overloads and
errors of the SQL generator. A refusal here is a bug of dpsql, never the analyst's fault.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.parsed import words
from dpsql.errors import InternalError
from dpsql.policy import Policy
from dpsql.tree import DOMAIN_SCHEMA, literal_sql

FUNCTIONS = words(
    """
    != !~~ !~~* % & * + - / // < <= = > >= >> ^@ abs acos acosh age array_extract array_length ascii
    asin asinh atan atan2 atanh avg bit_and bit_count bit_length bit_or bit_xor bool_and bool_or cbrt
    ceil ceiling century char_length character_length chr coalesce concat contains cos cosh cot count
    count_star damerau_levenshtein date_diff date_sub date_trunc day dayname dayofmonth dayofweek
    dayofyear decade degrees encode ends_with epoch epoch_ms even exp factorial first floor from_base64
    gamma gcd greatest hamming hash hex hour instr isfinite isinf isnan isodow isoyear jaccard
    jaro_similarity jaro_winkler_similarity json_extract_string json_valid last last_day lcase lcm least
    left len length length_grapheme levenshtein lgamma list_aggr list_contains list_distinct
    list_extract list_filter list_has list_has_all list_has_any list_position list_reverse_sort
    list_sort list_transform list_unique ln log log10 log2 lower ltrim make_date max md5 median
    microsecond millisecond min minute month monthname nextafter nfc_normalize octet_length ord
    parse_dirname parse_filename pow prefix quarter radians regexp_escape regexp_extract
    regexp_full_match regexp_matches replace reverse right round rtrim second sha1 sha256 sign signbit
    sin sinh split sqrt starts_with str_split strftime string_agg string_split string_to_array
    strip_accents strlen strpos substr substring suffix sum tan tanh to_base64 translate trim trunc
    try_strptime ucase unhex unicode upper url_decode url_encode week weekday weekofyear xor year
    yearweek | || ~ ~~ ~~* ~~~
    list list_value error row_number
    regexp_replace regexp_extract_all string_split_regex time_bucket lpad rpad
    epoch_us make_timestamp make_timestamptz
    concat_ws json_exists json_type json_array_length json_keys list_slice array_slice overlay datetrunc
    str_split_regex regexp_split_to_array like_escape ilike_escape not_like_escape not_ilike_escape
    """
) | {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
"""Every engine function that a listed form or a rule may bind to."""


EXPRESSIONS = words(
    """
    BOUND_AGGREGATE BOUND_BETWEEN BOUND_CASE BOUND_COLUMN_REF BOUND_CONJUNCTION BOUND_CONSTANT
    BOUND_FUNCTION BOUND_LAMBDA BOUND_OPERATOR BOUND_REF BOUND_SUBQUERY BOUND_UNNEST BOUND_WINDOW
    """
)
OPERATORS = words(
    """
    COMPARE_IN OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL OPERATOR_NOT OPERATOR_TRY
    """
)
WINDOWS = words(
    """
    WINDOW_AGGREGATE WINDOW_CUME_DIST WINDOW_FIRST_VALUE WINDOW_LAG WINDOW_LAST_VALUE WINDOW_LEAD
    WINDOW_NTH_VALUE WINDOW_NTILE WINDOW_PERCENT_RANK WINDOW_RANK WINDOW_RANK_DENSE WINDOW_ROW_NUMBER
    """
)
PLANS = words(
    """
    LOGICAL_AGGREGATE_AND_GROUP_BY LOGICAL_ANY_JOIN LOGICAL_COMPARISON_JOIN LOGICAL_CROSS_PRODUCT
    LOGICAL_CTE_REF LOGICAL_DELIM_GET LOGICAL_DELIM_JOIN LOGICAL_DEPENDENT_JOIN LOGICAL_DISTINCT
    LOGICAL_DUMMY_SCAN LOGICAL_EXPRESSION_GET LOGICAL_FILTER LOGICAL_GET LOGICAL_EMPTY_RESULT
    LOGICAL_EXCEPT LOGICAL_INTERSECT LOGICAL_LIMIT LOGICAL_MATERIALIZED_CTE LOGICAL_ORDER_BY
    LOGICAL_PROJECTION LOGICAL_UNION LOGICAL_UNNEST LOGICAL_WINDOW
    """
)
_WIDTH = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
_DIGITS = {name: len(str(2**bits)) for name, bits in {**_WIDTH, **_UNSIGNED}.items()}
"""The most decimal digits of each integer type."""


_PLAIN_FUNCTIONS = frozenset({"count", "count_star"})
_PLAIN_EXPRESSIONS = frozenset(
    {"BOUND_BETWEEN", "BOUND_CASE", "BOUND_COLUMN_REF", "BOUND_CONJUNCTION", "BOUND_CONSTANT", "BOUND_REF"}
)
_PLAIN_OPERATORS = OPERATORS - {"OPERATOR_TRY"}
_PLAIN_PLANS = words(
    """
    LOGICAL_AGGREGATE_AND_GROUP_BY LOGICAL_COMPARISON_JOIN LOGICAL_CROSS_PRODUCT LOGICAL_DISTINCT
    LOGICAL_DUMMY_SCAN LOGICAL_EXPRESSION_GET LOGICAL_FILTER LOGICAL_GET LOGICAL_LIMIT LOGICAL_ORDER_BY
    LOGICAL_PROJECTION
    """
)


_KEPT = 32
"""How many checked statements a schema database remembers: a release is compiled several times."""


def confirm(catalog: Catalog, sql: str, policy: Policy) -> bool:
    """Check the bound plan of counting SQL; raises `InternalError` (uncharged, nothing was run).

    Returns
    -------
    bool
        Whether the plan only counts, joins, compares and chooses. Then it may run with the optimizer that
        uses the minimum and maximum of columns: no expression that the optimizer evaluates on them can fail.
    """
    known = catalog.confirmed.get(sql)
    if known is not None:
        return known
    plan: object = None
    with suppress(ValueError):
        plan = catalog.plan(sql)
    if plan is None:
        raise _bug("the compiled statement does not bind")
    checker = _PlanChecker(catalog, frozenset(t.name for t in policy.tables.values()))
    checker.visit(plan)
    if len(catalog.confirmed) >= _KEPT:
        catalog.confirmed.clear()
    catalog.confirmed[sql] = checker.counts_only
    return checker.counts_only


class _PlanChecker:
    """Visits the nodes of a bound plan and raises `InternalError` for one that is not allowed."""

    def __init__(self, catalog: Catalog, tables: frozenset[str]) -> None:
        self.catalog = catalog
        self.tables = tables
        self.counts_only = True

    def visit(self, plan: object) -> None:
        waiting = [plan]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                if "expression_class" in node:
                    self.expression(node)
                elif isinstance(node.get("type"), str) and str(node["type"]).startswith("LOGICAL_"):
                    self.plan(node)
                waiting += node.values()

    def plan(self, node: dict[str, Any]) -> None:
        kind = node["type"]
        if kind not in PLANS:
            raise _bug(f"the plan has a {kind}")
        self.counts_only &= kind in _PLAIN_PLANS
        if kind == "LOGICAL_DISTINCT" and node.get("distinct_type") != "DISTINCT":
            raise _bug("the plan has a DISTINCT ON")
        if kind != "LOGICAL_GET":
            return
        path = (node.get("qname") or {}).get("path") or []
        if path in (["system", "main", "range"], ["system", "main", "unnest"]):
            return
        data = node.get("function_data") or {}
        schema, table = data.get("schema"), data.get("table")
        scanned = (schema == "main" and table in self.tables) or schema == DOMAIN_SCHEMA
        if path != ["seq_scan"] or data.get("catalog") != "memory" or not scanned:
            raise _bug("the plan scans something that is not declared")

    def expression(self, node: dict[str, Any]) -> None:
        kind, name = node["expression_class"], node["type"]
        if kind not in EXPRESSIONS:
            raise _bug(f"the plan has a {kind}")
        if kind == "BOUND_OPERATOR" and name not in OPERATORS:
            raise _bug(f"the plan has a {name}")
        if kind == "BOUND_WINDOW" and name not in WINDOWS:
            raise _bug(f"the plan has a {name}")
        self.counts_only &= _plain(node)
        if name == "OPERATOR_CAST":
            self.cast(node)
        elif kind in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
            path = (node.get("qname") or {}).get("path") or [""]
            builtin = path[:-1] == ["system", "main"] or (len(path) == 1 and name.startswith("COMPARE_"))
            if not builtin or path[-1] not in FUNCTIONS:
                raise _bug(f"the plan calls {path[-1]}")

    def cast(self, node: dict[str, Any]) -> None:
        if (node.get("function_data") or {}).get("try_cast") is True:
            return
        child, after = node["children"][0], node["return_type"]
        value = child.get("value") or {}
        before = value.get("type") or child.get("return_type") or node["arguments"][0]
        if lossless(before, after):
            return
        if child["expression_class"] == "BOUND_CONSTANT" and isinstance(value.get("value"), str):
            try:
                self.catalog.evaluate(f"CAST({literal_sql(value['value'])} AS {after['id']})")
            except ValueError:
                raise _bug("a constant does not convert") from None
            return
        raise _bug(f"the plan converts {before['id']} to {after['id']}")


def _plain(node: dict[str, Any]) -> bool:
    """Return whether an expression only compares, chooses, counts or changes the width of an integer."""
    kind, name = node["expression_class"], node["type"]
    if name == "OPERATOR_CAST":
        child = node["children"][0]
        before = child.get("return_type") or node["arguments"][0]
        constant = child["expression_class"] == "BOUND_CONSTANT"
        return constant or (before["id"] in _WIDTH and node["return_type"]["id"] in _WIDTH)
    if kind in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
        path = (node.get("qname") or {}).get("path") or [""]
        return name.startswith("COMPARE_") or path[-1] in _PLAIN_FUNCTIONS
    return kind in _PLAIN_EXPRESSIONS or (kind == "BOUND_OPERATOR" and name in _PLAIN_OPERATORS)


def _decimal(kind: dict[str, Any]) -> tuple[int, int]:
    info = kind.get("type_info") or {}
    return int(info.get("width", 18)), int(info.get("scale", 3))


def lossless(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether every value of one engine type converts to the other without an error."""
    a, b = str(before["id"]), str(after["id"])
    if a == "NULL" or (a == b and a != "DECIMAL"):
        return True
    if a in _WIDTH and b in _WIDTH:
        return _WIDTH[b] >= _WIDTH[a]
    if a in _UNSIGNED:
        if b in _UNSIGNED:
            return _UNSIGNED[b] >= _UNSIGNED[a]
        if b in _WIDTH:
            return _WIDTH[b] >= _UNSIGNED[a]
    if b == "DOUBLE":
        return a in _WIDTH or a in _UNSIGNED or a in ("DECIMAL", "FLOAT")
    if b == "DECIMAL":
        width, scale = _decimal(after)
        if a in _DIGITS:
            return width - scale >= _DIGITS[a]
        if a == "DECIMAL":
            old_width, old_scale = _decimal(before)
            return scale >= old_scale and width - scale >= old_width - old_scale
    return a == "ENUM" and b == "VARCHAR"


def _bug(what: str) -> InternalError:
    return InternalError(f"this is a bug of dpsql, nothing was run or charged: {what}")
