"""Nodes that never fail: forms of functions, integers of 128 bits, limits on texts and patterns.

The forms are a static table (see `kernel.tree.forms`). Each is parsed once in a
process, when an engine that is not DuckDB first needs it; no text of a statement is parsed here.

A row whose value overflows is a row still: with NULL in its place, `WHERE q * q >= 0` would leave it out. So
the operators compute in HUGEINT (numeric, DECIMAL(38)), and what is stored, grouped by or passed on is cut:
`tree.Saturated` of type BIGINT. An operator, a comparison and a conversion take the number itself, not the
number that was cut. `most` bounds it by the types of the operands alone; beyond `tree.MOST` the engine may be
unable to compute it exactly, and a DOUBLE near it is computed besides.

The length of private values is limited (`[engine] longest_value`). A search can take time proportional to the
product of the lengths of value and search text, and no timeout interrupts an engine within it. With these
limits a search takes about 10 ms for a value of 64 KiB; a regular expression can take up to half a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache

from sqlglot import exp

from dpsql.analysis.typed_expression import Typed
from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    MOST,
    OPAQUE,
    Aggregate,
    Apply,
    Argument,
    Binary,
    Call,
    Case,
    Cast,
    Constant,
    Element,
    Expr,
    Form,
    Lambda,
    Like,
    Mean,
    Not,
    Parameter,
    Paren,
    Saturated,
    Try,
    Unary,
    facts,
    map_parts,
)
from dpsql.kernel.tree.forms import NEAR, text_up_to
from dpsql.language import MARK, StatementText
from dpsql.language.duckdb_dialect import DuckDBText
from dpsql.language.tokens import mark_functions
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, JSON, VARCHAR, SqlType, column_type

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

OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseRightShift: ">>",
    exp.StartsWith: "^@",
    exp.RegexpLike: "~",
    exp.Glob: "GLOB",
}
"""The operator of each calculation and test of a text, as templates have them."""
_OPERATORS = {exp.And: "AND", exp.Or: "OR", exp.DPipe: "||"} | COMPARISONS | OPERATORS
LIKES: dict[type[exp.Expr], str] = {exp.Like: "LIKE", exp.ILike: "ILIKE"}
_TYPES = {"HUGEINT": HUGEINT, "INT128": HUGEINT, "JSON": JSON}
_PLACE = lazy_pattern(r"\{(\d+)\}")
_ESCAPE = lazy_pattern(r"ESCAPE (argument_\d+)")
"""The escape character of a pattern: the parser takes a literal there, and nothing else."""


@cache
def parse_form(form: str) -> Expr:
    """Return the expression that a form stands for, with `Argument`s in the places of its arguments."""
    dialect = DuckDBText()
    sql = "SELECT " + _ESCAPE.sub(r"ESCAPE '\1'", _PLACE.sub(r"argument_\1", form))
    tree = dialect.parser().parse(mark_functions(list(dialect.tokenize(sql))), sql)[0]
    if tree is None:
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a form does not parse")
    return _read_node(tree.expressions[0])


def expand_form(node: Apply) -> Expr:
    """Return the expression that a form with these arguments stands for."""
    return _fill_arguments(parse_form(node.form.template), node.arguments)


def _fill_arguments(node: Expr, arguments: Sequence[Expr]) -> Expr:
    if isinstance(node, Argument):
        return arguments[node.place]
    return map_parts(node, lambda part: _fill_arguments(part, arguments))


def _read_node(tree: exp.Expr) -> Expr:
    match tree:
        case exp.Column():
            return _read_name(tree.name)
        case exp.Identifier():
            return _read_name(tree.name)
        case exp.Literal():
            return _read_constant(tree)
        case exp.Paren():
            return Paren(_read_node(tree.this))
        case exp.Neg():
            return Unary("-", _read_node(tree.this))
        case exp.BitwiseNot():
            return Unary("~", _read_node(tree.this))
        case exp.Not():
            return Not(_read_node(tree.this))
        case exp.Cast():  # TRY_CAST too
            return Cast(
                _read_node(tree.this),
                _read_type(tree.args["to"].sql("duckdb")),
                isinstance(tree, exp.TryCast),
            )
        case exp.Between():
            value, low, high = (_read_node(tree.args[name]) for name in ("this", "low", "high"))
            return Paren(Binary("AND", Paren(Binary(">=", value, low)), Paren(Binary("<=", value, high))))
        case exp.Case():
            branches = tuple((_read_node(b.this), _read_node(b.args["true"])) for b in tree.args["ifs"])
            default = tree.args.get("default")
            return Case(branches, None if default is None else _read_node(default))
        case exp.Bracket():
            return Element(_read_node(tree.this), _read_node(tree.expressions[0]))
        case exp.Escape():
            like = _read_node(tree.this)
            assert isinstance(like, Like)  # noqa: S101  of the static table
            return replace(like, escape=_read_name(str(tree.expression.this)))
        case exp.Overlay():
            parts = [tree.this, tree.expression, tree.args["from_"], tree.args.get("for_")]
            return Call("overlay", tuple(_read_node(part) for part in parts if part is not None))
        case exp.Lambda():
            return Lambda(tree.expressions[0].name, _read_node(tree.this))
        case exp.Anonymous():
            return _build_call(str(tree.this).removeprefix(MARK), tuple(map(_read_node, tree.expressions)))
    word = LIKES.get(type(tree))
    if word is not None:
        like = Like(_read_node(tree.this), word, _read_node(tree.expression))
        return Not(Paren(like)) if tree.args.get("negate") else like
    operator = _OPERATORS.get(type(tree))
    if operator is None:
        raise InternalError(f"this is a bug of dpsql, nothing was run or charged: {tree.key} in a form")
    return Binary(operator, _read_node(tree.this), _read_node(tree.expression))


def _read_name(name: str) -> Expr:
    place = name.removeprefix("argument_")
    return Argument(int(place)) if place != name else Parameter(name)


def _read_constant(tree: exp.Literal) -> Constant:
    text = str(tree.this)
    if tree.is_string:
        return Constant(text, VARCHAR)
    if text.isdecimal():
        return Constant(int(text), INTEGER)
    number = Decimal(text)
    digits = -int(number.as_tuple().exponent)
    return Constant(number, SqlType("DECIMAL", max(len(number.as_tuple().digits), digits + 1), digits))


def _read_type(text: str) -> SqlType:
    return _TYPES.get(text.upper()) or column_type(text)


def _build_call(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Try(arguments[0]) if name == "TRY" else Call(name, arguments)


@dataclass(frozen=True, slots=True)
class _Number:
    """An operand: a whole number of at most 128 bits, and the DOUBLE near it."""

    node: Expr
    most: int
    double: Expr
    cut: Expr
    """The number cut to the ends of its type, so that it cannot fail."""


def _bound_product(a: int, b: int) -> int:
    """Return the most of a product; one of 0 cannot be computed either where its other operand cannot."""
    return a * b or (a + b if a + b > MOST else 0)


_MOST: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a + b,
    "*": _bound_product,
    "//": lambda a, _: a,
    "%": lambda a, _: a,
    "mod": lambda a, _: a,
    "neg": lambda a: a,
    "abs": lambda a: a,
}
"""The largest absolute value of each operator's result, from those of its operands."""


def compute_in_full(form: Form, given: Sequence[Typed], fitted: Sequence[Typed]) -> Expr:
    """Return the result of an operator on whole numbers as BIGINT, computed wide enough not to overflow.

    `given` are its operands, `fitted` the same as BIGINT. A result beyond BIGINT is cut to its ends.
    """
    name = form.name.lower()
    numbers = [_as_number(a, b) for a, b in zip(given, fitted, strict=True)]
    most = _MOST[name](*(n.most for n in numbers))
    if most > MOST and any(OPAQUE in facts(n.node).reads for n in numbers):
        # A subquery is not tried, so that it must not fail: two numbers of 64 bits never overflow.
        numbers = [replace(n, node=n.cut, most=min(n.most, 1 << 63)) for n in numbers]
        most = _MOST[name](*(n.most for n in numbers))
    if name not in NEAR:
        numbers = [replace(n, node=_cut_to_bigint(n), most=min(n.most, MOST)) for n in numbers]
        most = _MOST[name](*(n.most for n in numbers))
    near = None
    if most > MOST:
        near = Apply(NEAR[name], tuple(n.double for n in numbers))
    return Saturated(Apply(form, tuple(n.node for n in numbers)), BIGINT, most, near)


def store_integer(value: Typed) -> Typed:
    """Return a HUGEINT cut to the ends of BIGINT, or a DECIMAL to those of 18 digits; it has 38 at most."""
    kind = BIGINT if value.type == HUGEINT else SqlType("DECIMAL", 18, min(value.type.scale, 18))
    return replace(value, node=Saturated(value.node, kind, MOST), type=kind)


def widen_integer(value: Typed) -> Typed:
    """Return the number that an integer expression computes, before it is cut to BIGINT: a HUGEINT.

    Any other expression, and one that is never cut, is returned as it is.
    """
    node = value.node
    if not isinstance(node, Saturated) or node.type != BIGINT or node.fits:
        return value
    full = node.operand if node.most <= MOST else replace(node, type=HUGEINT)
    return replace(value, node=full, type=HUGEINT)


def compute_mean(value: Typed, *, distinct: bool) -> Typed | None:
    """Return the average of values that DuckDB averages as BIGINT; None for those of other types.

    DuckDB's own divides in a format wider than DOUBLE where the machine has one, and rounds twice.
    """
    if not value.type.integer or value.type.bits + (not value.type.signed) not in (33, 64):
        return None
    total, number = (Aggregate(name, (value.node,), distinct) for name in ("SUM", "COUNT"))
    return replace(value, node=Mean(total, number), type=DOUBLE)


def is_same_integer(operand: Expr, node: Expr) -> bool:
    """Return whether an operand of a comparison is an integer expression before it is cut to BIGINT."""
    operand, node = (n.operand if isinstance(n, Try) else n for n in (operand, node))
    if not isinstance(node, Saturated) or node.type != BIGINT or node.fits:
        return False
    return operand in (node.operand, replace(node, type=HUGEINT))


def _as_number(given: Typed, fitted: Typed) -> _Number:
    node = given.node
    if isinstance(node, Saturated) and node.type == BIGINT:
        double = node.near if node.near is not None else Cast(node.operand, DOUBLE, safe=False)
        return _Number(node.operand, node.most, double, node)
    value = given.literal.value if given.literal is not None else None
    kind = given.type if given.type.integer else BIGINT
    most = abs(value) if isinstance(value, int) else 1 << kind.bits - kind.signed
    return _Number(fitted.node, most, Cast(fitted.node, DOUBLE, safe=False), fitted.node)


def _cut_to_bigint(number: _Number) -> Expr:
    """Return an operand that the engine computes exactly, and that no operator can carry beyond its type."""
    if number.most <= MOST:
        return number.node
    return Saturated(number.node, HUGEINT, number.most, number.double)


_NEEDLE = 200
_PATTERN = 1_000
_WILDCARDS = 200
_RUN = 100
_TRIMMED = 32
_STATES = 200

_NEEDLES = {
    **dict.fromkeys(("contains", "instr", "strpos", "replace", "split_part"), _NEEDLE),
    **dict.fromkeys(("string_split", "str_split", "split", "string_to_array"), _NEEDLE),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _TRIMMED),
    **dict.fromkeys(("LIKE", "ILIKE", "NOT_LIKE", "GLOB"), _RUN),
}
"""The longest second argument of each function, in characters; for a pattern, if it is not a literal."""

_PATTERNS = {"LIKE": "%_", "ILIKE": "%_", "NOT_LIKE": "%_", "GLOB": "*?["}
_REGEX = lazy_pattern(r"regexp_.*|string_split_regex|~")
_TOKENS = lazy_pattern(
    r"\{[0-9]{1,9}(?:,[0-9]{0,9})?\}|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL
)
"""The parts of a regular expression: a repetition, an escape, a class of characters, any other character."""


def bound_search_text(
    source: StatementText, name: str, arguments: Sequence[Typed], at: exp.Expr
) -> list[Typed]:
    """Return the arguments of a function with the search text within its limit.

    A longer literal is refused; a longer computed text becomes NULL.
    """
    found = list(arguments)
    if len(found) < 2:
        return found
    needle = found[1]
    text = needle.text
    if _REGEX.fullmatch(name) and text is not None:
        check_regex(source, text, at)
    elif name in _PATTERNS and text is not None:
        check_pattern(source, text, at, _PATTERNS[name])
    elif name in _NEEDLES:
        most = _NEEDLES[name]
        if text is None:
            found[1] = cut_text(needle, most)  # its bytes are no fewer than its characters
        elif len(text) > most:
            raise source.refuse(f"the second text of {name} has more than {most} characters", at)
    return found


def cut_text(text: Typed, most: int) -> Typed:
    """Return a text with NULL in the place of one of more than `most` bytes."""
    return replace(text, node=Apply(text_up_to(most), (text.node,)))


def check_pattern(
    source: StatementText, pattern: str, at: exp.Expr, wildcards: str = "%_", escape: str = ""
) -> None:
    """Refuse a pattern with too many wildcards or with too long a part after one."""
    if len(pattern) > _PATTERN:
        raise source.refuse(f"a pattern has at most {_PATTERN:,} characters", at)
    plain = re.sub(re.escape(escape) + ".", "x", pattern, flags=re.DOTALL) if escape else pattern
    if sum(plain.count(mark) for mark in wildcards) > _WILDCARDS:
        raise source.refuse(f"a pattern has at most {_WILDCARDS} of the characters {' '.join(wildcards)}", at)
    # The part before the first wildcard is tried only at the start of the text.
    _, *floating = plain.split(wildcards[0])
    if any(len(part) > _RUN for part in floating):
        raise source.refuse(
            f"after a {wildcards[0]} a pattern has at most {_RUN} characters up to the next one",
            at,
            "several shorter patterns, joined by AND",
        )


def check_regex(source: StatementText, pattern: str, at: exp.Expr) -> None:
    """Refuse a regular expression with too many states: each may be tried at each position of a text."""
    if _count_states(pattern) > _STATES:
        raise source.refuse(
            f"a regular expression has at most {_STATES} characters, each repetition counted", at
        )


def _count_states(pattern: str) -> int:
    """Estimate the number of states of a regular expression; `*` and `+` count once.

    >>> _count_states("[0-9]{4}-(a|bc){2,3}")
    17
    """
    totals, last = [0], 0
    for part in _TOKENS.findall(pattern):
        if part == "(":
            totals.append(0)
            last = 0
        elif part == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif part[0] == "{" and len(part) > 1:
            most = max(1, *(int(n) for n in re.findall(r"[0-9]+", part)))
            totals[-1] += (most - 1) * last
            last *= most
        else:
            last = 10 if part[:2] in ("\\p", "\\P") or "[:" in part else 1
            totals[-1] += last
    return sum(totals)
