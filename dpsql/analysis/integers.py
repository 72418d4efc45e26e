"""Integer arithmetic in 128 bits: a result beyond 64 bits is cut to the ends of BIGINT, never NULL.

A row whose value overflows is a row still: with NULL in its place, `WHERE q * q >= 0` would leave it out. So
the operators compute in HUGEINT (numeric, DECIMAL(38)), and what is stored, grouped by or passed on is cut:
`tree.Saturated` of type BIGINT. An operator, a comparison and a conversion take the number itself, not the
number that was cut. `most` bounds it by the types of the operands alone; beyond `tree.MOST` the engine may be
unable to compute it exactly, and a DOUBLE near it is computed besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpsql.analysis.typed import Typed
from dpsql.kernel.tree import MOST, OPAQUE, Aggregate, Apply, Cast, Expr, Form, Mean, Saturated, Try, facts
from dpsql.kernel.tree.forms import NEAR
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DOUBLE, HUGEINT, SqlType


@dataclass(frozen=True, slots=True)
class _Number:
    """An operand: a whole number of at most 128 bits, and the DOUBLE near it."""

    node: Expr
    most: int
    double: Expr
    cut: Expr
    """The number cut to the ends of its type, so that it cannot fail."""


def _product(a: int, b: int) -> int:
    """Return the most of a product; one of 0 cannot be computed either where its other operand cannot."""
    return a * b or (a + b if a + b > MOST else 0)


_MOST: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a + b,
    "*": _product,
    "//": lambda a, _: a,
    "%": lambda a, _: a,
    "mod": lambda a, _: a,
    "neg": lambda a: a,
    "abs": lambda a: a,
}
"""The largest absolute value of each operator's result, from those of its operands."""


def computed(form: Form, given: Sequence[Typed], fitted: Sequence[Typed]) -> Expr:
    """Return an operator's result as BIGINT; `given` are its operands, `fitted` the same as BIGINT."""
    name = form.name.lower()
    numbers = [_number(a, b) for a, b in zip(given, fitted, strict=True)]
    most = _MOST[name](*(n.most for n in numbers))
    if most > MOST and any(OPAQUE in facts(n.node).reads for n in numbers):
        # A subquery is not tried, so that it must not fail: two numbers of 64 bits never overflow.
        numbers = [replace(n, node=n.cut, most=min(n.most, 1 << 63)) for n in numbers]
        most = _MOST[name](*(n.most for n in numbers))
    if name not in NEAR:
        numbers = [replace(n, node=_cut(n), most=min(n.most, MOST)) for n in numbers]
        most = _MOST[name](*(n.most for n in numbers))
    near = None
    if most > MOST:
        near = Apply(NEAR[name], tuple(n.double for n in numbers))
    return Saturated(Apply(form, tuple(n.node for n in numbers)), BIGINT, most, near)


def stored(value: Typed) -> Typed:
    """Return a HUGEINT cut to the ends of BIGINT, or a DECIMAL to those of 18 digits; it has 38 at most."""
    kind = BIGINT if value.type == HUGEINT else SqlType("DECIMAL", 18, min(value.type.scale, 18))
    return replace(value, node=Saturated(value.node, kind, MOST), type=kind)


def in_full(value: Typed) -> Typed:
    """Return the number that an integer expression computes, before it is cut to BIGINT: a HUGEINT.

    Any other expression, and one that is never cut, is returned as it is.
    """
    node = value.node
    if not isinstance(node, Saturated) or node.type != BIGINT or node.fits:
        return value
    full = node.operand if node.most <= MOST else replace(node, type=HUGEINT)
    return replace(value, node=full, type=HUGEINT)


def mean_of(value: Typed, *, distinct: bool) -> Typed | None:
    """Return the average of values that DuckDB averages as BIGINT; None for those of other types.

    DuckDB's own divides in a format wider than DOUBLE where the machine has one, and rounds twice.
    """
    if not value.type.integer or value.type.bits + (not value.type.signed) not in (33, 64):
        return None
    total, number = (Aggregate(name, (value.node,), distinct) for name in ("SUM", "COUNT"))
    return replace(value, node=Mean(total, number), type=DOUBLE)


def compares(operand: Expr, node: Expr) -> bool:
    """Return whether an operand of a comparison is an integer expression before it is cut to BIGINT."""
    operand, node = (n.operand if isinstance(n, Try) else n for n in (operand, node))
    if not isinstance(node, Saturated) or node.type != BIGINT or node.fits:
        return False
    return operand in (node.operand, replace(node, type=HUGEINT))


def _number(given: Typed, fitted: Typed) -> _Number:
    node = given.node
    if isinstance(node, Saturated) and node.type == BIGINT:
        double = node.near if node.near is not None else Cast(node.operand, DOUBLE, safe=False)
        return _Number(node.operand, node.most, double, node)
    value = given.literal.value if given.literal is not None else None
    kind = given.type if given.type.integer else BIGINT
    most = abs(value) if isinstance(value, int) else 1 << kind.bits - kind.signed
    return _Number(fitted.node, most, Cast(fitted.node, DOUBLE, safe=False), fitted.node)


def _cut(number: _Number) -> Expr:
    """Return an operand that the engine computes exactly, and that no operator can carry beyond its type."""
    if number.most <= MOST:
        return number.node
    return Saturated(number.node, HUGEINT, number.most, number.double)
