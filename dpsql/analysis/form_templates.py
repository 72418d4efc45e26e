"""Parse the forms of functions into nodes of the tree, for engines other than DuckDB.

The forms are a static table (see `kernel.tree.forms`). Each is parsed once in a
process, when an engine that is not DuckDB first needs it; no text of a statement is parsed here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    Apply,
    Argument,
    Binary,
    Call,
    Case,
    Cast,
    Constant,
    Element,
    Expr,
    Lambda,
    Like,
    Not,
    Parameter,
    Paren,
    Try,
    Unary,
    mapped,
)
from dpsql.language import MARK
from dpsql.language.tokens import mark_functions
from dpsql.types import HUGEINT, INTEGER, JSON, VARCHAR, SqlType, column_type

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""The operator of each comparison that the parser has a node type for."""

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.And: "AND",
    exp.Or: "OR",
    **COMPARISONS,
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
    exp.StartsWith: "^@",
    exp.RegexpLike: "~",
    exp.Glob: "GLOB",
}
_LIKES: dict[type[exp.Expr], str] = {exp.Like: "LIKE", exp.ILike: "ILIKE"}
_TYPES = {"HUGEINT": HUGEINT, "INT128": HUGEINT, "JSON": JSON}
_PLACE = re.compile(r"\{(\d+)\}")
_ESCAPE = re.compile(r"ESCAPE (argument_\d+)")
"""The escape character of a pattern: the parser takes a literal there, and nothing else."""


@cache
def template(form: str) -> Expr:
    """Return the expression that a form stands for, with `Argument`s in the places of its arguments."""
    dialect = DuckDB()
    sql = "SELECT " + _ESCAPE.sub(r"ESCAPE '\1'", _PLACE.sub(r"argument_\1", form))
    tree = dialect.parser().parse(mark_functions(list(dialect.tokenize(sql))), sql)[0]
    if tree is None:
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a form does not parse")
    return _node(tree.expressions[0])


def expanded(node: Apply) -> Expr:
    """Return the expression that a form with these arguments stands for."""
    return _filled(template(node.form.template), node.arguments)


def _filled(node: Expr, arguments: Sequence[Expr]) -> Expr:
    if isinstance(node, Argument):
        return arguments[node.place]
    return mapped(node, lambda part: _filled(part, arguments))


def _node(tree: exp.Expr) -> Expr:
    match tree:
        case exp.Column():
            return _name(tree.name)
        case exp.Identifier():
            return _name(tree.name)
        case exp.Literal():
            return _constant(tree)
        case exp.Paren():
            return Paren(_node(tree.this))
        case exp.Neg():
            return Unary("-", _node(tree.this))
        case exp.BitwiseNot():
            return Unary("~", _node(tree.this))
        case exp.Not():
            return Not(_node(tree.this))
        case exp.Cast():  # TRY_CAST too
            return Cast(_node(tree.this), _type(tree.args["to"].sql("duckdb")), isinstance(tree, exp.TryCast))
        case exp.Between():
            value, low, high = (_node(tree.args[name]) for name in ("this", "low", "high"))
            return Paren(Binary("AND", Paren(Binary(">=", value, low)), Paren(Binary("<=", value, high))))
        case exp.Case():
            branches = tuple((_node(b.this), _node(b.args["true"])) for b in tree.args["ifs"])
            default = tree.args.get("default")
            return Case(branches, None if default is None else _node(default))
        case exp.Bracket():
            return Element(_node(tree.this), _node(tree.expressions[0]))
        case exp.Escape():
            like = _node(tree.this)
            assert isinstance(like, Like)  # noqa: S101  of the static table
            return replace(like, escape=_name(str(tree.expression.this)))
        case exp.Overlay():
            parts = [tree.this, tree.expression, tree.args["from_"], tree.args.get("for_")]
            return Call("overlay", tuple(_node(part) for part in parts if part is not None))
        case exp.Lambda():
            return Lambda(tree.expressions[0].name, _node(tree.this))
        case exp.Anonymous():
            return _call(str(tree.this).removeprefix(MARK), tuple(map(_node, tree.expressions)))
    word = _LIKES.get(type(tree))
    if word is not None:
        like = Like(_node(tree.this), word, _node(tree.expression))
        return Not(Paren(like)) if tree.args.get("negate") else like
    operator = _OPERATORS.get(type(tree))
    if operator is None:
        raise InternalError(f"this is a bug of dpsql, nothing was run or charged: {tree.key} in a form")
    return Binary(operator, _node(tree.this), _node(tree.expression))


def _name(name: str) -> Expr:
    place = name.removeprefix("argument_")
    return Argument(int(place)) if place != name else Parameter(name)


def _constant(tree: exp.Literal) -> Constant:
    text = str(tree.this)
    if tree.is_string:
        return Constant(text, VARCHAR)
    if text.isdecimal():
        return Constant(int(text), INTEGER)
    number = Decimal(text)
    digits = -int(number.as_tuple().exponent)
    return Constant(number, SqlType("DECIMAL", max(len(number.as_tuple().digits), digits + 1), digits))


def _type(text: str) -> SqlType:
    return _TYPES.get(text.upper()) or column_type(text)


def _call(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Try(arguments[0]) if name == "TRY" else Call(name, arguments)
