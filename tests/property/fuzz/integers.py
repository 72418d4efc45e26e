"""Random integer arithmetic over extreme values, with the whole numbers of Python beside it.

Python's numbers have no limit, as those of 128 bits have none here that an operator could pass: where a part
of an expression is beyond 38 digits, the value of the expression is not compared, but it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

__all__ = ["COLUMNS", "EXTREMES", "POLICY", "Predicate", "predicates", "rows"]

LEAST, GREATEST, MOST = -(1 << 63), (1 << 63) - 1, 10**38 - 1
EXTREMES = {
    "x": (LEAST, GREATEST, LEAST + 1, 0, 1, -1, 3, 10**9 + 7, -(10**12), 1 << 62, None),
    "y": (LEAST, GREATEST, 2, -2, 7, 500_000, -500_000, 1 << 53, 10**18, None),
    "i": (-(1 << 31), (1 << 31) - 1, 0, 5, -7, None),
    "u": ((1 << 64) - 1, 0, 1 << 63, 12, None),
}
COLUMNS = {"x": "BIGINT", "y": "BIGINT", "i": "INTEGER", "u": "UBIGINT"}
POLICY = """
[budget]
epsilon = 1000000
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
unique = [["user_id"]]
columns = { user_id = "BIGINT", x = "BIGINT", y = "BIGINT", i = "INTEGER", u = "UBIGINT" }
"""
Row = dict[str, int | None]


@dataclass(frozen=True)
class Predicate:
    """A condition as SQL, and its truth for a row: None if it is NULL, `BEYOND`, `UNSURE`, or known."""

    text: str
    of: Callable[[Row], bool | str | None]


def rows() -> list[Row]:
    """Return rows with every pair of values of x and y."""
    made: list[Row] = []
    for n, x in enumerate(EXTREMES["x"]):
        for m, y in enumerate(EXTREMES["y"]):
            i, u = EXTREMES["i"][(n + m) % 6], EXTREMES["u"][(2 * n + m) % 5]
            made.append({"user_id": len(made) + 1, "x": x, "y": y, "i": i, "u": u})
    return made


BEYOND, UNSURE = "beyond", "unsure"
"""A number with a part beyond 38 digits: it is there; or, where such a part divides, it may be NULL."""

Value = Callable[[Row], int | str | None]


def _truncated(a: int, b: int) -> int:
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


_BINARY: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: _truncated(a, b) if b else None,
    "%": lambda a, b: a - b * _truncated(a, b) if b else None,
}


def _value(rng: Random, depth: int, operators: str) -> tuple[str, Value]:
    if not depth or rng.random() < 0.15:
        if rng.random() < 0.8:
            name = rng.choice(("x", "x", "y", "y", "i", "u"))
            return name, lambda row: row[name]
        number = rng.choice((0, 1, 2, 7, 10, 1000, GREATEST))
        return str(number), lambda row: number
    if rng.random() < 0.2:
        text, inner = _value(rng, depth - 1, operators)
        change: Callable[[int], int] = rng.choice((abs, int.__neg__))
        shown = f"abs({text})" if change is abs else f"(-({text}))"

        def one(row: Row) -> int | str | None:
            found = inner(row)
            return _kept(change(found)) if isinstance(found, int) else found

        return shown, one
    operator = rng.choice(operators.split())
    (a, left), (b, right) = _value(rng, depth - 1, operators), _value(rng, depth - 1, operators)

    def both(row: Row) -> int | str | None:
        p, q = left(row), right(row)
        if isinstance(p, int) and isinstance(q, int):
            found = _BINARY[operator](p, q)
            return None if found is None else _kept(found)
        if p is None or q is None or (q == 0 and operator in "//%"):
            return None
        divides = operator in "//%" and isinstance(q, str)
        return UNSURE if UNSURE in (p, q) or divides else BEYOND

    return f"({a} {operator} {b})", both


def _kept(number: int) -> int | str:
    return number if abs(number) <= MOST else BEYOND


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "=": int.__eq__,
    "<>": int.__ne__,
    "<": int.__lt__,
    ">=": int.__ge__,
}


def predicates(rng: Random, operators: str = "+ - * // %") -> Iterator[Predicate]:
    """Draw comparisons of two calculations, with parts of up to four operators."""
    while True:
        (a, left), (b, right) = _value(rng, rng.choice((1, 2, 3, 4)), operators), _value(rng, 1, operators)
        word = rng.choice(tuple(_COMPARED))

        def of(row: Row, left: Value = left, right: Value = right, word: str = word) -> bool | str | None:
            p, q = left(row), right(row)
            if p is None or q is None:
                return None
            if isinstance(p, int) and isinstance(q, int):
                return _COMPARED[word](p, q)
            return UNSURE if UNSURE in (p, q) else BEYOND

        yield Predicate(f"{a} {word} {b}", of)
