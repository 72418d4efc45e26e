"""Whether an interrupt of charged work is the analyst's, or came while a failure was handled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.engines.duckdb.duckdb_settings import interruptible
from dpsql.kernel import charged_work


@contextmanager
def begin() -> Iterator[Any]:
    yield SimpleNamespace(failed=False)


def counts_as_failure(*errors: BaseException) -> bool:
    """Whether work counts as a failure that raises these, each while the one before is handled."""

    def work() -> None:
        raised = None
        for error in errors:
            error.__context__ = raised
            raised = error
        assert raised is not None
        raise raised

    return charged_work._run(work, begin)[2]


@pytest.mark.parametrize(
    ("errors", "failure"),
    [
        ((KeyboardInterrupt(),), False),
        ((RuntimeError("Query interrupted"), KeyboardInterrupt()), False),
        ((RuntimeError("a value of the data"), KeyboardInterrupt()), True),
        ((ValueError("Query interrupted"), KeyboardInterrupt()), True),
        ((ValueError(), RuntimeError("Query interrupted"), KeyboardInterrupt()), True),
        ((RuntimeError("Query interrupted"),), True),
    ],
)
def test_an_interrupt_is_no_failure_unless_another_error_came_first(
    errors: tuple[BaseException, ...], *, failure: bool
) -> None:
    assert counts_as_failure(*errors) is failure


def test_what_the_engine_says_of_ctrl_c_in_the_main_thread_is_an_interrupt() -> None:
    def work() -> None:
        with interruptible():
            raise RuntimeError("Query interrupted")

    _, error, failed = charged_work._run(work, begin)
    assert isinstance(error, KeyboardInterrupt)
    assert not failed
