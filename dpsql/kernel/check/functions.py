"""Functions, forms, lists and the nodes that stand for several of them; and that no text grows with the data.

Forms with the guard `C` have no texts beyond `LONGEST`; those with literals (`#LENGTH`) only if these are
literals indeed. A list of texts is as long as the one that it is made of, so what is made of each item may
not be longer than the item, but for texts that are written: these are counted, and measured before.

The table of forms, which is part of the kernel and tested row by row, says which forms are total, and of
which types their results are; one that is not in it is refused, and one that is not total outside TRY.
Besides there are the few functions below. So none reads the session, the time or a random number.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.kernel.check.arithmetic import arithmetic
from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    SIGNED,
    TINYINT,
    UBIGINT,
    Around,
    Value,
    check_decided,
    check_ends,
    comparable,
    derive,
    distance,
    ends,
    exact,
    fit,
    fits,
    needs_try,
    place,
    rule,
    size,
    unify_values,
    unwrap,
    whole,
)
from dpsql.kernel.tree import (
    Apply,
    Binary,
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
    Unary,
    Unscaled,
    UtcTime,
    walk,
)
from dpsql.kernel.tree.forms import LONGEST, SHORT_LIST, Form, is_known
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTERVAL, NULL, TIMESTAMP, VARCHAR, SqlType

_LONGEST_LITERAL = 1000
_REWRITE = re.compile(r"(?:[^\\]|\\[0-9\\])*")


def check_literals(node: Apply) -> None:
    """Refuse a form with something else in the place of a literal that it takes."""
    for want, argument in zip(node.form.arguments, node.arguments, strict=True):
        if want[0] in "#=" and not _is_literal(unwrap(argument), want):
            raise NotCertified(f"no literal that {node.form.name} takes", node)


def _is_literal(node: Expr, want: str) -> bool:
    if isinstance(node, Unary) and node.operator == "-":
        node = unwrap(node.operand)
        return want == "#INTEGER" and isinstance(node, Constant) and _from_0(node.value, 1 << 31)
    if want in ("#SPAN", "#INTERVAL"):
        return isinstance(node, Interval) and (want != "#SPAN" or node.text[0] in "123456789")
    value = node.value if isinstance(node, Constant) else None
    if want == "#INTEGER":
        return type(value) is int and abs(value) < 1 << 31
    if want == "#LENGTH":
        return _from_0(value, _LONGEST_LITERAL + 1)
    if not isinstance(value, str):
        return False
    if want[0] == "=":
        return value.lower() == want[1:]
    short = len(value) <= _LONGEST_LITERAL
    match want:
        case "#PAD":
            return bool(value) and short
        case "#REWRITE":
            # A group, `\1`, is two letters, and over all matches it is no longer than the text.
            return short and _REWRITE.fullmatch(value) is not None
        case "#PATH":
            return "*" not in value and ".." not in value
    return want == "#VARCHAR" and short


def _from_0(value: object, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def check_items(function: Lambda, of: Expr, measured: Apply | None) -> None:
    """Refuse what may make an item of a list longer, or texts of which nobody has measured how many fit.

    `measured` is the form around it that does, if there is one.
    """
    texts = 0
    for part in walk(function.body):
        if isinstance(part, (Lambda, ListOf)) or (
            isinstance(part, Apply) and "C" in part.form.guard.split("+")
        ):
            raise NotCertified("items that are longer than those of the list", part)
        if isinstance(part, Constant) and isinstance(part.value, str):
            texts += len(part.value)
    if texts:
        listed, most = measured.arguments[:2] if measured is not None else (None, None)
        known = isinstance(most, Constant) and type(most.value) is int and most.value >= texts
        if listed != of or not known:
            raise NotCertified("texts in the place of the items of a list", function)


def cut_text(node: Apply) -> Expr | None:
    """Return the text that a form makes NULL where it is longer than `LONGEST`."""
    cut = node.form.name == "text up to" and 0 <= node.form.number <= LONGEST
    return unwrap(node.arguments[0]) if cut else None


def measures(node: Apply) -> Call | None:
    """Return the function of items whose list a form measures before it is made."""
    made = node.arguments[2] if node.form is SHORT_LIST else None
    return made if isinstance(made, Call) else None


_CHOICES = frozenset(("coalesce", "ifnull", "least", "greatest"))


@rule(Call)
def _call(node: Call, at: Around) -> Value:
    name = node.name.lower()
    if name in _CHOICES and node.arguments:
        return _choice(name, node, at)
    lists = [argument for argument in node.arguments if isinstance(argument, Lambda)]
    arguments = [derive(argument, at) for argument in node.arguments if not isinstance(argument, Lambda)]
    check_decided(arguments, node)
    match name, arguments:
        case _ if lists:
            return _value_of_items(name, node, lists, arguments, at)
        case "hash", [_, *_] if all(x.canonical for x in arguments):
            return Value(UBIGINT, *ends(UBIGINT), nullable=False)
        case "nullif", [x, _]:
            comparable(arguments, node, at)
            return x._replace(nullable=True, literal=False)
        case "abs", [x] if exact(x.type) or x.type.name == "DECIMAL":
            return check_ends(Value(x.type, distance(x), size(x), x.nullable), node, at)
        case "bit_count", [x] if exact(x.type):
            wide = x.type == HUGEINT
            return Value(SqlType("SMALLINT") if wide else TINYINT, 0, 128 if wide else 64, x.nullable)
        case "epoch_ms", [x] if exact(x.type) and size(x) <= _MOST:
            return Value(TIMESTAMP, nullable=x.nullable)
        case "json_extract_string", [_, _]:
            needs_try(node, at, "a path of a JSON outside TRY")
            return Value(VARCHAR)
        case "date_diff", [_, _, _] if (days := _days_between(node)) is not None:
            return Value(BIGINT, *days, nullable=False)
    raise NotCertified(f"a function that is not known, or not of such values: {name}", node)


_CLAMPED = Call("least", (Call("greatest", (place("x"), place("low"))), place("high")))


def _days_between(node: Call) -> tuple[int, int] | None:
    """Return the ends of date_diff(word, first, LEAST(GREATEST(x, low), high)) of days or seconds.

    Proof: neither LEAST nor GREATEST is NULL beside a constant, so what is compared with `first` is from the
    lesser of both ends to `high`. The days, or seconds, that begin between two times are a difference of two
    numbers, of which each grows with its time.
    """
    word, begin, clamped = node.arguments
    found = fit(_CLAMPED, clamped)
    if found is None:
        return None
    first, low, high = (_time(end, unwrap(word)) for end in (begin, found["low"], found["high"]))
    if first is None or low is None or high is None:
        return None
    return min(low, high) - first, high - first


def _time(node: Expr, word: Expr) -> int | None:
    """Return the number of a day that is written, or of a second."""
    node = unwrap(node)
    if not isinstance(node, Constant):
        return None
    if word == Constant("day", VARCHAR) and type(node.value) is date:
        return node.value.toordinal()
    if word == Constant("second", VARCHAR) and type(node.value) is datetime and node.value.tzinfo is None:
        return (node.value - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return None


_MOST = (1 << 63) // 1001
"""So many milliseconds, before or after 1970, are a TIMESTAMP."""


def _choice(name: str, node: Call, at: Around) -> Value:
    values = [derive(argument, at) for argument in node.arguments]
    found = unify_values(values, node, caught=at.caught)
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
    return Value(found.type, low, high, nullable, found.canonical, found.literal, found.settled)


def _value_of_items(
    name: str,
    node: Call,
    lists: list[Lambda],
    arguments: list[Value],
    at: Around,
    measured: Apply | None = None,
) -> Value:
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
    if made.type.name not in _FIXED:
        check_items(lists[0], node.arguments[0], measured)
    return Value(SqlType("LIST", item=made.type), canonical=made.canonical)


_FIXED = frozenset({"BOOLEAN", "DECIMAL", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "UUID", *SIGNED, "NULL"})
"""Types of which all values have one length."""


@rule(Parameter)
def _parameter(node: Parameter, at: Around) -> Value:
    """Return what is known of an item, or of a field of it, which is NULL where the item is.

    A field is no longer than its item. A DOUBLE in it may be either zero.
    """
    found = (at.parameters or {}).get(node.name)
    if found is None:
        raise NotCertified("a parameter of no lambda", node)
    kind = found.type
    for name in node.path:
        fields = [part for known, part in kind.fields if known.lower() == name.lower()]
        if len(fields) != 1:
            raise NotCertified("a field that an item has not, or several times", node)
        kind = fields[0]
    return whole(kind, canonical=False) if node.path else found


@rule(Apply)
def _apply(node: Apply, at: Around) -> Value:
    form = node.form
    if not (is_known(form) and form.deterministic and len(node.arguments) == len(form.arguments)):
        raise NotCertified(f"a form that is not in the table of functions: {form.name}", node)
    check_literals(node)
    of_items = measures(node)
    if of_items is None:
        given = [derive(argument, at._replace(measured=cut_text(node))) for argument in node.arguments]
    else:
        given = [
            *(derive(argument, at) for argument in node.arguments[:2]),
            _value_of_list(node, of_items, at),
        ]
    check_decided(given, node)
    if form.widens and form.name in ("+", "-", "*") and all(exact(x.type) for x in given):
        x, y = (each._replace(type=HUGEINT, literal=False) for each in given)
        return arithmetic(Binary(form.name, *node.arguments), form.name, x, y, at)
    if not (form.total and all(_is_of(x, kind, form) for x, kind in zip(given, form.types, strict=True))):
        needs_try(node, at, f"a form that can fail: {form.name}")
    last = given[-1] if given else None
    digits = int(last.low) if last is not None and last.literal and exact(last.type) else None
    kinds = [x.type if x.type != NULL else kind or NULL for x, kind in zip(given, form.types, strict=True)]
    made = form.result_type(kinds, digits)
    if made is None:
        raise NotCertified(f"a form that says no type of its result: {form.name}", node)
    return whole(made, canonical=False)


def _value_of_list(node: Apply, made: Call, at: Around) -> Value:
    """Return what is known of a list that is made of each item of another, whose length is looked at."""
    lists = [argument for argument in made.arguments if isinstance(argument, Lambda)]
    if made.name.lower() != "list_transform" or len(lists) != 1:
        return derive(made, at)
    arguments = [derive(argument, at) for argument in made.arguments if not isinstance(argument, Lambda)]
    return _value_of_items("list_transform", made, lists, arguments, at, node)


def _is_of(x: Value, kind: SqlType | None, form: Form) -> bool:
    """Return whether the table says of such a value that the form does not fail on it."""
    if kind is not None:
        return fits(x, kind)
    return "DECIMAL" not in form.arguments or x.type.name != "DECIMAL" or x.type.precision <= 18


@rule(Interval)
def _interval(node: Interval, at: Around) -> Value:
    return Value(INTERVAL, nullable=False)


@rule(ListOf)
def _list_of(node: ListOf, at: Around) -> Value:
    values = [derive(item, at) for item in node.items]
    check_decided(values, node)
    item = unify_values(values, node, caught=at.caught) if values else Value(NULL)
    return Value(SqlType("LIST", item=item.type), nullable=False, canonical=item.canonical)


@rule(Element)
def _element(node: Element, at: Around) -> Value:
    needs_try(node, at, "an element outside TRY")
    x, index = derive(node.operand, at), derive(node.index, at)
    check_decided((x,), node)
    if not (exact(index.type) or index.type == NULL) or not (x.type.item or x.type in (VARCHAR, NULL)):
        raise NotCertified("an element of what is no list", node)
    return whole(x.type.item or x.type, canonical=x.canonical)


@rule(Slice)
def _slice(node: Slice, at: Around) -> Value:
    needs_try(node, at, "a part of a list outside TRY")
    x = derive(node.operand, at)
    check_decided((x,), node)
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
    check_decided((x,), node)
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
