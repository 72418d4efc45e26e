"""Zones in a policy: of columns, of the statements' times, and offsets of the values that it declares."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import Policy, fit, load
from dpsql.types import TIMESTAMPTZ

POLICY = """
time_zone = "europe/berlin"
[budget]
epsilon = 1
[tables.visits]
source = "visits.csv"
unit = "user_id"
columns = { user_id = "BIGINT", seen = "TIMESTAMP", page = "VARCHAR" }
zone = { seen = "asia/kolkata" }
[tables.visits.domain]
seen = { from = 2024-01-01, to = 2024-12-31 }
"""


def read(folder: Path, text: str) -> Policy:
    (folder / "visits.csv").write_text("user_id,seen,page\n")
    (folder / "dpsql.toml").write_text(text)
    return load(folder / "dpsql.toml")


def test_a_column_with_a_zone_is_an_instant(tmp_path: Path) -> None:
    policy = read(tmp_path, POLICY)
    visits = policy.tables["visits"]
    assert policy.time_zone == "Europe/Berlin"
    assert visits.zone["SEEN"] == "Asia/Kolkata"
    assert visits.columns is not None
    assert visits.columns["seen"] == TIMESTAMPTZ


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("europe/berlin", "Europe/Belin", "time_zone: there is no time zone 'Europe/Belin'"),
        ("asia/kolkata", "IST-5", "tables.visits.zone.seen: there is no time zone 'IST-5'"),
        ('seen = "asia/kolkata"', 'page = "UTC"', "a column of type VARCHAR has no time zone"),
        ('seen = "asia/kolkata"', 'gone = "UTC"', "the table has no column 'gone'"),
        ('"asia/kolkata"', "5", "expected a time zone in quotes"),
        ('unit = "user_id"', "public = true", "a public table is read as it is"),
    ],
)
def test_other_zones_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read(tmp_path, POLICY.replace(old, new))


def test_values_of_instants_are_of_utc() -> None:
    midnight = datetime(2024, 7, 1, 22, 0)
    for value in ("2024-07-02 00:00:00+02:00", "2024-07-01T22:00:00Z", "2024-07-01 22:00", midnight):
        assert fit(value, TIMESTAMPTZ) == midnight
    assert fit(midnight.replace(tzinfo=UTC), TIMESTAMPTZ) == midnight
    assert fit(date(2024, 7, 1), TIMESTAMPTZ) == datetime(2024, 7, 1)
    for wrong in ("soon", "2024-07-02 00:00:00 Europe/Berlin", 5):
        with pytest.raises(ValueError, match="is not a valid TIMESTAMPTZ"):
            fit(wrong, TIMESTAMPTZ)
