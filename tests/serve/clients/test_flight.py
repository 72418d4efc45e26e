"""Clients of Flight SQL that were not made for dpsql: the cookbook, parameters, errors, cancelling."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow.flight as fl
import pytest

from dpsql.serve import self_signed
from tests.serve.clients.cookbook import STATEMENTS, Answered, differences, same
from tests.serve.clients.flight import SERVE, AdbcFlight, FlightSqlDbapi, port
from tests.serve.clients.questions import PARAMETERS, WRONG_AT
from tests.serve.clients.shop import PASSWORD, Shop, opened
from tests.serve.clients.test_clients import COLUMNS

pytest.importorskip("grpc")
pytestmark = pytest.mark.clients
SUBJECTS = (AdbcFlight(), FlightSqlDbapi())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    pytest.importorskip("cryptography")
    folder: Path = tmp_path_factory.mktemp("flight")
    self_signed.make(folder)
    with opened(folder, SERVE) as shop:
        yield shop


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.name)
def subject(request: pytest.FixtureRequest) -> AdbcFlight | FlightSqlDbapi:
    found: AdbcFlight | FlightSqlDbapi = request.param
    if reason := found.missing():
        pytest.skip(f"{found.name}: {reason}")
    return found


def test_it_answers_the_cookbook_from_the_stored_releases(
    shop: Shop, subject: AdbcFlight | FlightSqlDbapi
) -> None:
    before = shop.spent()
    assert differences(subject.cookbook(shop, STATEMENTS), shop.expected) == []
    assert shop.spent() == before


def test_values_that_it_binds_ask_what_their_literals_ask(
    shop: Shop, subject: AdbcFlight | FlightSqlDbapi
) -> None:
    asked = [(text, values) for text, every in PARAMETERS for values in every]
    before, compared = shop.spent(), 0
    with subject.cursor(shop) as (_, cursor):
        for (text, values), expected in zip(asked, shop.with_parameters, strict=True):
            if isinstance(subject, FlightSqlDbapi) and not all(
                isinstance(v, (str, int, float)) for v in values
            ):
                continue  # it has no dates and decimals
            given = [float(v) if v.__class__.__name__ == "Decimal" else v for v in values]  # type: ignore[arg-type]  # such a number
            assert differences([subject.ask(cursor, text, given)], [expected]) == []
            compared += 1
    assert compared >= 3
    assert shop.spent() == before


def test_it_reads_a_large_result(shop: Shop, subject: AdbcFlight | FlightSqlDbapi) -> None:
    assert subject.large(shop) == 300 * 289


def test_it_shows_an_error_and_its_place(shop: Shop) -> None:
    subject = AdbcFlight()
    if reason := subject.missing():
        pytest.skip(f"{subject.name}: {reason}")
    refusal = subject.refused(shop)
    assert "there is no column oops" in refusal.text
    assert (refusal.sqlstate, refusal.position) == ("42703", WRONG_AT)


def test_it_cancels(shop: Shop) -> None:
    subject = AdbcFlight()
    if reason := subject.missing():
        pytest.skip(f"{subject.name}: {reason}")
    before = len(shop.outcomes("bob", "57014"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is nothing to roll back
        cancelled = subject.cancelled(shop)
    assert re.search("cancel", cancelled.text, re.IGNORECASE)
    with shop.process.news:
        assert shop.process.news.wait_for(lambda: len(shop.outcomes("bob", "57014")) > before, timeout=60)
    assert same(cancelled.next, 2)


def test_it_browses_the_tables(shop: Shop, subject: AdbcFlight | FlightSqlDbapi) -> None:
    found = subject.browsed(shop)
    assert set(found) == {"patients", "visits", "diagnoses"}
    assert sorted(found["visits"]) == sorted(COLUMNS)


def test_nobody_pays_without_a_word(shop: Shop, subject: AdbcFlight | FlightSqlDbapi) -> None:
    before = shop.spent()
    with subject.cursor(shop, "bob") as (_, cursor):
        year = 1940 + SUBJECTS.index(subject)  # what one has paid for, the other has for nothing
        counted = f"COUNT(*) AS n FROM patients WHERE birth_year > {year}"
        with pytest.raises(Exception, match="nobody has agreed to it; nothing was charged"):
            subject.ask(cursor, f"SELECT {counted}")
        assert shop.spent() == before
        subject.ask(cursor, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) {counted}")
    assert shop.spent() != before


def test_no_token_and_no_ticket_is_logged(shop: Shop) -> None:
    client = fl.FlightClient(
        f"grpc+tls://localhost:{port(shop)}", tls_root_certs=shop.certificate.read_bytes()
    )
    header = client.authenticate_basic_token("alice", PASSWORD)
    options = fl.FlightCallOptions(headers=[header])
    agent = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {shop.token}".encode())])
    for each in (options, agent):
        assert len(list(client.list_actions(each))) >= 4
    said = "\n".join([*shop.process.said, *map(str, shop.process.log)])
    assert "'protocol': 'flight'" in said
    for secret in (header[1].decode().removeprefix("Bearer "), shop.token, PASSWORD):
        assert secret not in said


def test_the_rows_of_a_stored_answer_are_alike_over_both_clients(shop: Shop) -> None:
    text = next(text for text in STATEMENTS if "EXPLAIN" not in text.upper() and "PRIVACY" in text.upper())
    answers: list[Answered] = []
    for subject in SUBJECTS:
        if subject.missing():
            pytest.skip(f"{subject.name}: {subject.missing()}")
        with subject.cursor(shop) as (_, cursor):
            answers.append(subject.ask(cursor, text))
    assert differences(answers[:1], answers[1:]) == []
