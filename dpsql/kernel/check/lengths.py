"""That no text and no list grows with the data: one of gigabytes ends a process, and no TRY catches that.

Forms with the guard `C` have no texts beyond `LONGEST`; those with literals (`#LENGTH`) only if these are
literals indeed. A list of texts is as long as the one that it is made of, so what is made of each item may
not be longer than the item, but for texts that are written: these are counted, and measured before.
"""

from __future__ import annotations

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.tree import Apply, Call, Constant, Expr, Interval, Lambda, ListOf, Unary, walk
from dpsql.kernel.tree.forms import LONGEST, SHORT_LIST

_LONGEST_LITERAL = 1000


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
            return short and "\\" not in value
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
