"""What a column over released numbers is, as a term of these numbers: as SQL, and for draws of their noise.

A released number of a row is named by a whole number: its row times the number of released columns, plus its
column. Where noise made it NULL, its weight is NaN: a value that is made in its place has no interval. A
`LinearTerm` is a sum of released numbers with weights: SQL of lists of such names with weights, so
that the engine itself tells of which rows a value is made, whatever the window, the join or the group. A
`CallTerm` is a function of terms, a `Fold` an aggregate of a function. `Known` values have no noise, `Opaque`
ones no interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.analysis import write_engine_sql
from dpsql.language import copy_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

_PLACE = "DPSQL_PLACE"
_MARKED = lazy_pattern(rf"{_PLACE}\(\)", re.IGNORECASE)

EMPTY = "CAST([] AS STRUCT(p BIGINT, w DOUBLE)[])"
"""A form without a released number."""
_NAN = "CAST('nan' AS DOUBLE)"
NULLED = "noise made a number NULL that it is computed from"
"""Why there is no interval where another value stands for such a number."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value of an outer expression that has no noise: a constant or a public value."""

    sql: str


@dataclass(frozen=True, slots=True)
class LinearTerm:
    """A sum of released numbers with weights, and something without noise."""

    value: str
    """SQL of its value."""
    parts: tuple[tuple[str, str], ...]
    """SQL of a factor and of a list of released numbers with weights, each."""


@dataclass(frozen=True, slots=True)
class CallTerm:
    """A function in an outer expression whose arguments are terms of released numbers."""

    op: str
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate of the values of a term; the SQL of the term is of lists, one value a row."""

    op: str
    arg: Term


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of an answer whose error is not known."""

    why: str
    """The step that has no error, in words."""


Term = Known | LinearTerm | CallTerm | Fold | Opaque

_LINEAR = {"add": ("1", "1"), "sub": ("1", "-1")}


def number(row: str, columns: int, column: int, value: str) -> LinearTerm:
    """Return a released number, given the SQL of its row's number and of its value."""
    name = f"CAST({row} * {columns} + {column} AS BIGINT)"
    weight = f"CASE WHEN {value} IS NULL THEN {_NAN} ELSE CAST(1 AS DOUBLE) END"
    one = f"CASE WHEN {row} IS NULL THEN NULL ELSE [{{'p': {name}, 'w': {weight}}}] END"
    return LinearTerm(value, (("1", one),))


def is_linear(*terms: Term) -> bool:
    """Whether all terms are sums of released numbers, or have no noise."""
    return all(isinstance(term, (Known, LinearTerm)) for term in terms)


def first_opaque(*terms: Term) -> Opaque | None:
    """Return the first term whose error is not known."""
    return next((term for term in terms if isinstance(term, Opaque)), None)


def listed(term: Term) -> str:
    """Return SQL of the one list of a sum of released numbers."""
    if not isinstance(term, LinearTerm):
        return EMPTY
    made = [form if factor == "1" else _times(form, factor) for factor, form in term.parts]
    return made[0] if len(made) == 1 else f"flatten([{', '.join(made)}])"


def _times(form: str, factor: str) -> str:
    return f"list_transform({form}, lambda x: {{'p': x.p, 'w': x.w * ({factor})}})"


def scale(term: LinearTerm, factor: str, value: str) -> LinearTerm:
    """Return a sum of released numbers times a constant."""
    return LinearTerm(value, tuple((_product(own, factor), form) for own, form in term.parts))


def _product(one: str, other: str) -> str:
    if one == "1":
        return other
    return f"({one}) * ({other})"


def arithmetic(op: str, left: Term, right: Term, value: str) -> Term:
    """Return the sum, difference, product or quotient of two terms."""
    opaque = first_opaque(left, right)
    if opaque is not None:
        return opaque
    if isinstance(left, Known) and isinstance(right, Known):
        return Known(value)
    if op in _LINEAR and is_linear(left, right):
        parts: list[tuple[str, str]] = []
        for term, sign in zip((left, right), _LINEAR[op], strict=True):
            if isinstance(term, LinearTerm):
                parts += [(_product(own, sign), form) for own, form in term.parts]
        return LinearTerm(value, tuple(parts))
    if op == "mul" and isinstance(right, LinearTerm) and isinstance(left, Known):
        return scale(right, f"CAST({left.sql} AS DOUBLE)", value)
    if op == "mul" and isinstance(left, LinearTerm) and isinstance(right, Known):
        return scale(left, f"CAST({right.sql} AS DOUBLE)", value)
    if op == "div" and isinstance(left, LinearTerm) and isinstance(right, Known):
        return scale(left, f"1 / CAST({right.sql} AS DOUBLE)", value)
    return CallTerm(op, (left, right))


def choose_branch(
    conditions: list[str], branches: list[Term], value: str, default: Term | None = None
) -> Term:
    """Return the term of a CASE: the branch of the first condition that holds."""
    every = [*branches, *([] if default is None else [default])]
    opaque = first_opaque(*every)
    if opaque is not None:
        return opaque
    if all(isinstance(term, Known) for term in every):
        return Known(value)

    def case(texts: list[str]) -> str:
        pairs = zip(conditions, texts, strict=False)
        whens = " ".join(f"WHEN {condition} THEN {text}" for condition, text in pairs)
        return f"CASE {whens}{'' if default is None else f' ELSE {texts[-1]}'} END"

    if is_linear(*every):
        return LinearTerm(value, (("1", case([listed(term) for term in every])),))
    return CallTerm("pick", (Known(case([str(i) for i in range(len(every))])), *every))


def coalesce(branches: list[Term], texts: list[str], value: str) -> Term:
    """Return the term of COALESCE; `texts` is the SQL of the branches.

    Where noise made a branch NULL, which one follows is known, but not what the exact answer has.
    """
    *conditions, _ = (f"({text}) IS NOT NULL" for text in texts)
    made = choose_branch(conditions, branches[:-1], value, branches[-1])
    if isinstance(made, CallTerm):
        return CallTerm("coalesce", made.args)
    if not isinstance(made, LinearTerm):
        return made
    forms = [listed(term) for term in branches]
    lost = [_times(form, _NAN) for form in forms]
    chosen = [f"flatten([{', '.join([form, *lost[:place]])}])" for place, form in enumerate(forms)]
    pairs = zip(conditions, chosen, strict=False)
    whens = " ".join(f"WHEN {condition} THEN {text}" for condition, text in pairs)
    return LinearTerm(value, (("1", f"CASE {whens} ELSE {chosen[-1]} END"),))


def map_sql(term: Term, each: Callable[[str], str]) -> Term:
    """Return a term with other SQL for its values, lists and factors; lists are made one before."""
    match term:
        case Known(sql):
            return Known(each(sql))
        case LinearTerm(value):
            return LinearTerm(each(value), (("1", each(listed(term))),))
        case CallTerm(op, args):
            return CallTerm(op, tuple(map_sql(arg, each) for arg in args))
        case Fold(op, arg):
            return Fold(op, map_sql(arg, each))
    return term


def map_sql_apart(term: Term, each: Callable[[str], str]) -> Term:
    """Return a term with other SQL for its values, lists and factors, each by itself."""
    match term:
        case Known(sql):
            return Known(each(sql))
        case LinearTerm(value, parts):
            return LinearTerm(
                each(value), tuple((own if own == "1" else each(own), each(form)) for own, form in parts)
            )
        case CallTerm(op, args):
            return CallTerm(op, tuple(map_sql_apart(arg, each) for arg in args))
        case Fold(op, arg):
            return Fold(op, map_sql_apart(arg, each))
    return term


def with_value(term: Term, value: str) -> Term:
    """Return a term with other SQL for its value, which is NULL or the same value."""
    if isinstance(term, LinearTerm):
        return LinearTerm(value, term.parts)
    return Known(value) if isinstance(term, Known) else term


def quote_name(name: str) -> str:
    """Write a name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def named(alias: str, name: str) -> str:
    """Write a column of an item of FROM, which may have no alias."""
    return f"{quote_name(alias)}.{quote_name(name)}" if alias else quote_name(name)


def sql_of(node: exp.Expr) -> str:
    """Return the SQL that computes a term."""
    return write_engine_sql(copy_tree(node))


def around(node: exp.Expr, argument: str, sql: str) -> str:
    """Return the SQL of a node in which other SQL stands in the place of one of its arguments."""
    made = copy_tree(node)
    made.set(argument, exp.Anonymous(this=_PLACE, expressions=[]))
    return _MARKED.sub(lambda _: sql, write_engine_sql(made))


FloatArray = NDArray[np.float64]


class NoIntervalError(Exception):
    """A value of an answer cannot have an interval; the text says why, if an answer says that."""


def _without_null(parts: tuple[FloatArray, ...]) -> list[FloatArray]:
    """Return the arguments of GREATEST or LEAST that are not NULL: not NaN in every draw."""
    return [part for part in parts if not np.isnan(part).all()] or [*parts]


def _with_one_sign(divisor: FloatArray) -> FloatArray:
    """Return draws of a divisor, NaN where it is 0 or has not the sign of most: the ratio may be anything."""
    return np.where(divisor * np.sign(np.median(divisor)) > 0, divisor, np.nan)


_FUNCTIONS: dict[str, Callable[..., FloatArray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda above, below: np.divide(above, _with_one_sign(below)),
    "neg": np.negative,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log": lambda base, x: np.log(x) / np.log(base),
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "power": np.power,
    "greatest": lambda *parts: np.maximum.reduce(np.broadcast_arrays(*_without_null(parts))),
    "least": lambda *parts: np.minimum.reduce(np.broadcast_arrays(*_without_null(parts))),
}
_FOLDS: dict[str, Callable[..., FloatArray]] = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}
_POSITIVE = frozenset({"ln", "log10", "log2", "log", "sqrt"})
"""Functions of positive numbers: where a draw is negative, they have the limit at 0."""


Leaf = FloatArray | list[FloatArray]
"""Draws of a form; of a list of forms, those of each."""


def value_of(term: Term, leaves: Iterator[Leaf], constants: Mapping[str, object]) -> FloatArray:
    """Compute a term from drawn values of its released numbers, which are taken in order."""
    if isinstance(term, LinearTerm):
        return np.asarray(next(leaves))
    if isinstance(term, Known):
        return np.asarray(_number(constants[term.sql]))
    if isinstance(term, CallTerm):
        if term.op in ("pick", "coalesce"):
            index, *branches = term.args
            made = [value_of(each, leaves, constants) for each in branches]
            assert isinstance(index, Known)  # noqa: S101  so it was made
            place = int(_number(constants[index.sql]))
            if term.op == "coalesce" and not all(np.isnan(each).all() for each in made[:place]):
                raise NoIntervalError(NULLED)
            return made[place]
        if term.op == "cut":
            ends = (constants[each.sql] for each in term.args[1:] if isinstance(each, Known))
            least, most = in_order(*(None if end is None else _number(end) for end in ends))
            return np.clip(value_of(term.args[0], leaves, constants), least, most)
        args = [value_of(each, leaves, constants) for each in term.args]
        if term.op == "round":
            return _round_draws(args[0], int(args[1]))
        if term.op in _POSITIVE:
            args[-1] = np.maximum(args[-1], 0)
        return np.asarray(_FUNCTIONS[term.op](*args), dtype=np.float64)
    if isinstance(term, Fold):
        return _fold(term, leaves, constants)
    raise NoIntervalError


_STEPS, _TIMES, _EXACT = 257, 5, 1e-9
"""Values at which a function is computed between two, how often, and what of its range is taken as 0."""


def range_over(
    f: Callable[[FloatArray], FloatArray], x: FloatArray, tail: float, sides: tuple[float, float]
) -> tuple[float, float] | None:
    """Return the least and the greatest f over the interval of x; None if x has none.

    If the function turns within it, as ABS at 0, quantiles of f leave out the value at which it does.
    """
    least, most = (np.where(np.isnan(x), end, x) for end in (-np.inf, np.inf))
    low = float(np.quantile(least, tail, method="lower"))
    high = float(np.quantile(most, 1 - tail, method="higher"))
    if not np.isfinite([low, high]).all():
        return None
    between = np.linspace(low - sides[0], high + sides[1], _STEPS)
    every = np.sort(np.concatenate([x[(x >= low) & (x <= high)], between]))
    least_f, most_f = -_find_most(lambda x: -f(x), every), _find_most(f, every)
    near = _EXACT * (most_f - least_f)
    return (0.0 if abs(least_f) < near else least_f), (0.0 if abs(most_f) < near else most_f)


def _find_most(f: Callable[[FloatArray], FloatArray], x: FloatArray) -> float:
    """Return the most that f has between sorted values: beside the one at which it has most, too."""
    found = f(x)
    most = float(np.max(found))
    for _ in range(_TIMES):
        at = int(np.argmax(found))
        x = np.linspace(x[max(at - 1, 0)], x[min(at + 1, len(x) - 1)], _STEPS)
        found = f(x)
        most = max(most, float(np.max(found)))
    return most


def in_order(least: float | None, most: float | None) -> tuple[float | None, float | None]:
    """Return the ends to which a value is cut; between ends in another order it jumps: it has no interval."""
    if least is not None and most is not None and least > most:
        raise NoIntervalError("it is cut to ends of which the lower is above the upper")
    return least, most


def _fold(term: Fold, leaves: Iterator[Leaf], constants: Mapping[str, object]) -> FloatArray:
    """Return an aggregate of the values of each element."""
    lists = [next(leaves) for _ in forms_of(term.arg)]
    if not lists or not len(lists[0]):
        raise NoIntervalError
    values = []
    for at in range(len(lists[0])):
        fixed = {name: (value[at] if isinstance(value, list) else value) for name, value in constants.items()}
        values.append(value_of(term.arg, iter([each[at] for each in lists]), fixed))
    return np.asarray(_FOLDS[term.op](np.stack(values), axis=0))


def forms_of(term: Term) -> Iterator[LinearTerm]:
    """Yield the forms in a term, in order."""
    if isinstance(term, LinearTerm):
        yield term
    for each in inside(term):
        yield from forms_of(each)


def inside(term: Term) -> tuple[Term, ...]:
    """Return the argument terms of a call or fold; an empty tuple for other terms."""
    if isinstance(term, CallTerm):
        return term.args
    return (term.arg,) if isinstance(term, Fold) else ()


def _round_draws(values: FloatArray, digits: int) -> FloatArray:
    """Return rounded draws, each on the grid of the digits as a decimal number is."""
    return np.round(values, digits)


def _number(value: object) -> float:
    if value is None or isinstance(value, str):
        raise NoIntervalError
    return float(value)  # type: ignore[arg-type]  # a number of the engine


class FollowedRows(Protocol):
    """The rows of a query, as the query around it sees them."""

    columns: list[tuple[str, Term]]
    filtered: bool
    soft: bool

    def handed(self, place: int, alias: str, name: str) -> Term:
        """Return a column under an alias and a name."""


class QueryFollower(Protocol):
    """What an expression reader calls for the queries inside of expressions."""

    released: Mapping[str, Mapping[int, int | str]]
    width: int
    barred: bool
    whole: list[bool]
    aggregating: list[exp.Select | None]

    def reads(self, node: exp.Expr, ctes: Mapping[str, exp.CTE | None]) -> bool:
        """Whether a query names a released relation, or a common table expression."""

    def outer_term(self, node: exp.Column) -> Term | None:
        """Return what a name means in the queries around; None if none has it."""

    def subquery(
        self,
        select: exp.Select,
        ctes: Mapping[str, exp.CTE | None],
        lookup: Callable[[exp.Column], Term | None],
    ) -> FollowedRows:
        """Follow a subquery, in which names of the query around may stand."""
