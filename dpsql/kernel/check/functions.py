"""Functions, forms, lists and the nodes that stand for several of them.

Outside TRY only the functions of `_TOTAL` are called, which fail on no value; under TRY all that `types_of`
lists. No other function is known, so none that reads the session, the time or a random number.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    LENGTH,
    Around,
    bare,
    comparable,
    computed,
    decided,
    derive,
    needs_try,
    rule,
    unified,
)
from dpsql.kernel.check.templates import template
from dpsql.kernel.check.types_of import (
    UBIGINT,
    Value,
    distance,
    ends,
    exact,
    fits,
    result,
    size,
    whole,
    words,
)
from dpsql.kernel.tree import (
    Apply,
    Argument,
    Call,
    Canonical,
    Constant,
    Cut,
    Element,
    Expr,
    Interval,
    Lambda,
    ListOf,
    Mean,
    Moved,
    Parameter,
    Saturated,
    Slice,
    Steps,
    Try,
    Unscaled,
    UtcTime,
)
from dpsql.kernel.tree.forms import is_known
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTERVAL, NULL, TIMESTAMP, VARCHAR, SqlType

_CHOICES = frozenset(("coalesce", "ifnull", "least", "greatest"))
_TOTAL = {"pi": 0, "nullif": 2} | dict.fromkeys(words("atan2 nextafter fmod fdiv pow power"), 2)
_TOTAL |= dict.fromkeys(
    words(
        "abs bit_count sign strlen isnan isinf isfinite signbit sqrt cbrt exp ln log log2 log10 sin cos tan "
        "asin acos atan sinh cosh tanh asinh acosh atanh cot gamma lgamma degrees radians ceil ceiling floor "
        "even"
    ),
    1,
)
"""Functions of so many arguments that fail on no value: DOUBLEs become NaN or infinite, by the settings."""
_LENGTHS = words("strlen length len char_length array_length bit_count")


@rule(Call)
def _call(node: Call, at: Around) -> Value:
    name = node.name.lower()
    if name in _CHOICES and node.arguments:
        return _choice(name, node, at)
    lists = [argument for argument in node.arguments if isinstance(argument, Lambda)]
    arguments = [derive(argument, at) for argument in node.arguments if not isinstance(argument, Lambda)]
    decided(arguments, node)
    if lists:
        return _of_items(name, node, lists, arguments, at)
    ends_of = [a.value if isinstance(a, Constant) else None for a in (node.arguments or (None,))]
    last = (
        int(arguments[-1].low) if arguments and arguments[-1].literal and exact(arguments[-1].type) else None
    )
    kind = result(name, arguments, ends_of[0], last)
    if kind is None:
        raise NotCertified(f"a function that is not known: {name}", node)
    if name == "epoch_ms" and kind == TIMESTAMP and size(arguments[0]) <= _MOST:
        return Value(TIMESTAMP, nullable=arguments[0].nullable)
    if name == "date_diff" and (days := _days_between(node)) is not None:
        return Value(BIGINT, *days, nullable=False)
    if len(node.arguments) != _TOTAL.get(name, -1) and name != "hash":
        needs_try(node, at, f"a function that can fail: {name}")
    if name == "nullif":
        comparable(arguments, node, at)
        return arguments[0]._replace(nullable=True, literal=False)
    if name == "hash":
        if not all(x.canonical for x in arguments):
            raise NotCertified("a hash of a DOUBLE that has several zeros", node)
        return Value(UBIGINT, *ends(UBIGINT), nullable=False)
    found = whole(kind, canonical=name in _ITEMS and all(x.canonical for x in arguments))
    if name == "abs" and (exact(kind) or kind.name == "DECIMAL"):
        x = arguments[0]
        return computed(Value(kind, distance(x), size(x), x.nullable), node, at)
    return found._replace(low=0, high=min(found.high, LENGTH)) if name in _LENGTHS else found


def _days_between(node: Call) -> tuple[int, int] | None:
    """Return the ends of date_diff('day', first, LEAST(GREATEST(x, low), high)), whatever x is."""
    if len(node.arguments) != 3 or bare(node.arguments[0]) != Constant("day", VARCHAR):
        return None
    first, least = _day(node.arguments[1]), bare(node.arguments[2])
    if not (isinstance(least, Call) and least.name.lower() == "least" and len(least.arguments) == 2):
        return None
    greatest, high = bare(least.arguments[0]), _day(least.arguments[1])
    if not (
        isinstance(greatest, Call) and greatest.name.lower() == "greatest" and len(greatest.arguments) == 2
    ):
        return None
    low = _day(greatest.arguments[1])
    if first is None or low is None or high is None:
        return None
    return min(low, high) - first, high - first


def _day(node: Expr) -> int | None:
    """Return the number of a day that is written."""
    node = bare(node)
    return node.value.toordinal() if isinstance(node, Constant) and type(node.value) is date else None


_MOST = (1 << 63) // 1001
"""So many milliseconds, before or after 1970, are a TIMESTAMP."""
_ITEMS = frozenset(
    (
        "list_first",
        "list_last",
        "list_slice",
        "list_max",
        "list_min",
        "list_sort",
        "list_reverse_sort",
        "list_distinct",
    )
)
"""Functions that give items of a list as they are."""


def _choice(name: str, node: Call, at: Around) -> Value:
    values = [derive(argument, at) for argument in node.arguments]
    found = unified(values, node, caught=at.caught)
    nullable = all(x.nullable for x in values)
    if name in ("coalesce", "ifnull"):
        certain = next((i for i, x in enumerate(values) if not x.nullable), len(values))
        asked = values[: certain + 1]
        low, high = min(x.low for x in asked), max(x.high for x in asked)
    else:  # NULLs are left out
        low, high = found.low, found.high
        sure = [x for x in values if not x.nullable]
        if sure and name == "least":
            high = min(x.high for x in sure)
        elif sure:
            low = max(x.low for x in sure)
    return found._replace(low=low, high=high, nullable=nullable)


def _of_items(name: str, node: Call, lists: list[Lambda], arguments: list[Value], at: Around) -> Value:
    """Return what is known of a function of each item of a list: `list_filter` or `list_transform`."""
    needs_try(node, at, "a function of the items of a list outside TRY")
    if name not in ("list_filter", "list_transform") or len(lists) != 1 or len(arguments) != 1:
        raise NotCertified(f"a function of items that is not known: {name}", node)
    (x,) = arguments
    if x.type.name == "NULL":
        return x
    if x.type.item is None:
        raise NotCertified("the items of what is no list", node)
    item = whole(x.type.item, canonical=x.canonical)
    inner = at._replace(parameters={**(at.parameters or {}), lists[0].parameter: item})
    made = derive(lists[0].body, inner)
    if name == "list_filter":
        return Value(x.type, canonical=x.canonical)
    return Value(SqlType("LIST", item=made.type), canonical=made.canonical)


@rule(Parameter)
def _parameter(node: Parameter, at: Around) -> Value:
    found = (at.parameters or {}).get(node.name)
    if found is None:
        raise NotCertified("a parameter of no lambda", node)
    return found


@rule(Apply)
def _apply(node: Apply, at: Around) -> Value:
    form = node.form
    if not (is_known(form) and form.deterministic and len(node.arguments) >= len(form.arguments)):
        raise NotCertified(f"a form that is not in the table of functions: {form.name}", node)
    given = tuple(derive(argument, at) for argument in node.arguments)
    decided(given, node)
    found = derive(
        template(form.template), at._replace(given=given, narrowed=None, parameters=None, found=None)
    )
    last = given[-1] if given else None
    digits = int(last.low) if last is not None and last.literal and exact(last.type) else None
    stated = form.result_type([x.type for x in given], digits)
    if stated is not None and stated != found.type and not any(x.type == NULL for x in given):
        raise NotCertified(f"a form whose result has another type than the table says: {form.name}", node)
    return found


@rule(Argument)
def _argument(node: Argument, at: Around) -> Value:
    if at.given is None or node.place >= len(at.given):
        raise NotCertified("the place of an argument that is not given", node)
    return at.given[node.place]


@rule(Interval)
def _interval(node: Interval, at: Around) -> Value:
    return Value(INTERVAL, nullable=False)


@rule(ListOf)
def _list_of(node: ListOf, at: Around) -> Value:
    values = [derive(item, at) for item in node.items]
    decided(values, node)
    item = unified(values, node, caught=at.caught) if values else Value(NULL)
    return Value(SqlType("LIST", item=item.type), nullable=False, canonical=item.canonical)


@rule(Element)
def _element(node: Element, at: Around) -> Value:
    needs_try(node, at, "an element outside TRY")
    x, index = derive(node.operand, at), derive(node.index, at)
    if not (exact(index.type) or index.type == NULL) or not (x.type.item or x.type in (VARCHAR, NULL)):
        raise NotCertified("an element of what is no list", node)
    return whole(x.type.item or x.type, canonical=x.canonical)


@rule(Slice)
def _slice(node: Slice, at: Around) -> Value:
    needs_try(node, at, "a part of a list outside TRY")
    x = derive(node.operand, at)
    if not (x.type.item or x.type in (VARCHAR, NULL)):
        raise NotCertified("a part of what is no list", node)
    return x._replace(nullable=True, literal=False)


@rule(Try)
def _try(node: Try, at: Around) -> Value:
    found = derive(node.operand, at._replace(caught=True, found=None))
    return found._replace(nullable=True, literal=False)


@rule(Canonical)
def _canonical(node: Canonical, at: Around) -> Value:
    x = derive(node.operand, at)
    if x.type not in (DOUBLE, NULL):
        raise NotCertified("one zero and one NaN of what is no DOUBLE", node)
    return x._replace(type=DOUBLE, canonical=True, settled=True)


@rule(UtcTime)
def _utc_time(node: UtcTime, at: Around) -> Value:
    x = derive(node.operand, at)
    if x.type.name != "TIMESTAMPTZ":
        raise NotCertified("the time in UTC of what is no instant", node)
    return Value(TIMESTAMP, nullable=x.nullable)


@rule(Moved)
def _moved(node: Moved, at: Around) -> Value:
    needs_try(node, at, "a TIMESTAMP that is moved outside TRY")
    if derive(node.operand, at).type not in (TIMESTAMP, NULL):
        raise NotCertified("a move of what is no TIMESTAMP", node)
    return Value(TIMESTAMP)


@rule(Steps)
def _steps(node: Steps, at: Around) -> Value:
    """Return the ends: every result is one or between them.

    They are DOUBLEs, and a product with a power of two is not rounded. The sum of a whole number and a half
    is, from 2 to the 52nd on, to an even number: it exceeds the upper end only if that one is odd.
    """
    x, low, high = derive(node.operand, at), node.low, node.high
    decided((x,), node)
    powers = all(part & (part - 1) == 0 for part in (node.step.numerator, node.step.denominator))
    written = all(Fraction(float(end * node.step)) == end * node.step for end in (low, high))
    if x.type not in (DOUBLE, NULL) or low > high:
        raise NotCertified("steps of what is no DOUBLE", node)
    if not (powers and written and (high < 1 << 52 or high % 2 == 0)):
        raise NotCertified("steps with an end that is rounded", node)
    return Value(HUGEINT if node.wide else BIGINT, low, high)


@rule(Unscaled)
def _unscaled(node: Unscaled, at: Around) -> Value:
    x, kind = derive(node.operand, at), node.type
    if kind.name != "DECIMAL" or kind.scale > 18 or not fits(x, kind):
        raise NotCertified("a DECIMAL without its point that has other digits", node)
    factor = 10**kind.scale
    return Value(BIGINT if kind.precision <= 18 else HUGEINT, x.low * factor, x.high * factor, x.nullable)


@rule(Cut)
def _cut(node: Cut, at: Around) -> Value:
    found = derive(node.written, at)
    if not exact(found.type) or found.low < node.low or found.high > node.high:
        raise NotCertified("a DECIMAL that is not cut to its ends", node)
    return found


@rule(Saturated)
def _saturated(node: Saturated, at: Around) -> Value:
    x = derive(node.operand, at._replace(caught=True, found=None) if node.near is not None else at)
    if not (exact(x.type) or x.type.name in ("DECIMAL", "NULL")):
        raise NotCertified("a cut of what is no exact number", node)
    if node.near is not None and derive(node.near, at).type != DOUBLE:
        raise NotCertified("a number in the place of another that is no DOUBLE", node)
    low, high = ends(node.type)
    if x.low > x.high:
        return Value(node.type, x.low, x.high)
    within = low <= x.low and x.high <= high
    return Value(node.type, max(low, min(x.low, high)), min(high, max(x.high, low)), x.nullable or not within)


@rule(Mean)
def _mean(node: Mean, at: Around) -> Value:
    total, count = derive(node.total, at), derive(node.number, at)
    if not exact(total.type) or not exact(count.type) or count.low < 0:
        raise NotCertified("an average of what is no whole number", node)
    return Value(DOUBLE, canonical=False)
