"""Clients not made for dpsql: each logs in over TLS and answers the cookbook from the stored releases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.clients.cookbook import STATEMENTS, Answered, differences, same
from tests.serve.clients.drivers import DRIVERS
from tests.serve.clients.programs import PROGRAMS
from tests.serve.clients.questions import WRONG_AT
from tests.serve.clients.r import R
from tests.serve.clients.shop import PASSWORD, Shop, opened
from tests.serve.clients.subject import NotOffered, Subject, conninfo

pytestmark = pytest.mark.clients
SUBJECTS = (*PROGRAMS, *R, *DRIVERS)
COLUMNS = ["visit_id", "patient_id", "visit_date", "diagnosis_code", "clinic", "minutes", "cost", "note"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.name)
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.param
    if reason := found.missing():
        pytest.skip(f"{found.name}: {reason}")
    return found


@pytest.fixture(autouse=True)
def no_bug(shop: Shop) -> Iterator[None]:
    before = len(shop.process.log)
    yield
    assert [line for line in shop.process.log[before:] if line["event"] == "bug"] == []


def test_it_logs_in_over_tls(shop: Shop, subject: Subject) -> None:
    login = subject.login(shop)
    assert (login.user, login.tls) == ("alice", True)


def test_it_answers_the_cookbook_from_the_stored_releases(shop: Shop, subject: Subject) -> None:
    before = shop.spent()
    assert differences(subject.cookbook(shop, STATEMENTS), shop.expected) == []
    assert shop.spent() == before


def test_values_that_it_binds_ask_what_their_literals_ask(shop: Shop, subject: Subject) -> None:
    before = shop.spent()
    try:
        answers = subject.parameters(shop)
    except NotOffered as lack:
        pytest.skip(f"{subject.name}: {lack}")
    for rows, expected in zip(answers, shop.with_parameters, strict=True):
        assert differences([Answered(expected.columns, rows)], [expected]) == []
    assert shop.spent() == before


def test_it_reads_a_large_result(shop: Shop, subject: Subject) -> None:
    assert subject.large(shop) == 300 * 289


def test_it_shows_an_error_and_its_place(shop: Shop, subject: Subject) -> None:
    try:
        refusal = subject.refused(shop)
    except NotOffered as lack:
        pytest.skip(f"{subject.name}: {lack}")
    assert "there is no column oops" in refusal.text
    assert refusal.sqlstate in ("42703", None)
    assert refusal.position in (WRONG_AT, None)


def test_it_cancels(shop: Shop, subject: Subject) -> None:
    before = len(shop.outcomes("bob", "57014"))
    try:
        cancelled = subject.cancelled(shop)
    except NotOffered as lack:
        pytest.skip(f"{subject.name}: {lack}")
    assert "cancelled" in cancelled.text
    # Some clients say this of themselves; what stopped the statement is the server.
    with shop.process.news:
        assert shop.process.news.wait_for(lambda: len(shop.outcomes("bob", "57014")) > before, timeout=60)
    assert cancelled.next is None or same(cancelled.next, 2)


def test_it_browses_the_tables(shop: Shop, subject: Subject) -> None:
    found = subject.browsed(shop)
    assert set(found) == {"patients", "visits", "diagnoses"}
    # ADBC gives the columns in an order of its own.
    assert (
        (sorted(found["visits"]) == sorted(COLUMNS)) if subject.name == "ADBC" else found["visits"] == COLUMNS
    )


def test_describing_and_explaining_cost_nothing(shop: Shop) -> None:
    """Parse, Describe and EXPLAIN of the cookbook: the ledger stays, and what is announced is delivered."""
    psycopg = pytest.importorskip("psycopg")
    before = shop.spent()
    with psycopg.connect(conninfo(shop, "bob"), password=PASSWORD, autocommit=True) as connection:
        for number, text in enumerate(STATEMENTS):
            name = f"s{number}".encode()
            assert connection.pgconn.prepare(name, text.encode()).error_message == b""
            described = connection.pgconn.describe_prepared(name)
            announced = [(described.fname(n), described.ftype(n)) for n in range(described.nfields)]
            if "EXPLAIN" not in text:
                connection.execute("EXPLAIN " + text, prepare=False)
            with psycopg.connect(conninfo(shop), password=PASSWORD) as alice:
                delivered = alice.pgconn.exec_(text.encode())
                columns = [(delivered.fname(n), delivered.ftype(n)) for n in range(delivered.nfields)]
            assert announced == columns, text
    assert shop.spent() == before
