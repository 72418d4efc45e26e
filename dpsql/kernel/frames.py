"""Run work on exact counts so that no frame of an error holds them: tools that report errors show these."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def without_frames(work: Callable[[], T]) -> T:
    """Return what work returns; an error that it raises has lost the frames of the work."""
    outer = sys.exc_info()[1]
    value, error = _tried(work, outer)
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # without an error there is a value


def _tried(work: Callable[[], T], outer: BaseException | None) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001  whatever it is, its frames hold exact counts
        one: BaseException | None = error
        while one is not None and one is not outer:
            one.__traceback__ = None
            if one.__cause__ is not None and one.__cause__ is not one.__context__:
                one.__cause__ = None
            one = one.__context__
        return None, error
