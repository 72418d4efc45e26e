"""Which of many similar cases run every day: a sample of them, spread over all; the others are slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], count: int) -> list[Any]:
    """Mark as slow all but every n-th case, so that `count` of them or a few more run every day.

    For cases of one claim that differ in little, such as mistakes that a comparison must notice. A case
    may be a `pytest.param` with marks of its own: one that is slow already is not counted. Nor is one that is
    `daily`, which runs in any case.
    """
    every = list(cases)
    quick = [i for i, case in enumerate(every) if not (_is_slow(case) or _is_daily(case))]
    kept = {quick[place] for place in range(0, len(quick), max(1, len(quick) // count))}
    return [case if i in kept or i not in quick else _slow(case) for i, case in enumerate(every)]


def _is_slow(case: object) -> bool:
    return any(getattr(mark, "name", "") == "slow" for mark in getattr(case, "marks", ()))


def _is_daily(case: object) -> bool:
    values = getattr(case, "values", (case,)) if hasattr(case, "marks") else (case,)
    return any(getattr(value, "daily", False) for value in values)


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
