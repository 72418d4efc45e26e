"""Names of tables and columns, compared without case; and functions that make policy errors.

An error of a policy begins with the key that is wrong, as a path in TOML (`key_path`); `wrong` makes one, and
`suggest` its hint for a name that is not known.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from dpsql.errors import PolicyError
from dpsql.kernel.facts import fold

V = TypeVar("V")


def same_name(one: str, other: str) -> bool:
    """Return whether two names are equal without regard to case."""
    return fold(one) == fold(other)


def name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a table or column; None for a valid name."""
    if not name:
        return "a name may not be empty"
    if len(name) > 200:
        return "a name may have at most 200 characters"
    if not all(" " <= character <= "~" for character in name):
        return "a name may hold printable ASCII characters only"
    return None


class Names(Mapping[str, V]):
    """An immutable mapping with names as keys, in declared order, looked up without regard to case.

    Iterating yields the names as they were spelled. Two names that differ only in case raise `ValueError`.

    >>> columns = Names({"User_Id": 1, "page": 2})
    >>> columns["USER_ID"], "Page" in columns, list(columns)
    (1, True, ['User_Id', 'page'])
    """

    __slots__ = ("_items", "_spelled")

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._items: dict[str, V] = {}
        self._spelled: dict[str, str] = {}
        for name, item in items.items() if isinstance(items, Mapping) else items:
            first = self._spelled.setdefault(fold(name), name)
            if first in self._items:
                raise ValueError(f"{first!r} and {name!r} are the same name")
            self._items[name] = item

    def __getitem__(self, name: str) -> V:
        return self._items[self._spelled[fold(name)]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and fold(name) in self._spelled

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return f"Names({self._items!r})"

    def __reduce__(self) -> tuple[type[Names[V]], tuple[dict[str, V]]]:
        return type(self), (self._items,)


def check_names(
    items: Mapping[str, V], place: str, hint: Callable[[str], str | None] = lambda name: None
) -> Names[V]:
    """Return a mapping as `Names`; raise `PolicyError` for names that are not valid or not distinct.

    `hint` says what to write in the place of a name that is not valid.
    """
    for name in items:
        if problem := name_problem(name):
            raise wrong(f"{place}.{key_path(name)}", problem, hint(name))
    try:
        return Names(items)
    except ValueError as problem:
        raise wrong(place, str(problem), "names are compared without regard to case") from None


def key_path(*parts: str) -> str:
    """Return a key path in TOML syntax: `tables.visits.domain."landing page"`.

    >>> key_path("tables", "my visits", "unit")
    'tables."my visits".unit'
    """
    return ".".join(p if re.fullmatch(r"[A-Za-z0-9_-]+", p) else json.dumps(p[:200]) for p in parts)


def wrong(key: str, text: str, hint: str | None = None) -> PolicyError:
    """Return the error for a key of the policy: the key, what is wrong with it, and a hint."""
    return PolicyError(f"{key}: {text}" if key else text, hint=hint)


def suggest(word: str, known: Iterable[str], what: str = "known here") -> str:
    """Return a hint for an unknown name: the nearest known name, or a list of the known names."""
    folded = {fold(name): name for name in known}
    near = difflib.get_close_matches(fold(word), folded, n=1)
    if near:
        return f"did you mean {folded[near[0]]}?"
    shown = list(folded.values())
    return (
        f"{what}: {', '.join(shown[:12])}{', ...' if len(shown) > 12 else ''}" if shown else f"{what}: none"
    )
