"""The forms of functions: DuckDB's text of each, and what is known of it; `functions.csv` lists most of them.

Claim: a form with `total` has a value or NULL for all arguments of its types, and one with `deterministic`
the same for the same arguments. Every row of the table is tried on all combinations of hostile values, as
constants, as columns and beneath conditions (`tests/property/test_functions.py`). A guard says how a form was
made total:

=====  ===============================================================================================
``T``  the function is total
``I``  its integers are computed in 128 bits, where those of 64 bits do not overflow
``N``  a divisor of zero is NULL
``D``  IEEE 754 arithmetic
``Y``  TRY
``C``  texts are cut, or their lengths tested, so that the result is no longer than `LONGEST` bytes
``R``  the result is put into an order of its own
``L``  literals stand in some places
=====  ===============================================================================================

A form with a literal (`#INTEGER`) can fail because of that literal: it is tried on samples before it is used,
and stands in TRY; `total` is false. A literal of one text only (`=year`) is part of the form.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache, lru_cache
from pathlib import Path

from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType, column_type

LONGEST = 65_536
"""The length, in bytes of UTF-8, of the longest text that a statement may compute or contain as a literal."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One form of a function, for arguments of some types. Two are equal if they write the same text."""

    name: str
    """The function or operator."""
    guard: str
    """How the form was made total, see above; empty for a form of which nothing is known."""
    arguments: tuple[str, ...]
    """The types of the arguments: `DECIMAL` is any one of at most 18 digits, `#INTEGER` a literal, `=year` a
    literal of that text, `ANY` any type."""
    template: str
    """DuckDB's SQL, with `{0}`, `{1}`, .. in the places of the arguments."""
    result: str = ""
    """The type of the result, or one of `RESULTS`."""
    number: int = 0
    """The number by which a form that a rule makes differs from others of its name (see `is_known`)."""
    arithmetic: bool = field(init=False)
    """Whether this form takes numbers only and has a result for all of them.

    Integers are widened, DOUBLE follows IEEE 754. Such forms may contain a subquery, which TRY may not.
    """
    total: bool = field(init=False)
    """Whether it fails on no arguments of its types."""
    deterministic: bool = field(init=False)
    """Whether equal arguments have equal results."""
    widens: bool = field(init=False)
    """Whether the SQL of this form converts its integers to a wider type, so that it takes UBIGINT, too."""
    types: tuple[SqlType | None, ...] = field(init=False)
    """The types of the arguments; None for literals, for a DECIMAL of any digits, and for any type."""

    def __post_init__(self) -> None:
        guards, kinds = set(self.guard.split("+")), {"BIGINT", "DOUBLE", "DECIMAL"}
        known = bool(self.guard) and guards <= set("TINDYCRL")
        types = tuple(None if w[0] in "=#" or w in _OPEN else column_type(w) for w in self.arguments)
        made = {
            "arithmetic": guards <= set("INDT") and kinds.issuperset(self.arguments),
            "total": known and not any(w[0] == "#" for w in self.arguments),
            "deterministic": known,
            "widens": "I" in guards,
            "types": types,
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Form:
            return NotImplemented
        return self.template == other.template and self.arithmetic == other.arithmetic

    def __hash__(self) -> int:
        return hash(self.template)

    def result_type(self, types: Sequence[SqlType], digits: int | None = None) -> SqlType | None:
        """Return the type of the result for arguments of some types; None if the form does not say it.

        `digits` is the value of a literal to which a DECIMAL is rounded.
        """
        rule = RESULTS.get(self.result)
        if rule is not None:
            return rule(types, digits)
        return _result(self.result) if self.result else None


_OPEN = ("DECIMAL", "ANY", "ANY[]")


@lru_cache(maxsize=64)
def _result(name: str) -> SqlType:
    return SqlType(name) if name == "HUGEINT" else column_type(name)


def _same(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    return types[0]


def _last(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    return types[-1]


def _sum(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    """Return the type of a sum of two DECIMAL: a digit more than both have before the point."""
    a, b = types
    scale = max(a.scale, b.scale)
    return SqlType("DECIMAL", min(38, max(a.precision - a.scale, b.precision - b.scale) + scale + 1), scale)


def _product(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    """Return the type of a product of two DECIMAL, if 18 digits hold all of them."""
    a, b = types
    precision = a.precision + b.precision
    return SqlType("DECIMAL", precision, a.scale + b.scale) if precision <= 18 else None


def _whole(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    return SqlType("DECIMAL", types[0].precision, 0)


def _type_of_rounded(types: Sequence[SqlType], digits: int | None) -> SqlType | None:
    """Return the type of a DECIMAL rounded to some digits; before the point it may get one more."""
    if digits is None:
        return None
    precision, scale = types[0].precision, types[0].scale
    carries = scale == 0 and -precision <= digits < 0
    return SqlType("DECIMAL", precision + carries, max(0, min(scale, digits)))


RESULTS: dict[str, Callable[[Sequence[SqlType], int | None], SqlType | None]] = {
    "same": _same,
    "last": _last,
    "sum": _sum,
    "product": _product,
    "whole": _whole,
    "rounded": _type_of_rounded,
}
"""The rules for the type of a result that depends on the types of the arguments."""


@cache
def listed_forms() -> dict[str, tuple[Form, ...]]:
    """Read the allowed functions: the forms of each name, in the order in which they are tried."""
    text = Path(__file__).with_name("functions.csv").read_text("utf-8")
    found: dict[str, list[Form]] = {}
    for row in csv.DictReader(text.splitlines()):
        arguments = tuple(row["argument_types"].split())
        form = Form(row["name"], row["guard"], arguments, _close(row["compiled_form"]), row["result"])
        found.setdefault(form.name.lower(), []).append(form)
    return {name: tuple(forms) for name, forms in found.items()}


def _close(form: str) -> str:
    """Put a form in parentheses unless it is a single call or is in parentheses already."""
    head = re.match(r"\w*\(", form)
    if head and form.endswith(")"):
        depth = 0
        for i, char in enumerate(form):
            depth += (char == "(") - (char == ")")
            if depth == 0 and char == ")":
                if i == len(form) - 1:
                    return form
                break
    return f"({form})"


NEGATED = Form("not", "T", ("BOOLEAN",), "(NOT {0})", "BOOLEAN")
UTC_OFFSET = Form("utc offset", "C", ("VARCHAR",), "({0} || '+00')", "VARCHAR")
"""The text of a moment with its offset; that of a moment is short."""
NEAR = {
    "+": Form("near +", "D", ("DOUBLE", "DOUBLE"), "({0} + {1})", "DOUBLE"),
    "-": Form("near -", "D", ("DOUBLE", "DOUBLE"), "({0} - {1})", "DOUBLE"),
    "*": Form("near *", "D", ("DOUBLE", "DOUBLE"), "({0} * {1})", "DOUBLE"),
    "neg": Form("near neg", "D", ("DOUBLE",), "(-{0})", "DOUBLE"),
    "abs": Form("near abs", "D", ("DOUBLE",), "abs({0})", "DOUBLE"),
}
"""The operators on DOUBLE that stand beside those on whole numbers.

A quotient or a rest is not larger than its first operand, and needs none.
"""
_LISTED = f"(CASE WHEN len({{0}}) * {{1}} <= {LONGEST} THEN {{2}} END)"
SHORT_LIST = Form("short list", "C", ("ANY[]", "BIGINT", "VARCHAR[]"), _LISTED, "last")
"""A list that is computed from each item of another: the other one, the bytes of an item, the list."""


@lru_cache(maxsize=64)
def text_up_to(most: int) -> Form:
    """Return the form of a text with NULL in the place of one of more than some bytes."""
    template = f"(CASE WHEN strlen({{0}}) <= {most} THEN {{0}} END)"
    return Form("text up to", "C", ("VARCHAR",), template, "VARCHAR", most)


@lru_cache(maxsize=64)
def concatenated(count: int) -> Form:
    """Return the form of CONCAT of some texts, which leaves NULL out."""
    places = [f"{{{i}}}" for i in range(count)]
    length = " + ".join(f"coalesce(strlen({place}), 0)" for place in places)
    template = f"(CASE WHEN {length} <= {LONGEST} THEN concat({', '.join(places)}) END)"
    return Form("concat", "C", ("VARCHAR",) * count, template, "VARCHAR", count)


@lru_cache(maxsize=2)
def overlaid(count: int) -> Form:
    """Return the form of OVERLAY with three arguments, or with a length as the fourth."""
    made = f"overlay({{0}} PLACING {{1}} FROM {{2}}{'' if count == 3 else ' FOR {3}'})"
    template = f"(CASE WHEN strlen({{0}}) + strlen({{1}}) <= {LONGEST} THEN {made} END)"
    kinds = ("VARCHAR", "#VARCHAR", *("#INTEGER",) * (count - 2))
    return Form("overlay", "C+L", kinds, template, "VARCHAR", count)


_FIXED = {f.name: f for f in (NEGATED, UTC_OFFSET, SHORT_LIST, *NEAR.values())}
_NUMBERED: dict[str, Callable[[int], Form]] = {
    "text up to": text_up_to,
    "concat": concatenated,
    "overlay": overlaid,
}


def is_known(form: Form) -> bool:
    """Return whether a form is one of the table or one of those above, with these very flags."""
    named = listed_forms().get(form.name.lower(), ())
    if any(form is row for row in named) or form is _FIXED.get(form.name):
        return True
    make = _NUMBERED.get(form.name)
    return make is not None and _all_of(make(form.number)) == _all_of(form)


def _all_of(form: Form) -> tuple[object, ...]:
    return form.name, form.guard, form.arguments, form.template, form.result, form.number
