"""Properties that are computed when they are first read, and hold no lock meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dpsql
from dpsql.lazy_property import lazy_property


class Squares:
    """Numbers whose squares are counted."""

    def __init__(self, number: int) -> None:
        self.number, self.computed = number, 0

    @lazy_property
    def square(self) -> int:
        """The square."""
        self.computed += 1
        return self.number**2

    @lazy_property
    def of_another(self) -> int:
        """The square of a greater number, which another thread computes."""
        if self.number > 3:
            return self.square
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: Squares(self.number + 1).of_another).result(60)


def test_it_is_computed_once_for_each_object() -> None:
    three, four = Squares(3), Squares(4)
    assert [three.square, four.square, three.square] == [9, 16, 9]
    assert (three.computed, four.computed) == (1, 1)
    assert Squares.square.__doc__ == "The square."


def test_another_thread_may_compute_that_of_another_object() -> None:
    assert Squares(2).of_another == 16


def test_no_module_holds_the_lock_of_a_class() -> None:
    """Before Python 3.12, `functools.cached_property` has one lock for all objects of a class."""
    found = [
        path for path in Path(dpsql.__file__).parent.rglob("*.py") if "@cached_property" in path.read_text()
    ]
    assert found == []
