"""That the text of an expression means its tree: only `Paren` writes parentheses.

A proof is about the tree, and an engine reads the text. An operand that is itself an operator is read as
the tree has it only if it binds more tightly, or as tightly on the left of an operator that groups to the
left. So each operand is tested against the precedence of DuckDB's grammar; texts with delimiters around
them bind most tightly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.tree import (
    Apply,
    Argument,
    Between,
    Binary,
    Canonical,
    Cut,
    Element,
    Expr,
    InList,
    InQuery,
    IsNull,
    IsTruth,
    Lambda,
    Like,
    Mean,
    Moved,
    Node,
    Not,
    Saturated,
    Slice,
    Steps,
    Unary,
    Unscaled,
    UtcTime,
)

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
        case Apply(form):
            return CLOSED if _delimited(form.template) else 0
        case Cut(written):
            return level_of(written)
    return _LEVELS_OF.get(type(node), CLOSED)


_LEVELS_OF: dict[type[Node], int] = {Not: NOT, Moved: ADDED, Unary: SIGNED, Lambda: 0}
_LEVELS_OF |= dict.fromkeys((IsNull, IsTruth), IS)
_LEVELS_OF |= dict.fromkeys((Between, Like, InList, InQuery), MATCHED)


@lru_cache(maxsize=2048)
def _delimited(template: str) -> bool:
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


def _binary(node: Binary) -> None:
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


def _apply(node: Apply) -> None:
    places = _open_places(node.form.template)
    for place, argument in enumerate(node.arguments):
        if place in places and level_of(argument) < CLOSED and not isinstance(argument, Lambda):
            raise NotCertified("an operand that binds less tightly than its operator", node)


def _mean(node: Mean) -> None:
    if level_of(node.total) < CLOSED or level_of(node.number) < CLOSED:
        raise NotCertified("an operand that binds less tightly than its operator", node)


CHECKS: dict[type[Expr], Callable[[Any], None]] = {
    Binary: _binary,
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
    Apply: _apply,
}
"""What tests the operands of the nodes that do not delimit them."""

__all__ = ["CHECKS", "Argument", "level_of"]
