"""Aggregates and windows: what they give, and that they depend on rows and on no order of them.

A sum of DOUBLEs is rounded at each step, so it needs an order in which rows with different values never tie;
the same holds of FIRST, LAST and LIST. MIN and MAX of DOUBLEs give one of several equal values, so there may
be one zero only. All others give the same in every order. What windows need beyond that `orders` checks.
"""

from __future__ import annotations

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    ROWS,
    Around,
    Value,
    check_decided,
    derive,
    ends,
    exact,
    fit,
    place,
    rule,
    unwrap,
    whole,
)
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    OrderTerm,
    Scan,
    Window,
    facts,
    walk,
)
from dpsql.kernel.tree.expressions import EXACT
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, SqlType

_Y, _ZERO, _LIMIT = place("y"), Constant(0.0, DOUBLE), Constant(float(EXACT), DOUBLE)
_NEAREST = Call("floor", (Binary("+", Binary("*", _Y, place("power")), Constant(0.5, DOUBLE)),))
_NONE = IsNull(_Y), Constant(None, DOUBLE)
_TERM = Case(((Binary(">=", _Y, _ZERO), _NEAREST), _NONE), _LIMIT)
_SUMMED = Aggregate("SUM", (_TERM,))
_TOTAL = Call("COALESCE", (place("summed"), _ZERO))
_WHOLE_TOTAL = Case(((Binary("<", _TOTAL, _LIMIT), Cast(_TOTAL, BIGINT)),), Constant(EXACT, BIGINT))


def whole_total(node: Case, at: Around) -> Value | None:
    """Return what is known of CASE WHEN total < 2^53 THEN CAST(total AS BIGINT) ELSE 2^53 END.

    The total is COALESCE(SUM(x), 0.0), where x is floor(y * 2^n + 0.5) of a column y from 0 on, NULL for
    NULL, and 2^53 for less than 0.

    Proof: each x is a whole number from 0 on, infinite or NaN. With an infinity or NaN the sum is one, and
    neither is less. Else sums grow with each row, and are exact up to 2^53. If the last is less, all were
    exact, in any order. If it is not, some sum reached 2^53, was rounded to that or more, and so were all
    after it: in no order is the last one less.
    """
    whole = fit(_WHOLE_TOTAL, node)
    found = fit(_SUMMED, whole["summed"]) if whole else None
    if whole is None or found is None or not isinstance(found["y"], Column):
        return None
    factor = found["power"].value if isinstance(found["power"], Constant) else None
    if not (type(factor) is float and factor.is_integer() and factor > 0 and int(factor).bit_count() == 1):
        return None
    if at.found is None or at.caught:
        raise NotCertified("an aggregate where none can be", node)
    if derive(found["y"], at._replace(found=None)).type != DOUBLE:
        return None
    at.found.append(whole["summed"])  # and the same one again
    return Value(BIGINT, 0, EXACT, nullable=False)


_CHOSEN = ("FIRST", "LAST", "LIST")
_BITS = ("BIT_AND", "BIT_OR", "BIT_XOR")
_TRUTHS = ("BOOL_AND", "BOOL_OR")


def _place_of_parts(at: Around) -> Around:
    """Return where the parts of an aggregate or a window stand: they are of other rows, too.

    What conditions of CASE say is of the row for which a result is computed.
    """
    return at._replace(found=None, narrowed=None)


@rule(Aggregate)
def _aggregate(node: Aggregate, at: Around) -> Value:
    if at.found is None or at.caught:
        raise NotCertified("an aggregate where none can be", node)
    parts = [*walk(node)] if at.scope.outer else []
    below = {part.alias for part in parts if isinstance(part, (Derived, Scan))}
    read = [part for part in parts if isinstance(part, Column) and part.table not in below]
    items = at.scope.items  # a column is one of theirs, or one of the query around
    own = (c.table in items if c.table else any(c.name in r.columns for r in items.values()) for c in read)
    if read and not any(own):
        raise NotCertified("an aggregate of columns of the query around it, which is that of the other", node)
    at.found.append(node)
    inner = _place_of_parts(at)
    if node.filter is not None and derive(node.filter, inner).type.name not in ("BOOLEAN", "NULL"):
        raise NotCertified("a condition that is no truth value", node)
    check_order(node.order, inner)
    values = [derive(argument, inner) for argument in node.arguments]
    return value_of_aggregate(node, values, at)


def check_order(terms: tuple[OrderTerm, ...], at: Around) -> None:
    """Refuse terms of ORDER BY that have several zeros: rows that differ in them would tie."""
    for term in terms:
        if not derive(term.expr, at).canonical:
            raise NotCertified("an order by a DOUBLE that has several zeros", term)


def value_of_aggregate(node: Aggregate, values: list[Value], at: Around | None = None) -> Value:
    """Return what is known of an aggregate of some values."""
    name = node.name.upper()
    if name == "COUNT" and len(values) <= 1:
        return Value(BIGINT, 0, ROWS, nullable=False)
    if len(values) != 1:
        raise NotCertified(f"an aggregate that is not known: {name}", node)
    check_decided(values, node)
    (x,) = values
    kind = x.type
    if name in ("MIN", "MAX") and not kind.fields:
        if not x.canonical:
            raise NotCertified("the least or the largest of DOUBLEs that have several zeros", node)
        return x._replace(nullable=True, literal=False)
    if name in ("SUM", "AVG"):
        return _value_of_sum(node, x, at, mean=name == "AVG")
    if name in _TRUTHS and kind.name in ("BOOLEAN", "NULL"):
        return Value(BOOLEAN, 0, 1)
    if name in _BITS and exact(kind):
        return whole(kind)
    if name in _CHOSEN:
        if not _is_ordered(node):
            raise NotCertified(f"{name} in no order of its values", node)
        return (
            Value(SqlType("LIST", item=kind), canonical=x.canonical)
            if name == "LIST"
            else x._replace(nullable=True)
        )
    if name == "MEDIAN" and x.canonical:
        if kind.name == "DECIMAL":
            return x._replace(nullable=True)
        if exact(kind) or kind == DOUBLE:
            return Value(DOUBLE, canonical=False)
    raise NotCertified(f"an aggregate that is not known: {name}", node)


def _is_ordered(node: Aggregate) -> bool:
    """Return whether rows that tie in the aggregate's order have one value."""
    argument = unwrap(node.arguments[0])
    return not facts(argument).reads or any(unwrap(term.expr) == argument for term in node.order)


def _value_of_sum(node: Aggregate, x: Value, at: Around | None, *, mean: bool) -> Value:
    kind = x.type
    if kind == DOUBLE:
        if not _is_ordered(node):
            raise NotCertified("a sum of DOUBLEs in no order of its values", node)
        return Value(DOUBLE, canonical=False)
    if kind.name == "DECIMAL":
        made = SqlType("DECIMAL", 38, kind.scale)
    elif exact(kind) or kind.name in ("BOOLEAN", "NULL"):
        made = HUGEINT
    else:
        raise NotCertified("a sum of what is no number", node)
    low, high = x.low, x.high
    if low <= high:  # a sum of any number of values, at least one, and its parts
        low, high = min(low, low * ROWS), max(high, high * ROWS)
    least, most = ends(made)
    if low <= high and (low < least or most < high):
        if mean or made != HUGEINT or at is None or at.caught:
            raise NotCertified("a sum that can overflow", node)
        at.scope.walk.large.append((at.scope, node))
        low, high = least, most
    if not mean:
        return Value(made, low, high)
    if kind.name in ("BOOLEAN", "NULL"):
        raise NotCertified("an average of what is no number", node)
    return Value(DOUBLE, canonical=False)


_RANKS = {"ROW_NUMBER": (1, ROWS), "RANK": (1, ROWS), "DENSE_RANK": (1, ROWS)}
_SHARES = ("PERCENT_RANK", "CUME_DIST")
_NEAR = {"LAG": 2, "LEAD": 2, "FIRST_VALUE": 1, "LAST_VALUE": 1, "NTH_VALUE": 2}
"""Functions of another row, with the most arguments that they have."""


@rule(Window)
def _window(node: Window, at: Around) -> Value:
    if at.found is None or at.caught:
        raise NotCertified("a window where none can be", node)
    at.found.append(node)
    inner = _place_of_parts(at)
    # Of what is computed no column is known by it, so that rows may tie that differ in its zeros. Those of
    # lists are told apart by nothing: `totality` lets no function read a list by which rows are ordered.
    for part in (*node.partition, *(term.expr for term in node.order)):
        found = derive(part, inner)
        if not found.canonical and found.type.item is None and isinstance(unwrap(part), Column):
            raise NotCertified("a window by a DOUBLE that has several zeros", node)
    frame = node.frame
    if (
        frame is not None
        and frame.unit == "RANGE"
        and any(b and b.offset is not None for b in (frame.start, frame.end))
    ):
        raise NotCertified("a frame of RANGE with an offset", node)
    if isinstance(node.function, Aggregate):
        return _aggregate_window(node.function, inner)
    if isinstance(node.function, Call):
        return _call_window(node.function, inner)
    raise NotCertified("a window of an unknown kind", node)


def _aggregate_window(function: Aggregate, at: Around) -> Value:
    if function.distinct or function.order or function.filter is not None or function.name.upper() in _CHOSEN:
        raise NotCertified("a window of an aggregate with DISTINCT, ORDER BY or FILTER", function)
    found = value_of_aggregate(function, [derive(argument, at) for argument in function.arguments])
    # A frame can have no rows: the sum is then NULL, the number 0.
    return found if function.name.upper() == "COUNT" else found._replace(nullable=True)


def _call_window(function: Call, at: Around) -> Value:
    name, arguments = function.name.upper(), function.arguments
    if name in _RANKS and not arguments:
        return Value(BIGINT, *_RANKS[name], nullable=False)
    if name in _SHARES and not arguments:
        return Value(DOUBLE, 0, 1, nullable=False)
    if name == "NTILE" and len(arguments) == 1 and _is_from_1(arguments[0], at):
        return Value(BIGINT, 1, ROWS, nullable=False)
    if name in _NEAR and 1 <= len(arguments) <= _NEAR[name] and all(_is_from_1(a, at) for a in arguments[1:]):
        return derive(arguments[0], at)._replace(nullable=True, literal=False)
    raise NotCertified(f"a window of a function that is not known: {name}", function)


def _is_from_1(node: Expr, at: Around) -> bool:
    """Return whether an expression is one positive whole number."""
    x = derive(node, at)
    return exact(x.type) and x.low == x.high and x.low >= 1
