"""That what a tree has as text, and an engine gets as it is, is one word: names, types, numbers, operators.

A proof is about the tree, and an engine reads its text. Quoted names and texts cannot end before their
quotes; everything else that nodes hold is in a closed list here, or a number of Python's own types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Counted,
    Cut,
    Derived,
    DomainScan,
    Interval,
    Item,
    Join,
    Lambda,
    Like,
    Lowered,
    Moved,
    Node,
    OrderTerm,
    Parameter,
    Range,
    Saturated,
    Scan,
    Select,
    SetOperation,
    Slice,
    Steps,
    Sums,
    Unary,
    Unnest,
    Unscaled,
    Values,
    Window,
    walk,
)
from dpsql.types import SqlType


def has_known_words(node: Node) -> bool:
    """Return whether the words of a node are those that it may have."""
    rule = _RULES.get(type(node))
    if rule is None and isinstance(node, (Lowered, Counted)):
        rule = _fields
    return rule is None or rule(node)


@lru_cache(maxsize=4096)
def _is_name(word: str) -> bool:
    """Return whether a word is a name that needs no quotes."""
    return type(word) is str and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", word) is not None


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VALUES = _listed(
    """
    null true false default user current_user session_user current_role current_catalog current_schema
    current_date current_time current_timestamp localtime localtimestamp rowid
    """
)
"""Names that are values by themselves, where no table is before them."""
_OPERATORS = _listed("= <> < <= > >= + - * / // % & | >> ^@ ~ AND OR")
_OPERATORS |= {"IS DISTINCT FROM", "IS NOT DISTINCT FROM", "SIMILAR TO", "GLOB"}
_SETS = frozenset({f"{word}{more}" for word in ("UNION", "INTERSECT", "EXCEPT") for more in ("", " ALL")})
_JOINS = {"", *_listed("CROSS INNER LEFT RIGHT FULL SEMI ANTI")}
_TYPES = _listed(
    """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT DOUBLE DECIMAL
    VARCHAR BLOB DATE TIME TIMESTAMP TIMESTAMPTZ INTERVAL UUID JSON LIST STRUCT ENUM
    """
)


@lru_cache(maxsize=1024)
def _is_type(kind: SqlType) -> bool:
    parts = [kind.item] if kind.item is not None else [part for _, part in kind.fields]
    return kind.name in _TYPES and _whole(kind.precision, kind.scale) and all(map(_is_type, parts))


def _whole(*numbers: object) -> bool:
    return all(type(number) is int for number in numbers)


def _column(node: Column) -> bool:
    named = node.stored or (_is_name(node.name) and bool(node.table or node.name.lower() not in _VALUES))
    return named and (not node.table or _is_name(node.table))


def _constant(node: Constant) -> bool:
    """Return whether a constant is written as one: infinities are words of others."""
    value = node.value
    kind = type(value)
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    if kind is Decimal:
        return value.is_finite() and _is_type(node.type)  # type: ignore[attr-defined]
    if kind in (date, datetime, time):
        return node.type.held.name in ("DATE", "TIME", "TIMESTAMP")
    return value is None or kind in (str, bool, int)


def _unary(node: Unary) -> bool:
    return node.operator == "~" or (node.operator == "-" and not _is_signed(node.operand))


def _is_signed(node: Node) -> bool:
    """Return whether a text begins with a sign: two in a row begin a comment."""
    if isinstance(node, Constant) and type(node.value) in (int, float):
        return math.copysign(1, node.value) < 0  # type: ignore[arg-type]
    return isinstance(node, Unary)


def _apply(node: Apply) -> bool:
    template = node.form.template
    return not any(f"-{{{i}}}" in template and _is_signed(x) for i, x in enumerate(node.arguments))


def _window(node: Window) -> bool:
    frame = node.frame
    if frame is None:
        return True
    ends = [frame.start] if frame.end is None else [frame.start, frame.end]
    return frame.unit in ("ROWS", "RANGE", "GROUPS") and all(
        (end.side in ("PRECEDING", "FOLLOWING") and (end.offset is None or _from_0(end.offset)))
        or (end.side == "CURRENT ROW" and end.offset is None)
        for end in ends
    )


def _from_0(number: object) -> bool:
    return type(number) is int and number >= 0


def _lambda(node: Lambda) -> bool:
    """Return whether the parameter is a name that no column in the body has, nor its table."""
    own = node.parameter.lower()
    columns = [part for part in walk(node.body) if isinstance(part, Column)]
    return _is_name(node.parameter) and not any(own in (c.name.lower(), c.table.lower()) for c in columns)


def _fields(node: Node) -> bool:
    """Return whether numbers, names and types of a node that is written as others are such."""
    return all(_is_field(getattr(node, name)) for name in node.__match_args__)


def _is_field(value: object) -> bool:
    match value:
        case tuple():
            return all(map(_is_field, value))
        case SqlType():
            return _is_type(value)
        case str():
            return _is_name(value)
    return isinstance(value, (Node, Sums)) or value is None or type(value) in (int, bool)


_RULES: dict[type[Node], Callable[[Any], bool]] = {
    Column: _column,
    Constant: _constant,
    Unary: _unary,
    Apply: _apply,
    Window: _window,
    Lambda: _lambda,
    Parameter: lambda n: _is_name(n.name),
    Binary: lambda n: n.operator in _OPERATORS,
    Cast: lambda n: _is_type(n.type),
    Saturated: lambda n: _is_type(n.type),
    Unscaled: lambda n: _is_type(n.type),
    Like: lambda n: n.word in ("LIKE", "ILIKE"),
    Interval: lambda n: re.fullmatch(r"-?[0-9]+(\.[0-9]+)? [A-Za-z]+", n.text) is not None,
    Call: lambda n: _is_name(n.name),
    Aggregate: lambda n: _is_name(n.name),
    OrderTerm: lambda n: n.direction in ("", "ASC", "DESC") and n.nulls in ("", "FIRST", "LAST"),
    Moved: lambda n: _whole(n.seconds),
    Slice: lambda n: _whole(n.low, n.high),
    Steps: lambda n: _whole(n.low, n.high) and type(n.step) is Fraction,
    Cut: lambda n: _whole(n.low, n.high),
    Item: lambda n: not n.name or _is_name(n.name),
    Select: lambda n: n.limit is None or _from_0(n.limit),
    SetOperation: lambda n: n.word in _SETS,
    Join: lambda n: n.kind in _JOINS,
    Derived: lambda n: _is_name(n.alias),
    Scan: lambda n: _is_name(n.alias),
    DomainScan: lambda n: _is_name(n.name),
    Unnest: lambda n: _is_name(n.alias),
    Values: lambda n: _is_name(n.alias) and all(map(_is_name, n.columns)),
    Range: lambda n: (
        _is_name(n.alias)
        and _is_name(n.column)
        and _whole(n.start, n.stop)
        and (n.step is None or _whole(n.step))
    ),
}
"""What tests the words of each node that has some."""
