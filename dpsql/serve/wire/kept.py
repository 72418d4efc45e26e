"""`Kept`: what a connection keeps by name, its decoded bytes counted in the connection's account."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import ClassVar, Protocol, TypeVar

from dpsql.serve.limits import Account, size_of
from dpsql.serve.wire.errors import WireError


class Sized(Protocol):
    """Something that is kept."""

    @property
    def size(self) -> int:
        """The bytes that it takes."""


_One = TypeVar("_One", bound=Sized)


class Kept(MutableMapping[str, _One]):
    """Things by name; raises `LimitExceeded`, and keeps nothing new, where the account has no room."""

    most: ClassVar[int]
    """Bytes of all of them together."""
    too_long: ClassVar[str]
    """What is said where they would be more."""

    def __init__(self, account: Account | None = None) -> None:
        self._account = account or Account()
        self._found: dict[str, tuple[_One, int]] = {}
        self.size = 0
        """The bytes of all of them."""

    def check_room(self, size: int) -> None:
        """Raise if there is no room for so many bytes more."""
        if self.size + size > self.most:
            raise WireError("54000", self.too_long)

    def __getitem__(self, name: str) -> _One:
        return self._found[name][0]

    def __setitem__(self, name: str, one: _One) -> None:
        self.pop(name, None)
        size = one.size + size_of(name)
        self._account.take(size)
        self._found[name] = one, size
        self.size += size

    def __delitem__(self, name: str) -> None:
        _, size = self._found.pop(name)
        self._account.give(size)
        self.size -= size

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
