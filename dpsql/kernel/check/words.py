"""That the text of a tree means the tree: its words are known, its operators bind as it has them.

A proof is about the tree, and an engine reads its text. Quoted names and texts cannot end before their
quotes; everything else that nodes hold is in a closed list here, or a number of Python's own types.

Only `Paren` writes parentheses. An operand that is itself an operator is read as the tree has it only if it
binds more tightly, or as tightly on the left of an operator that groups to the left. So each operand is
tested against the precedence of DuckDB's grammar; texts with delimiters around them bind most tightly.
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

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Between,
    Binary,
    Call,
    Candidates,
    Canonical,
    Cast,
    Column,
    Constant,
    Counted,
    Cut,
    Decided,
    Derived,
    DomainScan,
    Element,
    Expr,
    InList,
    InQuery,
    Interval,
    IsNull,
    IsTruth,
    Item,
    Join,
    Lambda,
    Like,
    Lowered,
    Marked,
    Mean,
    Moved,
    Node,
    Not,
    Numbered,
    OfDomain,
    OnDomain,
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
    UtcTime,
    Values,
    Window,
    walk,
)
from dpsql.types import SqlType


def has_known_words(node: Node) -> bool:
    """Return whether the texts in a node are among those that a node of its kind may have."""
    rule = _RULES.get(type(node))
    if rule is None and isinstance(node, (Lowered, Counted)):
        rule = _fields
    return rule is None or rule(node)


@lru_cache(maxsize=4096)
def _is_name(word: str) -> bool:
    """Return whether a word is a name that needs no quotes."""
    return type(word) is str and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", word) is not None


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VALUES = _words(
    """
    null true false default user current_user session_user current_role current_catalog current_schema
    current_date current_time current_timestamp localtime localtimestamp rowid
    """
)
"""Names that are values by themselves, where no table is before them."""
_OPERATORS = _words("= <> < <= > >= + - * / // % & | >> ^@ ~ AND OR")
_OPERATORS |= {"IS DISTINCT FROM", "IS NOT DISTINCT FROM", "SIMILAR TO", "GLOB"}
_SETS = frozenset({f"{word}{more}" for word in ("UNION", "INTERSECT", "EXCEPT") for more in ("", " ALL")})
_JOINS = {"", *_words("CROSS INNER LEFT RIGHT FULL SEMI ANTI")}
_TYPES = _words(
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
    return node.operator == "-" and not _is_signed(node.operand)


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


def _groups(node: Marked | OnDomain | OfDomain | Decided) -> bool:
    """Return whether keys and numbers are named by their places, and each key of a domain once."""
    parts = node.parts if isinstance(node, OfDomain) else node.domains
    places = [place for part in parts for place in part.keys]
    if isinstance(node, Decided):
        places = [*{*places, *node.by, *range(node.keys)}]
        some = node.most is None or node.most >= 0
        return _fields(node) and some and 0 <= node.place < node.numbers and len(places) == node.keys
    if isinstance(node, Marked) and len(places) != node.keys:
        return False
    return _fields(node) and bool(places) and sorted(places) == [*range(len(places))]


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
    Parameter: lambda n: _is_name(n.name) and all(map(_is_name, n.path)),
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
    **dict.fromkeys((Marked, OnDomain, OfDomain, Decided), _groups),
    Candidates: lambda n: _fields(n) and len(n.keys) > 0,
    Numbered: lambda n: _fields(n) and len(n.keys) > 0 and (n.query is not None or len(n.keys) == 1),
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

# -- how tightly texts bind

OR, AND, NOT, IS, COMPARED, MATCHED, OTHER, ADDED, MULTIPLIED, SIGNED, CLOSED = range(1, 12)
_LEVELS = {"OR": OR, "AND": AND, "IS DISTINCT FROM": IS, "IS NOT DISTINCT FROM": IS}
_LEVELS |= dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), COMPARED)
_LEVELS |= dict.fromkeys(("SIMILAR TO", "LIKE", "ILIKE", "GLOB"), MATCHED)
_LEVELS |= dict.fromkeys(("+", "-"), ADDED) | dict.fromkeys(("*", "/", "//", "%"), MULTIPLIED)


def level_of(node: Node) -> int:
    """Return how tightly the text of an expression binds."""
    match node:
        case Binary(operator):
            return _LEVELS.get(operator, OTHER)
        case Not():
            return NOT
        case IsNull() | IsTruth():
            return IS
        case Between() | Like() | InList() | InQuery():
            return MATCHED
        case Moved():
            return ADDED
        case Unary():
            return SIGNED
        case Apply(form):
            return CLOSED if _is_delimited(form.template) else 0
        case Cut(written):
            return level_of(written)
        case Lambda():
            return 0
    return CLOSED


@lru_cache(maxsize=2048)
def _is_delimited(template: str) -> bool:
    """Return whether a form is a call, an expression in parentheses or one word."""
    if re.fullmatch(r"\{\d+\}|\w+", template):
        return True
    opened = template.find("(")
    if opened < 0 or not template.endswith(")") or not re.fullmatch(r"[\w.]*", template[:opened]):
        return False
    depth, quoted = 0, False
    for place, character in enumerate(template):
        quoted ^= character == "'"
        if not quoted and character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0 and place < len(template) - 1:
                return False
    return depth == 0


@lru_cache(maxsize=2048)
def _open_places(template: str) -> frozenset[int]:
    """Return the places of arguments that a form does not delimit on both sides."""
    found = set()
    for place in re.finditer(r"\{(\d+)\}", template):
        before, after = template[: place.start()].rstrip(), template[place.end() :].lstrip()
        if not (before.endswith(("(", ",", "[")) and after.startswith((")", ",", "]", "AS "))):
            found.add(int(place[1]))
    return frozenset(found)


def _check_binary(node: Binary) -> None:
    """Test an operator, and those like it among its operands, which `values` derives together."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        level = _LEVELS.get(node.operator, OTHER)
        chained = level in (OR, AND, ADDED, MULTIPLIED)
        left, right = level_of(node.left), level_of(node.right)
        if (
            left < level
            or right < level
            or (left == level and not chained)
            or (right == level and level > AND)
        ):
            raise NotCertified("an operand that binds less tightly than its operator", node)
        if level <= AND:
            waiting += [
                x for x in (node.left, node.right) if isinstance(x, Binary) and x.operator == node.operator
            ]


def _needs(level: int, *names: str) -> Callable[[Any], None]:
    def check(node: Node) -> None:
        if any(level_of(getattr(node, name)) < level for name in names):
            raise NotCertified("an operand that binds less tightly than its operator", node)

    return check


def _check_apply(node: Apply) -> None:
    places = _open_places(node.form.template)
    for place, argument in enumerate(node.arguments):
        if place in places and level_of(argument) < CLOSED and not isinstance(argument, Lambda):
            raise NotCertified("an operand that binds less tightly than its operator", node)


def _mean(node: Mean) -> None:
    if level_of(node.total) < CLOSED or level_of(node.number) < CLOSED:
        raise NotCertified("an operand that binds less tightly than its operator", node)


CHECKS: dict[type[Expr], Callable[[Any], None]] = {
    Binary: _check_binary,
    Not: _needs(NOT, "operand"),
    IsNull: _needs(COMPARED, "operand"),
    IsTruth: _needs(COMPARED, "operand"),
    Between: _needs(OTHER, "operand", "low", "high"),
    InList: _needs(OTHER, "operand"),
    InQuery: _needs(OTHER, "operand"),
    Like: _needs(OTHER, "operand", "pattern"),
    Unary: _needs(CLOSED, "operand"),
    Element: _needs(CLOSED, "operand"),
    Slice: _needs(CLOSED, "operand"),
    Moved: _needs(ADDED, "operand"),
    Steps: _needs(CLOSED, "operand"),
    Unscaled: _needs(CLOSED, "operand"),
    Canonical: _needs(CLOSED, "operand"),
    UtcTime: _needs(CLOSED, "operand"),
    Saturated: _needs(ADDED, "operand"),
    Mean: _mean,
    Apply: _check_apply,
}
"""What tests the operands of the nodes that do not delimit them."""
