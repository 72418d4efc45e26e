"""`lazy_pattern`: `re.compile`, whose pattern is compiled when it is first used.

The modules that a process loads for its first answer have a hundred patterns, and it uses a dozen of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

__all__ = ["lazy_pattern"]

if TYPE_CHECKING:
    from re import compile as lazy_pattern
else:

    def lazy_pattern(pattern: str, flags: int = 0) -> _LazyPattern:
        """Return what has the attributes of a compiled pattern.

        >>> word = lazy_pattern(r"[a-z]+", re.IGNORECASE)
        >>> word.fullmatch("Ab"), word.sub("x", "ab c"), word.pattern
        (<re.Match object; span=(0, 2), match='Ab'>, 'x x', '[a-z]+')
        """
        return _LazyPattern(pattern, flags)


class _LazyPattern:
    """A pattern; an attribute of the compiled one stays in it once it was read."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value
