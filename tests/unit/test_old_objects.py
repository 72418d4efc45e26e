"""Objects that are made old at once are no leak, and leave the program's garbage collector as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from dpsql.old_objects import made_old


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.unfreeze()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


def generation_of(thing: object) -> int | None:
    return next((i for i in range(3) if any(each is thing for each in gc.get_objects(i))), None)


def test_what_is_made_in_the_block_is_old() -> None:
    gc.enable()
    with made_old():
        kept = Ring()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert generation_of(kept) == 2


def test_garbage_of_the_block_is_found_later() -> None:
    with made_old():
        lost = weakref.ref(Ring())
    gc.collect()
    assert lost() is None


def test_what_others_have_frozen_stays_frozen() -> None:
    frozen = Ring()
    gc.freeze()
    with made_old():
        pass
    assert gc.get_freeze_count() > 0
    assert generation_of(frozen) is None


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with pytest.raises(ZeroDivisionError), made_old():
        1 / 0  # noqa: B018
    assert not gc.isenabled()
