"""`lazy_property`: `functools.cached_property` without a lock, as that of Python 3.12 is.

Before, all objects of a class have one lock, which is held while a property is computed: who computes one and
waits for the ledger, and who has the ledger and reads one, would wait for each other. Two threads may compute
it at once here, and the last value stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["lazy_property"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property as lazy_property
else:

    class lazy_property:  # noqa: N801  it is used as a decorator
        """An attribute that is computed when it is first read.

        >>> class Text:
        ...     @lazy_property
        ...     def words(self) -> list[str]:
        ...         return "a b".split()
        >>> text = Text()
        >>> text.words is text.words
        True
        """

        def __init__(self, compute: Callable[[object], object]) -> None:
            self._compute, self.__doc__ = compute, compute.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            value = self._compute(instance)
            vars(instance)[self._compute.__name__] = value
            return value
