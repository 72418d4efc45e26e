"""Results as frames and as text, and prices before a statement is asked."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.dbapi import Connection, Explanation

PRIVATE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) diagnosis, COUNT(DISTINCT patient_id) AS n "
    "FROM visits GROUP BY diagnosis TOP 3"
)
ASK = "SELECT page, COUNT(*) AS n FROM visits GROUP BY page"


@pytest.fixture
def con(session: Any) -> Connection:
    return Connection(session)


def test_frames_hold_the_whole_result_with_all_digits(con: Connection, session: Any) -> None:
    cursor = con.sql(PRIVATE)
    assert cursor.fetchone() == ("Essential hypertension", 1234.4)
    assert isinstance(cursor.df(), pandas.DataFrame)
    assert isinstance(cursor.pl(), polars.DataFrame)
    for numbers in (cursor.df()["n"].to_list(), cursor.pl()["n"].to_list(), cursor.arrow()["n"].to_pylist()):
        assert numbers == [1234.4, 987.1, 803.0]
    assert cursor.fetchone() == ("Type 2 diabetes", 987.1)
    assert session.ran == [PRIVATE]
    assert session.spent.epsilon == 2


def test_parameters(con: Connection) -> None:
    assert con.sql("SELECT ? + 1 AS a", [2]).df().to_dict("list") == {"a": [3]}


def test_nothing_is_shown_without_a_result(con: Connection) -> None:
    for read in (con.cursor().df, con.cursor().pl, con.cursor().arrow, con.cursor().show):
        with pytest.raises(dpsql.InterfaceError, match="execute a statement"):
            read()


def test_show_prints_what_the_command_line_prints(
    con: Connection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    cursor = con.sql(PRIVATE)
    cursor.show()
    out = capsys.readouterr().out
    assert "│ Type 2 diabetes        │   987 ± 41 │" in out
    assert out.endswith("epsilon 2 of 10 · noisy top-k with gap · 95% ± 41\n")
    assert 80 < max(map(len, out.splitlines())) <= 120
    cursor.show(50)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 50
    con.sql("SELECT 1 AS a").show()
    assert "│ 1 │" in capsys.readouterr().out


# -- prices


@pytest.fixture
def real(tmp_path: Path) -> Connection:
    users, pages = zip(*((user, "ab"[user % 2]) for user in range(20)), strict=True)
    pq.write_table(pa.table({"user_id": users, "page": pages}), tmp_path / "visits.parquet")
    (tmp_path / "dpsql.toml").write_text(
        '[budget]\nepsilon = 1\nhigh_water = false\nledger = "l.sqlite"\n[tables.visits]\n'
        'source = "visits.parquet"\nunit = "user_id"\n[tables.visits.domain]\n'
        'page = { values = ["a", "b"], complete = true }\n'
    )
    return dpsql.connect(tmp_path / "dpsql.toml")


def priced(epsilon: str) -> str:
    clause = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, max_rows_contributed = 1)"
    return ASK.replace("SELECT", f"SELECT {clause}")


def test_a_price_is_said_before_and_nothing_is_charged(real: Connection) -> None:
    with real:
        found = real.explain(priced("0.25"))
        assert isinstance(found, Explanation)
        assert (found.private, found.fits) == (True, True)
        assert (found.charge.epsilon, found.remaining.epsilon) == (Fraction(1, 4), Fraction(1))
        assert found.price == "costs epsilon 0.25; epsilon 1 is left"
        assert real.budget().spent.epsilon == 0
        assert dict(zip(*found.table.to_pydict().values(), strict=True))["epsilon"] == "0.25"
        assert found.table.schema.metadata is None
        real.sql(priced("0.25"))
        assert real.explain(priced("0.25")).price == "costs nothing; epsilon 0.75 is left"


def test_a_price_that_does_not_fit(real: Connection) -> None:
    with real:
        found = real.explain(priced("1.5"))
        assert not found.fits
        assert found.price.endswith("epsilon 1 is left, which does not pay for it")


def test_an_explanation_is_drawn(real: Connection) -> None:
    with real:
        found = real.explain(priced("?"), [0.25])
        assert repr(found).startswith("<Explanation: costs epsilon 0.25; epsilon 1 is left>\n┌")
        html = found._repr_html_()
        assert "<b>costs epsilon 0.25; epsilon 1 is left</b>" in html
        assert "<details><summary>SQL</summary>SELECT" in html


@pytest.mark.parametrize(
    "text", ["SELECT pge,\n  COUNT(*)\nFROM visits GROUP BY pge", "SELECT page,,\nFROM visits"]
)
@pytest.mark.sampled(2, rest="longer")
def test_errors_of_an_explanation_are_those_of_the_statement(real: Connection, text: str) -> None:
    with real:
        with pytest.raises(dpsql.Error) as explained:
            real.explain(text)
        with pytest.raises(dpsql.Error) as asked:
            real.sql(text)
        assert str(explained.value) == str(asked.value)


def test_what_has_no_price(real: Connection) -> None:
    with real:
        assert real.explain("SELECT 1").price == "costs nothing: it reads no private table"
        with pytest.raises(dpsql.ProgrammingError, match="a statement is text"):
            real.explain(SimpleNamespace())  # type: ignore[arg-type]  # as a user may


def test_a_limit_is_kept_before_anything_is_charged(con: Connection, session: Any) -> None:
    with pytest.raises(
        dpsql.PriceNotAgreed, match=r"costs epsilon 2 and may cost at most 1\.5; nothing was charged"
    ):
        con.sql(PRIVATE, at_most=1.5)
    for wrong, said in ((-1, "at least 0"), ("much", r"such as 0\.5")):
        with pytest.raises(dpsql.ProgrammingError, match=said):
            con.sql(PRIVATE, at_most=wrong)
    assert (session.ran, session.spent.epsilon) == ([], 0)
    assert len(con.sql(PRIVATE, at_most=Fraction(2)).fetchall()) == 3
    assert con.sql("SELECT 1 AS a", at_most=0).fetchall() == [(1,)]
    assert session.spent.epsilon == 2
