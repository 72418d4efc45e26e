"""What the tests share to say which type a value has where the product's declared type is wider."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value, and fail where there is none."""
    assert value is not None
    return value


def of_type(value: object, kind: type[T]) -> T:
    """Return the value, and fail where it is of another type."""
    assert isinstance(value, kind)
    return value
