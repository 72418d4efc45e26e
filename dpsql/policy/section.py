"""Read a table of a TOML file key by key; unknown keys and wrong types raise errors with a hint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import TypeVar

from dpsql.policy.names import joined, suggest, wrong

T = TypeVar("T")

_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (Decimal, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
    (datetime, "a timestamp"),
    (date, "a date"),
    (time, "a time"),
)


def described(value: object) -> str:
    """Return the kind of a TOML value, in words."""
    return next((word for python, word in _WORDS if isinstance(value, python)), "another value")


class Section:
    """A TOML table at a key path, with its allowed keys."""

    def __init__(self, raw: object, key: tuple[str, ...], known: Collection[str]) -> None:
        self.key = key
        if not isinstance(raw, dict):
            raise wrong(self.place(), f"expected a table, found {described(raw)}")
        self._raw: Mapping[str, object] = raw
        for name in raw:
            if name not in known:
                raise wrong(self.place(name), "unknown key", suggest(name, known, "keys here"))

    def place(self, *names: str) -> str:
        """Return the key path of this table, or of one of its keys."""
        return joined(*self.key, *names)

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def raw(self, name: str) -> object:
        """Return the value of a key as parsed from TOML; None if it is absent."""
        return self._raw.get(name)

    def require(self, name: str, hint: str | None = None) -> None:
        """Raise `PolicyError` if a key is absent."""
        if name not in self._raw:
            raise wrong(self.place(name), "is required", hint)

    def get(self, name: str, kind: type[T], default: T) -> T:
        """Return a key's value, which must be of that type, or the default."""
        value = self.optional(name, kind)
        return default if value is None else value

    def optional(self, name: str, kind: type[T]) -> T | None:
        """Return a key's value, which must be of that type; None if it is absent."""
        value = self._raw.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            expected = next(word for python, word in _WORDS if python is kind)
            raise wrong(self.place(name), f"expected {expected}, found {described(value)}")
        return value

    def number(self, name: str) -> int | str | Decimal | None:
        """Return a key's value if it may be read as a number; None if it is absent."""
        value = self._raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
            raise wrong(self.place(name), f"expected a number, found {described(value)}")
        return value
