"""Handles whose content the kernel alone reads: code outside holds them and hands them back."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from dpsql.errors import InternalError

S = TypeVar("S", bound="Sealed")


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
