"""Uploads: public tables of one session, which private rows find by a key; limits, and who sees them."""

from __future__ import annotations

import glob
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql import uploads
from dpsql.errors import Error, InterfaceError, OperationalError, ProgrammingError
from dpsql.kernel.mechanisms import CheckStream
from dpsql.policy import load
from dpsql.release.check_answers import check_key
from dpsql.session import Session
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "id"
rows_per_unit = 2
[tables.pages]
source = "pages.parquet"
public = true
[views.seen]
sql = "SELECT * FROM visits"
"""
VISITS = "SELECT i AS row_id, i // 2 AS id, i % 3 = 0 AS ill FROM range(4000) t(i)"
PAGES = "SELECT 'a' AS page"
LOSS = (
    "AVG(CASE WHEN p.ill = v.ill THEN 0 ELSE 1 END) AS loss "
    "FROM visits v LEFT JOIN p17 p ON p.row_id = v.row_id"
)


session = world_fixture(POLICY, scope="function", visits=VISITS, pages=PAGES)


def predictions(every: int = 10, n: int = 4000) -> pa.Table:
    """Predictions of which one in `every` is wrong."""
    rows = range(n)
    return pa.table({"row_id": [*rows], "ill": [(i % 3 == 0) is (i % every != 0) for i in rows]})


def ask(session: Session, text: str) -> list[dict[str, Any]]:
    return session.run(text).table.to_pylist()


def test_private_rows_are_scored_by_uploaded_predictions(session: Session) -> None:
    assert session.upload("p17", predictions()) == 4000
    (row,) = ask(session, f"SELECT {LOSS}")
    assert row["loss"] == pytest.approx(0.1, abs=0.01)
    assert ask(session, "SELECT COUNT(*) AS n FROM p17") == [{"n": 4000}]
    assert {"table": "p17", "unit": "public", "protects": None} in ask(session, "SHOW TABLES")
    spent = session.budget().spent
    session.upload("P17", predictions(4))  # it is replaced, and so the question is another one
    (row,) = ask(session, f"SELECT {LOSS}")
    assert row["loss"] == pytest.approx(0.25, abs=0.01)
    assert session.budget().spent.epsilon == 2 * spent.epsilon
    assert session.ledger.check() == []


def test_the_hash_of_rows_tells_questions_apart_also_in_other_sessions(session: Session) -> None:
    session.upload("p17", predictions())
    first = ask(session, f"SELECT {LOSS}")
    other = Session(load(session.policy.path or ""), session.analyst)
    with pytest.raises(Error, match="p17"):
        ask(other, f"SELECT {LOSS}")
    other.upload("p17", predictions())
    spent = session.budget().spent
    assert ask(other, f"SELECT {LOSS}") == first  # stored, and so free
    assert session.budget().spent == spent
    other.upload("p17", predictions(9))
    assert ask(other, f"SELECT {LOSS}") != first
    assert session.budget().spent.epsilon == 2 * spent.epsilon
    other.close()


def test_a_board_of_uploads(session: Session) -> None:
    ask(
        session,
        "OPEN BOARD b OPTIONS (epsilon = 100, improvements = 5, step = 0.01, best = LOWEST, start = 0.5)",
    )
    found = []
    for number, every in enumerate((3, 9, 4, 20)):
        name = f"m{number}"
        session.upload(name, predictions(every))
        (row,) = ask(session, f"CHECK b SELECT {LOSS.replace('p17', name)}")
        found.append(row["checked"])
    assert found == ["new best", "new best", "no new best", "new best"]


@pytest.mark.parametrize("units", [(0, 3), pytest.param(tuple(range(5)), marks=pytest.mark.longer)])
def test_a_score_moves_by_at_most_its_bound(
    units: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through SQL: each unit is deleted in turn; also rows without a prediction, and more rows than count."""
    given: list[Fraction] = []
    check = CheckStream.check

    def record(own: CheckStream, statistic: Fraction) -> Fraction | None:
        given.append(statistic)
        return check(own, statistic)

    monkeypatch.setattr(CheckStream, "check", record)
    rows = "SELECT i AS row_id, i % 5 AS id, i % 3 = 0 AS ill FROM range(23) t(i)"
    found = {}
    for without in (None, *units):
        own = rows if without is None else f"SELECT * FROM ({rows}) WHERE id <> {without}"
        with open_world(tmp_path / str(without), POLICY, visits=own, pages=PAGES) as opened:
            ask(
                opened,
                "OPEN BOARD b OPTIONS (epsilon = 1, improvements = 5, step = 0.1, best = LOWEST, start = 1)",
            )
            opened.upload("p17", predictions(2, 17))
            given.clear()
            ask(opened, f"CHECK b SELECT {LOSS}")
            (found[without],) = given
    moves = [abs(found[None] - found[without]) for without in units]
    assert max(moves) <= 1
    assert len(units) < 5 or max(moves) > Fraction(1, 4)


def test_a_key_with_a_value_twice_is_no_upload(session: Session) -> None:
    for data, message in [
        ({"row_id": [1, 1], "ill": [True, False]}, "a value twice or a NULL"),
        ({"row_id": [1, None], "ill": [True, False]}, "a value twice or a NULL"),
        ({"row_id": [1.0, 2.0], "ill": [True, False]}, "no floating-point number"),
    ]:
        with pytest.raises(ProgrammingError, match=message):
            session.upload("p17", pa.table(data))
    with pytest.raises(ProgrammingError, match="has no column other"):
        session.upload("p17", predictions(), "other")


@pytest.mark.parametrize("name", ["visits", "VISITS", "pages", "seen"])
def test_the_policy_is_never_shadowed(session: Session, name: str) -> None:
    with pytest.raises(ProgrammingError, match="is a table of the policy"):
        session.upload(name, predictions())
    assert ask(session, "SELECT COUNT(*) AS n FROM pages") == [{"n": 1}]


def test_a_name_is_a_word(session: Session) -> None:
    for name in ("", "a b", "1st", 'p"17', "p.q", "é", "dpsql_incoming"):
        with pytest.raises(ProgrammingError, match="is a word"):
            session.upload(name, predictions())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([b"x", b"y"]),
        pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.nulls(2),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_columns_are_plain(session: Session, column: pa.Array) -> None:
    with pytest.raises(ProgrammingError, match="an upload has numbers, texts"):
        session.upload("p17", pa.table({"row_id": [1, 2], "x": column}))


def test_there_is_a_limit_on_rows_and_bytes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_ROWS", 5000)
    with pytest.raises(ProgrammingError, match="at most 5,000 rows"):
        session.upload("p17", predictions(n=5001))
    monkeypatch.setattr(uploads, "MOST_TABLES", 1)
    session.upload("p17", predictions(n=3))
    with pytest.raises(ProgrammingError, match="at most 1 uploads"):
        session.upload("p18", predictions(n=3))
    monkeypatch.setattr(uploads, "MOST_TABLES", 2)
    monkeypatch.setattr(uploads, "MOST_BYTES", 60_000)
    session.upload("p17", predictions())
    session.upload("p17", predictions(5))  # it takes the place of the other one
    with pytest.raises(ProgrammingError, match="a session's uploads at most"):
        session.upload("p18", predictions())
    assert ask(session, "SELECT COUNT(*) AS n FROM p17") == [{"n": 4000}]


def test_files_go_with_the_session(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session.upload("p17", predictions())
    session.upload("p17", predictions(7))
    (folder,) = glob.glob(f"{tmp_path}/dpsql-uploads-*")
    assert len(list(Path(folder).iterdir())) == 1  # the file of what was replaced is gone
    assert ask(session, "SELECT COUNT(*) AS n FROM p17") == [{"n": 4000}]
    assert Path(folder).stat().st_mode & 0o077 == 0
    session.close()
    assert not Path(folder).exists()


def test_what_was_prepared_before_is_prepared_again(session: Session) -> None:
    prepared = session.prepare("SELECT COUNT(*) AS n FROM visits")
    session.upload("p17", predictions())
    with pytest.raises(InterfaceError, match="on which it was prepared"):
        session.execute(prepared)
    ask(session, "OPEN CHECKS c OPTIONS (epsilon = 1, misses = 2)")
    checked = session.prepare("CHECK c SELECT COUNT(DISTINCT id) AS n FROM visits EXPECT n = 2 TOLERANCE 1")
    session.upload("p18", predictions())
    with pytest.raises(InterfaceError, match="on which it was prepared"):
        session.execute(checked)
    assert ask(session, "SHOW STREAMS")[0]["left"] == 2


def test_in_python(session: Session) -> None:
    with dpsql.connect(str(session.policy.path)) as con:
        rows = predictions()
        for data in (
            rows,
            rows.to_pandas(),
            {name: rows.column(name).to_pylist() for name in rows.column_names},
        ):
            assert con.upload("p17", data, key="row_id") == 4000
        for wrong in (5, {"a": [1], "b": [1, 2]}, "text", None):
            with pytest.raises(ProgrammingError, match="an upload is an Arrow table"):
                con.upload("p18", wrong)


def test_times_and_whole_numbers_are_kept_as_sql_has_them(session: Session) -> None:
    times = pa.array([0, 10**15], pa.timestamp("ns"))  # as pandas has them
    session.upload("u", pa.table({"k": pa.array([1, 2], pa.uint64()), "t": times}))
    assert [row["k"] for row in ask(session, "SELECT * FROM u")] == [1, 2]
    (row,) = ask(session, "SELECT COUNT(*) AS n FROM visits v JOIN u ON u.k = v.row_id")
    assert row["n"] == pytest.approx(2, abs=1)
    for wrong in (
        pa.array([1], pa.timestamp("ns")),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([2**63], pa.uint64()),
    ):
        with pytest.raises(ProgrammingError, match="has values beyond"):
            session.upload("u", pa.table({"k": [1], "v": wrong}))


def test_what_lies_behind_a_null_is_no_value(session: Session) -> None:
    """Memory behind a NULL is whatever was there: it is in no hash of rows, and in no key of an answer."""
    found = set()
    for behind in (7, 8):
        values = pa.py_buffer(np.array([1, behind], dtype=np.int64).tobytes())
        column = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), values])
        session.upload("u", pa.table({"k": [1, 2], "v": column}))
        found.add(session.policy.tables["u"].source)
        expected = check_key("", [], pa.table({"v": column}), None)
    assert len(found) == 1
    assert expected == check_key("", [], pa.table({"v": [1, None]}), None)
    assert expected != check_key("", [], pa.table({"v": [1, 8]}), None)


def test_an_analyst_has_so_many_different_uploads_as_the_policy_says(tmp_path: Path) -> None:
    """The ledger keeps a line of each for ever: of those that it has, any number more are no growth."""
    policy = POLICY.replace("[budget]", "[budget]\nmax_uploads = 3")
    with open_world(tmp_path, policy, visits=VISITS, pages=PAGES) as opened:

        def rows() -> int:
            with opened.ledger._store.read() as connection:
                found = connection.execute("SELECT COUNT(*) FROM setting WHERE name LIKE 'upload %'")
                return int(found.fetchone()[0])

        for every in (2, 3, 4):
            opened.upload("p17", predictions(every))
        for _ in range(2):  # another session does not begin anew
            other = Session(load(opened.policy.path or ""), opened.analyst)
            with pytest.raises(OperationalError, match="you have uploaded 3 different tables") as error:
                other.upload("p18", predictions(5))
            assert "the owner raises [budget] max_uploads" in str(error.value)
            for every in (2, 3):
                other.upload("p19", predictions(every))
            other.close()
        assert rows() == 3
        for analyst in ("ben", f"{opened.analyst} x"):
            other = Session(load(opened.policy.path or ""), analyst)
            other.upload("p17", predictions(5))
            other.close()
        assert rows() == 5
        with pytest.raises(OperationalError):
            opened.upload("p18", predictions(6))
