"""A column that the policy calls otherwise than the header of its file: each error says what it is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.errors import PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
[tables.sales]
source = "sales.csv"
unit = "Kunde"
columns = { Kunde = "BIGINT", Grosse = "BIGINT", Betrag = "DOUBLE", "Preis (EUR)" = "DOUBLE" }
[tables.sales.csv]
delimiter = ";"
rename = { "Größe" = "Grosse", "Betrag (€)" = "Betrag", "Nr" = "Kunde" }
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "sales.csv").write_text("Nr;Größe;Betrag (€);Preis (EUR)\n1;2;3;4\n", "utf-8")
    with sessions_in(tmp_path, POLICY) as opened:
        yield opened()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (
            'COUNT(DISTINCT Kunde) FROM sales WHERE "Größe" > 3',
            "COUNT(DISTINCT Kunde) FROM sales WHERE Grosse > 3",
        ),
        ("COUNT(DISTINCT Nr) FROM sales", "COUNT(DISTINCT Kunde) FROM sales"),
        (
            'COUNT(DISTINCT s.Kunde) FROM sales s WHERE s."Betrag (€)" > 3',
            "COUNT(DISTINCT s.Kunde) FROM sales s WHERE s.Betrag > 3",
        ),
        (
            'COUNT(DISTINCT Kunde) FROM sales WHERE "Preise (EUR)" > 3',
            'COUNT(DISTINCT Kunde) FROM sales WHERE "Preis (EUR)" > 3',
        ),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_statement_is_told_what_the_column_is_called(session: Session, typed: str, meant: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(f"SELECT {typed}")
    assert caught.value.rewrite == f"SELECT {meant}"
    session.prepare(f"SELECT {meant}")


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('unit = "Kunde"', 'unit = "Größe"', "it is called Grosse here, as [tables.sales.csv] says"),
        ("Grosse = ", '"Größe" = ', "it is called Grosse here, as [tables.sales.csv] says"),
        (
            "Grosse = ",
            '"Länge" = ',
            'call it otherwise: rename = { "Länge" = "a_plain_name" } in [tables.sales.csv]',
        ),
    ],
)
def test_a_policy_is_told_what_the_column_is_called(tmp_path: Path, old: str, new: str, hint: str) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY.replace(old, new), "utf-8")
    with pytest.raises(PolicyError) as caught:
        load(tmp_path / "dpsql.toml")
    assert present(caught.value.hint) == hint
