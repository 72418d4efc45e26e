"""Stored answers are kept whole, for the same analyst, while the releases and the data are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dpsql.kernel.loss import Charge
from dpsql.serve.answers import Answer, Encoded, Notice, columns_of
from dpsql.serve.client import Client
from dpsql.serve.service import Service
from dpsql.serve.settings import Settings
from dpsql.serve.wire.results import ResultRows, WireResult, send_result
from tests.served import ALICE, BOB, client_of, run, serving

POLICY = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [0, 1, 2]
page.complete = true
[tables.visits.bounds]
page = { from = 0, to = 2 }
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "INTEGER", title = "VARCHAR" }
"""
OPTION = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
COUNT = f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits"
RATIO = f"SELECT a.n / b.n AS r FROM ({COUNT} WHERE page = 0) a, ({COUNT}) b"
TITLES = f"SELECT title, n FROM (SELECT {OPTION} page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) v JOIN pages USING (page)"  # noqa: E501
ABOVE = (
    f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits WHERE page > (SELECT AVG(page) FROM visits)"
)


def write(folder: Path, title: str = "a", at: float = 1e9) -> None:
    rows = "SELECT i AS user_id, i % 3 AS page FROM range(300) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/visits.parquet'")
    (folder / "pages.csv").write_text(f"page,title\n0,{title}\n1,b\n2,c\n")
    for file in folder.glob("*.*"):
        os.utime(file, (at, at))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", -60.0)  # the change times are of now
    (tmp_path / "dpsql.toml").write_text(POLICY)
    write(tmp_path)
    with serving(tmp_path / "dpsql.toml") as made:
        yield made


def asked(client: Client, text: str, *values: object) -> Answer:
    return run(client.answer(text, values, [pa.int64() for _ in values]))


def spent(service: Service) -> Charge:
    return service.budget().spent


@pytest.mark.parametrize("text", [COUNT, RATIO, TITLES, ABOVE])
@pytest.mark.sampled(3)
def test_a_stored_answer_is_put_together_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    client = client_of(service)
    first = asked(client, text)
    second = asked(client, text)
    assert (second.table, second.encoded is not None) == (first.table, True)
    before = spent(service)
    monkeypatch.setattr("dpsql.session.Releasing", None)
    third = asked(client_of(service), text)
    assert third is second
    assert spent(service) == before
    assert "reused release" in third.notices[0].text
    assert service.figures().stored_hits == 2


def test_it_is_the_analysts_own(service: Service) -> None:
    for _ in range(3):
        hers = asked(client_of(service, ALICE), RATIO)
    his = asked(client_of(service, BOB), RATIO)
    assert his.release is not None
    assert his.release.reused is None
    assert spent(service) == Charge(Fraction(4))
    for _ in range(2):
        his = asked(client_of(service, BOB), RATIO)
    assert his is not hers
    assert spent(service) == Charge(Fraction(4))


@pytest.mark.parametrize("text", [RATIO, ABOVE])
def test_a_newer_release_of_the_same_question_takes_its_place(service: Service, text: str) -> None:
    client = client_of(service)
    for _ in range(3):
        before = asked(client, text)
    part = f"{COUNT} WHERE page = 0" if text == RATIO else f"SELECT {OPTION} AVG(page) FROM visits"
    epsilon = "epsilon = 1" if text == RATIO else "epsilon = 0.5"
    asked(client, part.replace("epsilon = 1", f"{epsilon}, fresh = TRUE"))
    after = asked(client, text)
    assert before.release is not None
    assert after.release is not None
    numbers = [[part.number for part in one.release.parts] for one in (before, after) if one.release]
    assert numbers[0] != numbers[1]
    assert asked(client, text).table == after.table


def test_it_is_made_anew_when_a_public_table_changes(service: Service, tmp_path: Path) -> None:
    client = client_of(service)
    for _ in range(3):
        assert asked(client, TITLES).table.column("title").to_pylist()[0] == "a"
    before = spent(service)
    pages = tmp_path / "pages.csv"
    pages.write_text(pages.read_text().replace("0,a", "0,z"))
    os.utime(pages, (2e9, 2e9))
    for _ in range(3):
        assert asked(client, TITLES).table.column("title").to_pylist()[0] == "z"
    assert spent(service) == before


def test_its_columns_are_those_that_were_announced(service: Service) -> None:
    client, shown = client_of(service), client_of(service, dp_columns="interval")
    text = f"{COUNT} WHERE page < $1"
    for _ in range(3):
        assert asked(client, text, 2).table.column_names == ["n"]
        assert asked(shown, text, 2).table.column_names == ["n", "n_low", "n_high"]
    assert asked(client, text, 1).table != asked(client, text, 2).table


def test_a_fresh_statement_is_never_answered_from_what_is_kept(service: Service) -> None:
    client = client_of(service)
    fresh = COUNT.replace("epsilon = 1", "epsilon = 1, fresh = TRUE")
    for number in range(1, 4):
        asked(client, fresh)
        assert spent(service) == Charge(Fraction(number))
    assert not len(service.generation.stored)


def test_a_large_answer_is_not_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.serve.answers.LARGEST", 1000)
    client = client_of(service)
    for _ in range(3):
        assert asked(client, COUNT).encoded is None
    assert not len(service.generation.stored)


def test_a_larger_answer_is_kept_among_its_own_kind(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.serve.answers.SMALL", 1000)
    client = client_of(service)
    answers = [asked(client, COUNT) for _ in range(4)]
    assert answers[3].table is answers[2].table
    assert [answer.encoded for answer in answers] == [None] * 4
    assert (len(service.generation.stored), spent(service)) == (1, Charge(Fraction(1)))


def test_a_description_is_given_again_without_planning(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, text = client_of(service), f"{COUNT} WHERE page < $1"
    first = run(client.describe(text))
    monkeypatch.setattr("dpsql.composition.open_parameters.parameters_of", None)
    assert run(client_of(service, BOB).describe(text)) == first
    with pytest.raises(TypeError):
        run(client.describe(text, [pa.int16()]))  # of other types it is another one


def test_a_description_is_made_anew_on_other_data(service: Service, tmp_path: Path) -> None:
    client, text = client_of(service), "SELECT title FROM pages WHERE page = $1"
    before = service.generation.database.engines()
    first = run(client.describe(text))
    write(tmp_path, "y", 2e9)
    assert service.generation.database.engines() is not before
    assert run(client.describe(text)) == first


# -- the bytes that are sent


def rows(table: pa.Table, encoded: Encoded | None, digits: str = "1", codes: tuple[int, ...] = ()) -> bytes:
    settings = Settings("alice", "shop", statement_timeout=1000)
    settings.set("extra_float_digits", digits)
    made = ResultRows(WireResult("SELECT", columns_of(table.schema), table, encoded=encoded), codes, settings)
    return made.describe() + made._rows(0, table.num_rows)


def test_rows_are_encoded_once_for_each_form(monkeypatch: pytest.MonkeyPatch) -> None:
    table, encoded = pa.table({"x": [1.1, 2.0], "y": ["a", None]}), Encoded(1000)
    forms = [("1", ()), ("0", ()), ("1", (1,))]
    wanted = [rows(table, None, digits, codes) for digits, codes in forms]
    assert len({*wanted}) == 2  # both numbers have the same digits
    assert [rows(table, encoded, digits, codes) for digits, codes in forms] == wanted
    monkeypatch.setattr("dpsql.serve.wire.types.encoding.RowEncoder.cells", None)
    assert [rows(table, encoded, digits, codes) for digits, codes in forms] == wanted
    with pytest.raises(TypeError):
        rows(table, None)


class Gathered:
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        """Wait for nobody."""


def test_a_kept_answer_is_sent_again_without_being_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    table, encoded = pa.table({"x": [1.1, 2.0, 3.0]}), Encoded(1000, 77)
    notices = Notice("NOTICE", "it cost nothing", "ask again"), Notice("WARNING", "few rows")
    settings = Settings("alice", "shop", statement_timeout=1000)

    def sent(encoded: Encoded | None, limits: tuple[int, ...] = ()) -> bytes:
        result = WireResult("SELECT", columns_of(table.schema), table, notices, encoded=encoded)
        assert result.held_bytes == (table.nbytes if encoded is None else 77)
        channel: Any = Gathered()
        if not limits:
            run(send_result(channel, result, settings, lambda: None))
            return bytes(channel.sent)
        made = ResultRows(result, (), settings)
        assert [run(made.send(channel, lambda: None, limit)) for limit in limits] == [2, 1]
        return bytes(channel.sent)

    first, parts = sent(None), sent(None, (2, 5))
    assert sent(encoded) == first
    settings.set("client_min_messages", "warning")
    fewer = sent(encoded)
    assert len(fewer) < len(first)
    assert sent(encoded, (2, 5)) == parts
    monkeypatch.setattr("dpsql.serve.wire.results.RowEncoder", None)
    monkeypatch.setattr("dpsql.serve.wire.messages.notice_response", None)
    assert sent(encoded) == fewer
    settings.set("client_min_messages", "notice")
    assert sent(encoded) == first


def test_what_has_no_room_is_not_kept() -> None:
    encoded = Encoded(5)
    encoded.put(("rows",), b"123")
    encoded.put(("columns",), b"456")
    assert encoded.get(("rows",)) == b"123"
    assert encoded.get(("columns",)) is None
