"""A ledger that nobody closed: its file is closed with the object, without a warning."""

from __future__ import annotations

import gc
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger


def test_a_forgotten_ledger_closes_its_file(tmp_path: Path) -> None:
    """From Python 3.13 on, a connection that is not closed warns when it is collected."""
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(path, policy_id="p", total=Charge(Fraction(1)), high_water=False)
    assert ledger.budget().spent.epsilon == 0
    connection = ledger._store._connection
    assert connection is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del ledger
        gc.collect()
    with pytest.raises(Exception, match="closed"):
        connection.execute("SELECT 1")
