"""Rows joined by a key belong to one unit, even if the key, against the policy, is that of several units."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import duckdb
import pytest

from dpsql.policy import load
from dpsql.session import Session
from tests.sql_fixtures import raw_data, write
from tests.unit.analysis.test_sql_fixtures import proved

BASKETS = [(1, 1), (1, 2), (2, 2), (3, 1), (3, 3), (4, 4), (None, 2), (5, 1)]
GOODS = [(1, True), (1, False), (2, True), (3, False), (4, True), (4, True), (5, None), (6, True)]
"""The keys 1 and 3 belong to two units each; a good belongs to the unit with the least number."""
PARCELS = [(1, 3), (1, 2), (2, 1), (3, 5), (4, 6), (None, 4), (5, 4), (5, 1)]
REFUNDS = [(1, 1, 10), (3, 1, 10), (1, 2, 10), (2, 3, 10), (3, 3, 11), (4, 1, 11), (5, 4, 12), (None, 2, 12)]
"""Baskets with other units than those of their refunds, and receipts of several units."""
SCANS = [(1, "door"), (2, "door"), (2, "depot"), (3, "door"), (4, "door"), (5, "depot"), (None, "door")]
"""The key of parcels occurs twice, too: 1 leads to units 1 and 2 over two hops, 5 to units 1 and 4."""

BOUNDED = "COUNT(*, contribution_bounds_per_group => (0, 1))"
TIED = "SELECT 1 FROM goods g WHERE g.basket_id = b.basket_id AND g.late"
LISTED = "SELECT basket_id FROM goods WHERE late"
STATEMENTS = [
    f"SELECT {BOUNDED} FROM baskets b WHERE EXISTS ({TIED})",
    f"SELECT {BOUNDED} FROM baskets b WHERE NOT EXISTS ({TIED})",
    f"SELECT {BOUNDED} FROM baskets WHERE basket_id IN ({LISTED})",
    f"SELECT {BOUNDED} FROM baskets WHERE basket_id NOT IN ({LISTED})",
    f"SELECT {BOUNDED} FROM goods WHERE basket_id NOT IN (SELECT basket_id FROM baskets WHERE page IS NULL)",
    f"SELECT {BOUNDED} FROM baskets b JOIN goods g ON g.basket_id = b.basket_id",
    f"SELECT {BOUNDED} FROM baskets a LEFT JOIN baskets b ON a.basket_id = b.basket_id WHERE b.page = 'a'",
    f"SELECT {BOUNDED} FROM (SELECT basket_id, COUNT(*) AS n FROM baskets GROUP BY basket_id) WHERE n = 1",
    "SELECT COUNT(DISTINCT basket_id, contribution_bounds_per_group => (0, 1)) FROM baskets",
    "SELECT COUNT(DISTINCT basket_id, contribution_bounds_per_group => (0, 1)) FROM goods WHERE late",
    f"SELECT {BOUNDED} FROM scans",
    f"SELECT {BOUNDED} FROM scans s JOIN parcels p ON s.parcel_id = p.parcel_id",
    f"SELECT {BOUNDED} FROM scans s LEFT JOIN parcels p ON s.parcel_id = p.parcel_id WHERE s.place = 'door'",
    f"SELECT {BOUNDED} FROM parcels p JOIN goods g ON g.basket_id = p.basket_id",
    f"SELECT {BOUNDED} FROM parcels "
    "WHERE parcel_id NOT IN (SELECT parcel_id FROM scans WHERE place = 'depot')",
    f"SELECT {BOUNDED} FROM parcels p "
    "WHERE EXISTS (SELECT 1 FROM scans s WHERE s.parcel_id = p.parcel_id AND s.place = 'depot')",
    "SELECT COUNT(DISTINCT parcel_id, contribution_bounds_per_group => (0, 1)) FROM scans",
    f"SELECT {BOUNDED} FROM refunds r JOIN baskets b ON b.basket_id = r.basket_id",
    f"SELECT {BOUNDED} FROM refunds r LEFT JOIN baskets b USING (basket_id) WHERE b.page IS NULL",
    f"SELECT {BOUNDED} FROM baskets b FULL JOIN refunds r USING (basket_id)",
    f"SELECT {BOUNDED} FROM goods g JOIN refunds r USING (basket_id)",
    f"SELECT {BOUNDED} FROM refunds a JOIN refunds b ON a.receipt = b.receipt AND a.basket_id <> b.basket_id",
    f"SELECT {BOUNDED} FROM refunds WHERE basket_id NOT IN (SELECT basket_id FROM baskets WHERE page = 'a')",
    f"SELECT {BOUNDED} FROM refunds r "
    "WHERE EXISTS (SELECT 1 FROM refunds s WHERE s.receipt = r.receipt AND s.basket_id > r.basket_id)",
    f"SELECT {BOUNDED} FROM (SELECT receipt, COUNT(*) AS n FROM refunds GROUP BY receipt) WHERE n = 1",
    "SELECT COUNT(DISTINCT receipt, contribution_bounds_per_group => (0, 1)) FROM refunds",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(tmp_path_factory.mktemp("keys") / "data", raw)))
    yield found
    found.close()


class Kept:
    """The rows of each set of units in a database that is filled once, and the counts over them."""

    def __init__(self) -> None:
        self.opened: dict[frozenset[int], duckdb.DuckDBPyConnection] = {}

    @cache  # noqa: B019  as long as the module's tests
    def counted(self, sql: str, units: frozenset[int]) -> int:
        """Return a count over the rows of some units."""
        if units not in self.opened:
            self.opened[units] = filled(units)
        row = self.opened[units].execute(sql).fetchone()
        assert row is not None
        return int(row[0])


def filled(units: frozenset[int]) -> duckdb.DuckDBPyConnection:
    """Return a database with the rows of some units."""
    owner = {key: min(u for k, u in BASKETS if k == key) for key, _ in BASKETS if key is not None}
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE baskets(basket_id BIGINT, user_id BIGINT, page VARCHAR, late BOOLEAN);"
        "CREATE TABLE goods(basket_id BIGINT, sku VARCHAR, late BOOLEAN);"
        "CREATE TABLE parcels(parcel_id BIGINT, basket_id BIGINT, late BOOLEAN);"
        "CREATE TABLE scans(parcel_id BIGINT, place VARCHAR, hour INTEGER);"
        "CREATE TABLE refunds(refund_id BIGINT, basket_id BIGINT, user_id BIGINT, receipt BIGINT, "
        "reason VARCHAR, day DATE)"
    )
    for key, unit in BASKETS:
        if unit in units:
            connection.execute("INSERT INTO baskets VALUES (?, ?, ?, NULL)", [key, unit, "ab"[unit % 2]])
    for key, late in GOODS:
        if owner.get(key) in units:
            connection.execute("INSERT INTO goods VALUES (?, 'x', ?)", [key, late])
    parcels = [(key, owner[basket]) for key, basket in PARCELS if basket in owner]
    for key, basket in PARCELS:
        if owner.get(basket) in units:
            connection.execute("INSERT INTO parcels VALUES (?, ?, TRUE)", [key, basket])
    for number, (refunded, unit, receipt) in enumerate(REFUNDS):
        if unit in units:
            row: list[object] = [number, refunded, unit, receipt]
            connection.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, 'late', NULL)", row)
    for key, place in SCANS:
        if min((u for k, u in parcels if k == key and key is not None), default=None) in units:
            connection.execute("INSERT INTO scans VALUES (?, ?, 1)", [key, place])
    return connection


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    made = Kept()
    yield made
    for connection in made.opened.values():
        connection.close()


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.sampled(5)
def test_a_unit_moves_a_count_by_its_bound_at_most(session: Session, kept: Kept, statement: str) -> None:
    sql = proved(session, statement).compiled.sql
    seen = set()
    for chosen in product((True, False), repeat=3):
        some = frozenset(unit for unit, there in zip((1, 2, 3), chosen, strict=True) if there)
        for unit in {1, 2, 3, 4} - some:
            less, more = kept.counted(sql, some), kept.counted(sql, some | {unit})
            assert 0 <= more - less <= 1, f"{unit} beside {some}"
            seen.add(more - less)
    assert 1 in seen
