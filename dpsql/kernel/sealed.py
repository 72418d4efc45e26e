"""Handles whose content the kernel alone reads, and errors whose frames hold nothing of it.

Code outside holds handles and hands them back. Tools that report errors show the variables of their frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from dpsql.errors import InternalError

S = TypeVar("S", bound="Sealed")
T = TypeVar("T")


class Sealed:
    """A handle of what the kernel keeps: no attribute of it leads there, and it cannot be copied.

    The content lives as long as the handle. The boundary is one against mistakes: whoever imports `unseal`
    outside the kernel fails a test.
    """

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __reduce__(self) -> NoReturn:
        raise InternalError("what is sealed cannot be copied")


_CONTENTS: WeakKeyDictionary[Sealed, Any] = WeakKeyDictionary()


def seal(handle: S, content: object) -> S:
    """Keep a content behind a new handle, and return the handle."""
    _CONTENTS[handle] = content
    return handle


def unseal(handle: Sealed) -> Any:  # noqa: ANN401  of the type that was sealed
    """Return the content of a handle; `InternalError` for one that the kernel did not make."""
    try:
        return _CONTENTS[handle]
    except KeyError:
        raise InternalError("the kernel did not make this handle") from None


def without_frames(work: Callable[[], T]) -> T:
    """Return what work on exact counts returns; an error that it raises has lost the frames of the work."""
    outer = sys.exc_info()[1]
    value, error = _try(work, outer)
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # without an error there is a value


def _try(work: Callable[[], T], outer: BaseException | None) -> tuple[T | None, BaseException | None]:
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
