"""A ledger of a folder that tests open again and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kept_ladders import Open, ledger_in


@pytest.fixture
def open_ledger(tmp_path: Path) -> Iterator[Open]:
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"
