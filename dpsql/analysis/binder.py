"""Check the plan that the engine's binder makes of the counting SQL, independently of the rules.

The SQL is bound on the schema database (private tables are empty, nothing is read), and every function,
conversion and scan of the bound plan is checked. This catches implicit conversions, unexpected overloads and
errors of the SQL generator. A refusal here is never the analyst's fault: it is a bug of dpsql, or the engine
is a version that dpsql was not tested with.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.parsed import words
from dpsql.kernel.tree import DOMAIN_SCHEMA, literal_sql
from dpsql.policy import Policy

_WIDTH = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
_DIGITS = {name: len(str(2**bits)) for name, bits in {**_WIDTH, **_UNSIGNED}.items()}
"""The most decimal digits of each integer type."""


_PLAIN_FUNCTIONS = frozenset({"count", "count_star"})
_PLAIN_EXPRESSIONS = frozenset(
    {"BOUND_BETWEEN", "BOUND_CASE", "BOUND_COLUMN_REF", "BOUND_CONJUNCTION", "BOUND_CONSTANT", "BOUND_REF"}
)
_PLAIN_OPERATORS = words("COMPARE_IN OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL OPERATOR_NOT")
_PLAIN_PLANS = words(
    """
    LOGICAL_AGGREGATE_AND_GROUP_BY LOGICAL_COMPARISON_JOIN LOGICAL_CROSS_PRODUCT LOGICAL_DISTINCT
    LOGICAL_DUMMY_SCAN LOGICAL_EXPRESSION_GET LOGICAL_FILTER LOGICAL_GET LOGICAL_LIMIT LOGICAL_ORDER_BY
    LOGICAL_PROJECTION LOGICAL_UNION
    """
)


_KEPT = 32
"""How many checked statements a schema database remembers: a release is compiled several times."""


def confirm(catalog: Catalog, sql: str, policy: Policy) -> bool:
    """Check the bound plan of counting SQL; raises `InternalError` (uncharged, nothing was run).

    With an engine that is no tested version, it raises `EngineNotTested`.

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
        raise catalog.vocabulary.refuse("the compiled statement does not bind")
    checker = _PlanChecker(catalog, frozenset(t.name for t in policy.tables.values()))
    checker.visit(plan)
    if len(catalog.confirmed) >= _KEPT:
        catalog.confirmed.clear()
    catalog.confirmed[sql] = checker.counts_only
    return checker.counts_only


class _PlanChecker:
    """Visits the nodes of a bound plan and raises an error for one that is not allowed."""

    def __init__(self, catalog: Catalog, tables: frozenset[str]) -> None:
        self.catalog = catalog
        self.vocabulary = catalog.vocabulary
        self.tables = tables
        self.counts_only = True

    def visit(self, plan: object) -> None:
        waiting = [plan]
        while waiting:
            node = waiting.pop()
            values: Iterable[object] = ()
            if isinstance(node, list):
                values = node
            elif isinstance(node, dict):
                if "expression_class" in node:
                    self.expression(node)
                elif isinstance(node.get("type"), str) and str(node["type"]).startswith("LOGICAL_"):
                    self.plan(node)
                values = node.values()
            waiting += [value for value in values if isinstance(value, (dict, list))]

    def plan(self, node: dict[str, Any]) -> None:
        kind = node["type"]
        if kind not in self.vocabulary.plans:
            raise self.vocabulary.refuse(f"the plan has a {kind}")
        self.counts_only &= kind in _PLAIN_PLANS
        if kind == "LOGICAL_DISTINCT" and node.get("distinct_type") != "DISTINCT":
            raise self.vocabulary.refuse("the plan has a DISTINCT ON")
        if kind != "LOGICAL_GET":
            return
        path = (node.get("qname") or {}).get("path") or []
        if path in (["system", "main", "range"], ["system", "main", "unnest"]):
            return
        data = node.get("function_data") or {}
        schema, table = data.get("schema"), data.get("table")
        scanned = (schema == "main" and table in self.tables) or schema == DOMAIN_SCHEMA
        if path != ["seq_scan"] or data.get("catalog") != "memory" or not scanned:
            raise self.vocabulary.refuse("the plan scans something that is not declared")

    def expression(self, node: dict[str, Any]) -> None:
        kind, name = node["expression_class"], node["type"]
        if kind not in self.vocabulary.expressions:
            raise self.vocabulary.refuse(f"the plan has a {kind}")
        if kind == "BOUND_OPERATOR" and name not in self.vocabulary.operators:
            raise self.vocabulary.refuse(f"the plan has a {name}")
        if kind == "BOUND_WINDOW" and name not in self.vocabulary.windows:
            raise self.vocabulary.refuse(f"the plan has a {name}")
        self.counts_only &= _plain(node)
        if name == "OPERATOR_CAST":
            self.cast(node)
        elif kind in ("BOUND_FUNCTION", "BOUND_AGGREGATE"):
            path = (node.get("qname") or {}).get("path") or [""]
            builtin = path[:-1] == ["system", "main"] or (len(path) == 1 and name.startswith("COMPARE_"))
            if not builtin or path[-1] not in self.vocabulary.functions:
                raise self.vocabulary.refuse(f"the plan calls {path[-1]}")

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
                raise self.vocabulary.refuse("a constant does not convert") from None
            return
        raise self.vocabulary.refuse(f"the plan converts {before['id']} to {after['id']}")


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
