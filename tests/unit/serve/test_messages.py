"""What is said of an answer's precision beside its rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dpsql.kernel.loss import Charge
from dpsql.release import Release
from dpsql.serve.answers import messages_of


def release(*rows: tuple[float | None, float | None, float | None]) -> Release:
    """Return a stored answer with these values, lower and upper ends."""
    value, low, high = (pa.array([row[i] for row in rows], pa.float64()) for i in range(3))
    return Release(
        rows=pa.table({"n": value}),
        table=pa.table({"n": value, "n_low": low, "n_high": high}),
        keys=(),
        counts=("n",),
        selection="all groups",
        mechanism="Laplace",
        guarantee="",
        charge=Charge(),
        scale=1.0,
        statement="",
        reused=datetime(2026, 11, 28, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(20.0, 15.0, 25.0), (30.0, 25.0, 35.0)], "n ± 5 (95%)"),
        ([(20.0, 15.0, 25.5), (30.0, 24.0, 36.0)], "n ± 5.5 to 6 (95%)"),
        ([(20.0, 14.0, 25.0), (30.0, 25.0, 35.0)], "n off by at most 5 to 6 (95%)"),
        (
            [(15.0, 1.0, 18.0), (30.0, 25.0, 35.0), (9.0, None, 12.0)],
            "n off by at most 5 to 14 (95%, 1 of 3 without one)",
        ),
        ([(15.0, 1.0, 18.0)], "n 1 to 18 (95%)"),
        ([(399_412.3, 397_878.2, 405_311.9)], "n 397,800 to 405,400 (95%)"),
        ([(15.0, 1.0, 18.0), (9.0, 8.0, 19.0)], "n off by at most 10 to 14 (95%)"),
        ([(15.0, 1.0, 18.0), (9.0, None, 19.0)], "n off by at most 14 (95%, 1 of 2 without one)"),
        ([(9.0, None, 19.0)], None),
        ([(None, None, None)], None),
    ],
)
def test_the_half_width_covers_the_interval(
    rows: list[tuple[float | None, float | None, float | None]], said: str | None
) -> None:
    (notice,) = messages_of(release(*rows))
    first = notice.text.partition(";")[0]
    assert first == said if said else "±" not in notice.text
