"""Inputs that show the delta of a mechanism, counts or distances around a cutoff; and plans to audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpsql.kernel.mechanisms.mechanism import Mechanism

SMALL, LARGE = 1e-6, 0.02
"""One delta too small to matter beside epsilon, and one large enough for such events to be observed."""

Inputs = Callable[[Fraction], Sequence[tuple[str, Any, Any]]]


def at_least_k(plan: Callable[..., Mechanism[Any]]) -> Callable[..., Mechanism[Any]]:
    """Return a plan for an unknown domain that ignores the number of counts, and raises `candidates` to k."""

    def planned(_: int, k: int, candidates: int, **options: Any) -> Mechanism[Any]:  # noqa: ANN401  as `plan`
        return plan(k, candidates=max(k, candidates), **options)

    return planned


def stairs(cutoff: Callable[[Fraction], float]) -> Inputs:
    """Make monotone pairs of counts whose largest are near a cutoff, which depends on epsilon."""

    def inputs(epsilon: Fraction) -> list[tuple[str, Any, Any]]:
        height = round(cutoff(epsilon))
        found: list[tuple[str, Any, Any]] = [
            ("a new group", (0,), (1,)),
            ("a new group below another", (3 * height, 0), (3 * height, 1)),
            ("new groups", (0, 0, 0), (1, 1, 1)),
            ("two change places", (2 * height, 5, 4), (2 * height, 5, 5)),
        ]
        for level in _near(height):
            high, higher = (3 * level, 2 * level, level), (3 * level + 1, 2 * level, level + 1)
            found += [
                ("one above", (level, 0), (level + 1, 0)),
                ("all above", (2 * level, level, 1), (2 * level + 1, level + 1, 2)),
                ("every other above", high, higher),
                ("one of five above", (level,) * 5, (level + 1, *(level,) * 4)),
                ("rest of five above", (level,) * 5, (level, *(level + 1,) * 4)),
                ("all of five above", (level,) * 5, (level + 1,) * 5),
            ]
        return found

    return inputs


def queries(cutoff: Callable[[Fraction], float]) -> Inputs:
    """Make distances to instability, with answers that differ only where both distances are 0."""

    def inputs(epsilon: Fraction) -> list[tuple[str, Any, Any]]:
        height = round(cutoff(epsilon))
        found: list[tuple[str, Any, Any]] = [
            ("unstable", ((0,), (1,)), ((0,), (2,))),
            ("unstable behind a stable one", ((height, 0), (1, 1)), ((height, 0), (1, 2))),
            ("unstable ones", ((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (2, 2, 2))),
        ]
        for level in _near(height):
            three, five = (level,) * 3, (level,) * 5
            found += [
                ("one further", ((level,), (1,)), ((level + 1,), (1,))),
                ("first further", (three, (1, 2, 3)), ((level + 1, level, level), (1, 2, 3))),
                ("last further", (three, (1, 2, 3)), ((level - 1, level - 1, level + 1), (1, 2, 3))),
                ("all further", (five, (1,) * 5), ((level + 1,) * 5, (1,) * 5)),
                ("last nearer", (five, (1,) * 5), ((level + 1,) * 4 + (level - 1,), (1,) * 5)),
            ]
        return found

    return inputs


def _near(cutoff: int) -> list[int]:
    """Return counts around a cutoff, and some far from it."""
    return sorted({1, cutoff // 2, cutoff - 1, cutoff, cutoff + 1, round(1.5 * cutoff), 2 * cutoff})


def moved(low: int, high: int) -> Inputs:
    """Make counts that one unit more moves by `low` to `high`, or by 0 where it has no part."""

    def inputs(_: Fraction) -> list[tuple[str, Any, Any]]:
        flat, stairs_ = (10,) * 5, (10 + high, 10, 10, 10 + low, 10)
        changes = {
            "all up": (high,) * 5,
            "all down": (low,) * 5,
            "first up, rest down": (high, *(low,) * 4),
            "first down, rest up": (low, *(high,) * 4),
            "two up": (high, high, 0, 0, 0),
            "two down": (low, low, 0, 0, 0),
            "up and down": (high, low, high, low, 0),
        }
        return [
            (name, base, tuple(count + move for count, move in zip(base, change, strict=True)))
            for base in (flat, stairs_)
            for name, change in changes.items()
            if any(change)
        ]

    return inputs
