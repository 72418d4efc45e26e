"""The clinic that comes with dpsql, with a budget of its own for each test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """The clinic's policy; its ledger lies beside it, its data where they are."""
    text = (DATA / "clinic.toml").read_text("utf-8")
    policy = tmp_path / "clinic.toml"
    policy.write_text(re.sub(r'source = "(.+?)"', rf'source = "{DATA.as_posix()}/\1"', text), "utf-8")
    return policy
