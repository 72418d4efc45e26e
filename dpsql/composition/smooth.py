"""Compute functions of released numbers for draws of their noise, as the engine computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dpsql.composition.terms import Call, Fold, Form, Known, Term

FloatArray = NDArray[np.float64]


class NoIntervalError(Exception):
    """A value has no interval."""


_FUNCTIONS: dict[str, Callable[..., FloatArray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log": lambda base, x: np.log(x) / np.log(base),
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "abs": np.abs,
    "power": np.power,
    "greatest": lambda *parts: np.fmax.reduce(np.broadcast_arrays(*parts)),
    "least": lambda *parts: np.fmin.reduce(np.broadcast_arrays(*parts)),
}
_FOLDS: dict[str, Callable[..., FloatArray]] = {
    "sum": np.sum,
    "avg": np.mean,
    "max": np.max,
    "min": np.min,
}
_POSITIVE = frozenset({"ln", "log10", "log2", "log", "sqrt"})
"""Functions of positive numbers: where a draw is negative, they have the limit at 0."""


Leaf = FloatArray | list[FloatArray]
"""Draws of a form; of a list of forms, those of each."""


def value_of(term: Term, leaves: Iterator[Leaf], constants: Mapping[str, object]) -> FloatArray:
    """Return a term for draws of its forms, which are taken in order."""
    if isinstance(term, Form):
        return np.asarray(next(leaves))
    if isinstance(term, Known):
        return np.asarray(_number(constants[term.sql]))
    if isinstance(term, Call):
        if term.op == "pick":
            index, *branches = term.args
            made = [value_of(each, leaves, constants) for each in branches]
            assert isinstance(index, Known)  # noqa: S101  so it was made
            return made[int(_number(constants[index.sql]))]
        if term.op == "cut":
            ends = (constants[each.sql] for each in term.args[1:] if isinstance(each, Known))
            least, most = (None if end is None else _number(end) for end in ends)
            return np.clip(value_of(term.args[0], leaves, constants), least, most)
        args = [value_of(each, leaves, constants) for each in term.args]
        if term.op == "round":
            return _rounded(args[0], int(args[1]))
        if term.op in _POSITIVE:
            args[-1] = np.maximum(args[-1], 0)
        return np.asarray(_FUNCTIONS[term.op](*args), dtype=np.float64)
    if isinstance(term, Fold):
        return _folded(term, leaves, constants)
    raise NoIntervalError


def _folded(term: Fold, leaves: Iterator[Leaf], constants: Mapping[str, object]) -> FloatArray:
    """Return an aggregate of the values of each element."""
    lists = [next(leaves) for _ in forms_of(term.arg)]
    if not lists or not len(lists[0]):
        raise NoIntervalError
    values = []
    for at in range(len(lists[0])):
        fixed = {name: _element(value, at) for name, value in constants.items()}
        values.append(value_of(term.arg, iter([each[at] for each in lists]), fixed))
    return np.asarray(_FOLDS[term.op](np.stack(values), axis=0))


def _element(value: object, at: int) -> object:
    return value[at] if isinstance(value, list) else value


def forms_of(term: Term) -> Iterator[Form]:
    """Yield the forms in a term, in order."""
    if isinstance(term, Form):
        yield term
    for each in inside(term):
        yield from forms_of(each)


def inside(term: Term) -> tuple[Term, ...]:
    """Return the terms that a term is a function of."""
    if isinstance(term, Call):
        return term.args
    return (term.arg,) if isinstance(term, Fold) else ()


def _rounded(values: FloatArray, digits: int) -> FloatArray:
    """Return rounded draws; there is no interval if the grid is coarser than they are spread."""
    step = 10.0**-digits
    low, high = np.quantile(values, [0.025, 0.975])
    if (high - low) / 2 < step:
        raise NoIntervalError
    return np.asarray(np.round(values / step) * step)


def _number(value: object) -> float:
    if value is None or isinstance(value, str):
        raise NoIntervalError
    return float(value)  # type: ignore[arg-type]  # a number of the engine
