"""Find the conversions of texts in the bound plan of a query over released rows, which may fail as it runs.

A failure comes after the charge, so these are judged before it: a conversion is tried on all values that its
text may have, where these are declared or public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.lazy_dataclass import dataclass

_FAILING = frozenset(
    {"strptime", "date_part", "date_trunc", "date_diff", "date_sub"}
    | {"datepart", "datetrunc", "datediff", "datesub"}
)
"""Functions whose first argument is a text that may be none of theirs: they fail then."""
_KEEP_COLUMNS = ("LOGICAL_FILTER", "LOGICAL_ORDER_BY", "LOGICAL_LIMIT", "LOGICAL_DISTINCT", "LOGICAL_TOP_N")
_JOINS = ("INNER", "LEFT", "RIGHT", "OUTER")
_PRODUCTS = ("LOGICAL_CROSS_PRODUCT",)
_TEXT = "VARCHAR"

_Origin = tuple[bool, str, str] | None
"""Whether a column is public, and the names of its table and of it; None: it is computed, or not known."""


@dataclass(frozen=True, slots=True)
class TextConversion:
    """A conversion of a text to another type, implicit or not, by CAST or by a function."""

    column: str
    """The name of a column that it reads; empty: it reads none."""
    type: str
    """The type, or the name of the function."""
    text: str | None
    """The text, if it is a constant."""
    origin: tuple[str, str] | None
    """The table and the column that its text is computed of, if it is of one alone."""
    public: bool
    """Whether that is a public table."""
    value: str
    """The text that is converted, in SQL over `v`, the value of that column."""
    tried: str | None
    """The conversion in SQL over `v`, NULL where it fails; None: it cannot be tried."""


def find_conversions(plans: list[dict[str, Any]], sql: str) -> tuple[TextConversion, ...]:
    """Return the conversions of texts in bound plans, without those that give NULL where they fail."""
    found: list[TextConversion] = []
    for each in plans:
        _read(each, sql.encode(), found, {})
    return tuple(dict.fromkeys(found))


def _read(
    node: dict[str, Any], sql: bytes, found: list[TextConversion], ctes: Mapping[int, list[_Origin] | None]
) -> list[_Origin] | None:
    """Add the conversions of an operator and of those below; return the origins of its columns, if known.

    `ctes` has those of common table expressions around, by their numbers.
    """
    below = list[list[_Origin] | None]()
    kind = node.get("type")
    for child in node.get("children") or []:
        if kind == "LOGICAL_MATERIALIZED_CTE" and below:
            ctes = {**ctes, node.get("table_index", -1): below[0]}
        below.append(_read(child, sql, found, ctes))
    joined = (kind == "LOGICAL_COMPARISON_JOIN" and node.get("join_type") in _JOINS) or kind in _PRODUCTS
    known = None if None in below else [origin for each in below for origin in each or ()]
    own = {name: value for name, value in node.items() if name != "children"}
    sides = own.pop("conditions", []) if joined else []  # each side of one reads the columns of its child
    read = [(side[name], of) for side in sides for name, of in zip(("left", "right"), below, strict=True)]
    for part, of in [*read, (own, known if len(below) < 2 else None)]:
        found += (made for each in _expressions(part) if (made := _convert(each, of, sql)) is not None)
    if kind == "LOGICAL_GET":
        data, names = node.get("function_data") or {}, node.get("names") or []
        public, table = data.get("catalog") != "temp", data.get("table")
        places = [each["index"] for each in node.get("column_indexes") or []]
        if table is None or node.get("projection_ids"):
            return [None] * len(places)
        return [(public, table, names[place]) if place < len(names) else None for place in places]  # no rowid
    if kind == "LOGICAL_PROJECTION":
        return [_origin(each, known) for each in node["expressions"]]
    if kind == "LOGICAL_AGGREGATE_AND_GROUP_BY":
        groups = [_origin(each, known) for each in node.get("groups") or []]
        return [*groups, *(None for _ in node["expressions"]), *(None for _ in node["grouping_functions"])]
    if node.get("projection_map") or node.get("left_projection_map") or node.get("right_projection_map"):
        return None
    if kind == "LOGICAL_WINDOW" and known is not None:
        return [*known, *(None for _ in node["expressions"])]
    if kind == "LOGICAL_UNION" and known is not None:
        branches = zip(*(each or () for each in below), strict=True)
        return [each[0] if len(set(each)) == 1 else None for each in branches]
    if kind == "LOGICAL_MATERIALIZED_CTE":
        return below[-1]
    if kind == "LOGICAL_CTE_REF":
        return ctes.get(node.get("cte_index", -2))
    return known if joined or kind in _KEEP_COLUMNS else None


def walk_plan(node: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a bound plan: its operators, expressions, and their parts."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            yield each
            waiting += each.values()


def _expressions(node: object) -> Iterator[dict[str, Any]]:
    return (each for each in walk_plan(node) if "expression_class" in each)


def _origin(node: dict[str, Any], known: Sequence[_Origin] | None) -> _Origin:
    """Return the origin of an expression that is a column."""
    place = node.get("index")
    if node["expression_class"] != "BOUND_REF" or known is None or not isinstance(place, int):
        return None
    return known[place] if place < len(known) else None


def _convert(node: dict[str, Any], known: Sequence[_Origin] | None, sql: bytes) -> TextConversion | None:
    """Return the conversion of an expression; None for one that converts no text of a column or constant."""
    name = ((node.get("qname") or {}).get("path") or [""])[-1]
    cast = node.get("type") == "OPERATOR_CAST"
    if not (cast or name in _FAILING) or (node.get("function_data") or {}).get("try_cast"):
        return None
    given = node["children"][0]
    kind = node["return_type"]
    stored = given.get("value") or {}
    if (stored.get("type") or given.get("return_type") or {}).get("id") != _TEXT:
        return None
    if cast and kind["id"] == _TEXT:
        return None
    to = _write_type(kind) if cast else None
    if given["expression_class"] == "BOUND_CONSTANT":
        text = stored.get("value")
        if to is None or not isinstance(text, str):
            return None
        return TextConversion("", to, text, None, False, "v", f"TRY_CAST(v AS {to})")
    texts = [
        each
        for each in _expressions(given)
        if each["expression_class"] == "BOUND_REF" and each["return_type"]["id"] == _TEXT
    ]
    origins = {_origin(each, known) for each in texts}
    if not origins:
        return None
    one = next(iter(origins)) if len(origins) == 1 else None
    value = None if one is None else _write_over(given, sql)
    tried = None if value is None or to is None else f"TRY_CAST({value} AS {to})"
    of, public = (None, False) if one is None else (one[1:], one[0])
    said = to or (str(kind["id"]) if cast else name)
    return TextConversion(str(texts[0]["alias"]), said, None, of, public, value or "v", tried)


def _write_type(kind: dict[str, Any]) -> str | None:
    more = kind.get("type_info")
    if not more:
        return str(kind["id"])
    if kind["id"] == "DECIMAL":
        return f"DECIMAL({more['width']}, {more['scale']})"
    return None


def _write_over(given: dict[str, Any], sql: bytes) -> str | None:
    """Return an expression of one column in SQL over `v`; None if it cannot be written."""
    if given["expression_class"] == "BOUND_REF":
        return "v"
    refs = {each["index"] for each in _expressions(given) if each["expression_class"] == "BOUND_REF"}
    start, length = given.get("query_location", 0), given.get("query_location_length", 0)
    if len(refs) != 1 or not length or start + length > len(sql):
        return None
    try:
        tree = sqlglot.parse_one(sql[start : start + length].decode(), read="duckdb")
    except (SqlglotError, UnicodeDecodeError):
        return None
    if any(isinstance(each, (exp.Lambda, exp.Query, exp.Window, exp.AggFunc)) for each in tree.walk()):
        return None
    value = exp.Column(this=exp.to_identifier("v", quoted=True))
    return tree.transform(lambda each: value.copy() if isinstance(each, exp.Column) else each).sql("duckdb")
