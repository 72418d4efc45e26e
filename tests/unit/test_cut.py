"""How intervals have what bounds cut: the option `cut`, and the key of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.database import Database
from dpsql.errors import PolicyError, QuerySyntaxError
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present, private

POLICY = """
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[analysts.alice]
epsilon = 1e9
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
{cut}
[tables.orders.domain]
kind = {{ values = ["shop", "person"], complete = true }}
[tables.calls]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
cut = "NOISE_ONLY"
[tables.calls.domain]
kind = {{ values = ["shop", "person"], complete = true }}
[tables.kinds]
source = "kinds.parquet"
public = true
"""
PEOPLE, SHOPS = 200, 20
BY = "kind, COUNT(*) AS n FROM orders GROUP BY kind"
OF_ALL = "COUNT(*) AS n FROM orders"
AVERAGE = "kind, AVG(price, contribution_bounds_per_row => (0, 100)) AS n FROM orders GROUP BY kind"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All shops have 40 rows, all persons one."""
    made = tmp_path_factory.mktemp("cut")
    rows = [(u, "person", 10) for u in range(PEOPLE)]
    rows += [(PEOPLE + u, "shop", 50) for u in range(SHOPS) for _ in range(40)]
    users, kinds, prices = zip(*rows, strict=True)
    columns = {"user_id": pa.array(users), "kind": pa.array(kinds), "price": pa.array(prices)}
    pq.write_table(pa.table(columns), made / "orders.parquet")
    pq.write_table(pa.table({"kind": ["shop", "person"]}), made / "kinds.parquet")
    return made


def _opened(folder: Path, cut: str) -> Iterator[Session]:
    (folder / "dpsql.toml").write_text(POLICY.format(cut=cut))
    with closing(Database(load(folder / "dpsql.toml"))) as database:
        measures = [parse_measure(database, name) for name in ("orders", "calls")]
        release_ladders(database, measures, Fraction(10**6), "dpsql bounds")
        with closing(Session(database, "alice")) as session:
            yield session


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    yield from _opened(folder, "")


def asked(session: Session, rest: str, cut: str = "") -> Release:
    options = f"epsilon = 100000, max_rows_contributed = 4{', cut = ' if cut else ''}{cut}"
    found = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}")
    return present(found.release)


def ends(release: Release) -> dict[object, tuple[float, float, float]]:
    """Return the value and the interval of each group."""
    return {row.get("kind"): (row["n"], row["n_low"], row["n_high"]) for row in release.table.to_pylist()}


def test_whole_covers_a_group_that_has_all_that_is_cut(session: Session) -> None:
    shared, whole = ends(asked(session, BY)), ends(asked(session, BY, "WHOLE"))
    assert not shared["shop"][1] <= 40 * SHOPS <= shared["shop"][2]
    assert whole["shop"][1] <= 40 * SHOPS <= whole["shop"][2]
    for kind, counted in {"shop": 4 * SHOPS, "person": PEOPLE}.items():
        assert whole[kind][0] == pytest.approx(counted, abs=1), "nothing is given back"
        assert whole[kind][2] - counted > 36 * SHOPS, "each has all of it"


def test_noise_only_leaves_the_interval_of_the_noise_and_says_so(session: Session) -> None:
    for rest in (OF_ALL, BY, AVERAGE):
        found = asked(session, rest, "NOISE_ONLY")
        for value, low, high in ends(found).values():
            assert high - value == pytest.approx(value - low, abs=0.01)
        assert "not in the range, as cut = NOISE_ONLY says" in found.line
        assert "assumes" not in found.properties
        assert "(in the range)" in asked(session, rest).line


def test_whole_changes_nothing_of_one_number(session: Session) -> None:
    shared, whole = (ends(asked(session, OF_ALL, cut))[None] for cut in ("", "WHOLE"))
    assert whole[2] == pytest.approx(shared[2], abs=1)


def test_averages_of_groups_take_all_their_rows_for_cut(session: Session) -> None:
    _, low, high = ends(asked(session, AVERAGE, "WHOLE"))["shop"]
    assert high - low == pytest.approx(2 * 100 / 20, rel=0.1)
    _, low, high = ends(asked(session, AVERAGE))["shop"]
    assert high - low < 2 * 100 / 20


def test_the_widest_that_a_table_says_holds_if_the_statement_says_nothing(folder: Path) -> None:
    for opened in _opened(folder, 'cut = "WHOLE"'):
        for rest, options, cut in (
            (OF_ALL, "", "WHOLE"),
            (OF_ALL, ", cut = SHARED", "SHARED"),
            ("COUNT(*) FROM calls", "", "NOISE_ONLY"),
            ("COUNT(*) FROM calls JOIN kinds USING (kind)", "", "NOISE_ONLY"),
            ("COUNT(*) FROM calls AS c JOIN orders AS o USING (user_id)", "", "WHOLE"),
        ):
            text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{options}) {rest}"
            assert private(opened.prepare(text)).plan.options.cut == cut


def test_explain_shows_it_and_an_answer_is_of_one_way_alone(session: Session) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{}) " + BY
    rows = session.run("EXPLAIN " + text.format(", cut = WHOLE")).table.to_pylist()
    found = {row["property"]: row["value"] for row in rows}
    assert found["cut"] == "WHOLE"
    assert "densely" not in found["assumes"]
    keys = [
        private(session.prepare(text.format(more))).key for more in ("", ", cut = SHARED", ", cut = WHOLE")
    ]
    assert keys[0] == keys[1] != keys[2]


def test_other_words_are_refused(session: Session, folder: Path) -> None:
    with pytest.raises(QuerySyntaxError, match="option cut: expected one of SHARED, WHOLE, NOISE_ONLY"):
        asked(session, OF_ALL, "NOISE")
    path = folder / "other.toml"
    for before, after, message in (
        ('"NOISE_ONLY"', '"NOISE"', "tables.calls.cut: expected one of SHARED, WHOLE, NOISE_ONLY"),
        ("public = true", 'public = true\ncut = "WHOLE"', "tables.kinds.cut: a public table has no privacy"),
    ):
        path.write_text(POLICY.format(cut="").replace(before, after))
        with pytest.raises(PolicyError, match=message):
            load(path)
