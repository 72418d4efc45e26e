"""Read a table of a TOML file by a table of its keys; refuse unknown keys and wrong values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.kinds import ValueKind, check_type, describe
from dpsql.policy.names import key_path, suggest, wrong

T = TypeVar("T")

_NO_WINDOWS = (
    "a budget that starts anew over the same rows promises nothing in the end: after n times the loss may be "
    "n times epsilon. Declare what is protected as the unit, and give disjoint data their own policies"
)
_REFUSED = dict.fromkeys(("resets", "window", "refresh", "unit_period"), _NO_WINDOWS)
"""Keys that do not exist on purpose, wherever they stand, each with a hint."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the policy file."""

    kind: ValueKind
    default: str
    """The value when the key is absent, in words; `required` if it must be present."""
    meaning: str

    @property
    def value(self) -> str:
        """The allowed values, in words."""
        return self.kind.words


class Section:
    """A TOML table at a key path, with its allowed keys."""

    def __init__(self, raw: object, key: tuple[str, ...], known: Mapping[str, Key | None]) -> None:
        self.key = key
        self._known = known
        if not isinstance(raw, dict):
            raise wrong(self.place(), f"expected a table, found {describe(raw)}")
        self._raw: Mapping[str, object] = raw
        for name in raw:
            if name not in known and name in _REFUSED:
                raise wrong(self.place(name), "a budget is not renewed", _REFUSED[name])
            if name not in known:
                raise wrong(self.place(name), "unknown key", suggest(name, known, "keys here"))

    def place(self, *names: str) -> str:
        """Return the key path of this table, or of one of its keys."""
        return key_path(*self.key, *names)

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
            check_type(value, kind, self.place(name))
        return cast("T | None", value)

    def values(self, base: Path = Path()) -> dict[str, Any]:
        """Return the values of the present keys, as their kinds read them; paths are relative to `base`.

        Keys whose kind has no reader are left out.
        """
        return {
            name: key.kind.read(self._raw[name], self.place(name), base)
            for name, key in self._known.items()
            if key is not None and key.kind.read is not None and name in self._raw
        }
