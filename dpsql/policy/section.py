"""Read a table of a TOML file key by key; unknown keys and wrong types raise errors with a hint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeVar, cast

from dpsql.policy.keys import REFUSED, Key
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

    def __init__(self, raw: object, key: tuple[str, ...], known: Mapping[str, Key | None]) -> None:
        self.key = key
        self._known = known
        if not isinstance(raw, dict):
            raise wrong(self.place(), f"expected a table, found {described(raw)}")
        self._raw: Mapping[str, object] = raw
        for name in raw:
            if name not in known and name in REFUSED:
                raise wrong(self.place(name), "a budget is not renewed", REFUSED[name])
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
        if value is not None:
            self._check_kind(name, value, kind)
        return cast("T | None", value)

    def simple(self) -> dict[str, Any]:
        """Return the present keys whose value needs no more than the check of its type."""
        keys = {name: key for name, key in self._known.items() if key is not None and name in self}
        kinds = {name: kind for name, key in keys.items() if (kind := key.kind) is not None}
        for name, kind in kinds.items():
            word = keys[name].word
            if word is None or self._raw[name] != word:
                self._check_kind(name, self._raw[name], kind, "" if word is None else f' or "{word}"')
        return {name: self._raw[name] for name in kinds}

    def _check_kind(self, name: str, value: object, kind: type, other: str = "") -> None:
        accepted = (int, str, Decimal) if kind is Decimal else kind
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            expected = next(word for python, word in _WORDS if python is kind)
            raise wrong(self.place(name), f"expected {expected}{other}, found {described(value)}")
