"""No charge without a word: what tools ask by themselves costs nothing, and what costs was agreed to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.composition.planner import Planner
from dpsql.errors import BudgetExceeded, PriceNotAgreed, QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.serve.answers import Answer, Notice
from dpsql.serve.client import Client
from dpsql.serve.service import Service
from dpsql.serve.users import User
from tests.served import ALICE, client_of, clinic, run, serving

EMPTY = User("empty", "empty", preview="empty")
AUTO = User("auto", "auto", auto_charge=True)
COUNT = "SELECT COUNT(*) AS n FROM patients"
AGREED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) COUNT(*) AS n FROM patients"

TOOLS = [
    'SELECT "visits"."clinic" AS "clinic" FROM "public"."visits" "visits" LIMIT 0',
    'SELECT * FROM "public"."visits" WHERE 1=0',
    'SELECT * FROM (SELECT * FROM "public"."visits") "Custom SQL Query" WHERE 0 = 1',
    'CREATE LOCAL TEMPORARY TABLE "#Tableau_1_Connect_Chec" ("COL" INTEGER) ON COMMIT PRESERVE ROWS',
    'DROP TABLE IF EXISTS "#Tableau_1_Connect_Chec"',
    'SELECT "COL" FROM (SELECT 1 AS "COL") AS "SUBQUERY"',
    'SELECT MAX(1) AS "TblMax" FROM (SELECT * FROM "public"."visits" "visits") "visits"',
    'SELECT * FROM "public"."visits" LIMIT 1',
    'SELECT "visits"."clinic" AS "COL" FROM "public"."visits" "visits" GROUP BY 1',
    'SELECT SUM(1) AS "COL" FROM "public"."visits" "visits" HAVING COUNT(1)>0',
    'SELECT SUM(1) AS "COL", 2 AS "COL2" FROM "public"."visits" "visits" GROUP BY 2 HAVING COUNT(1)>0',
    'SELECT SUM(1) AS "cnt_visits_9E6E_ok" FROM "public"."visits" "visits" HAVING (COUNT(1) > 0)',
    'SELECT "visits"."clinic" AS "clinic" FROM "public"."visits" "visits" GROUP BY 1 ORDER BY "clinic" ASC',
    'SELECT "visits"."clinic" AS "clinic", "visits"."visit_date" AS "d" FROM "public"."visits" LIMIT 9',
    "SELECT COUNT(*) FROM patients",
    "SELECT COUNT(*) AS cnt FROM patients",
    "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 2 DESC LIMIT 1000",
    "SELECT clinic AS clinic FROM visits GROUP BY clinic LIMIT 1000",
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(clinic(tmp_path_factory.mktemp("clinic")), ALICE, EMPTY, AUTO) as made:
        yield made


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(clinic(tmp_path_factory.mktemp("clinic")), ALICE, AUTO) as made:
        yield made


def ledger(service: Service) -> Any:
    return service.generation.database.ledger


def entries(service: Service) -> int:
    return len(ledger(service).entries())


def answered(client: Client, text: str, *values: object) -> Answer:
    return run(client.answer(text, values))


def refused(client: Client, text: str) -> PriceNotAgreed:
    with pytest.raises(PriceNotAgreed) as caught:
        answered(client, text)
    return caught.value


@pytest.mark.parametrize("user", [ALICE, EMPTY])
def test_what_tools_send_by_themselves_costs_nothing(service: Service, user: User) -> None:
    before, client = entries(service), client_of(service, user)
    for text in TOOLS:
        for ask in (client.describe, client.answer):
            with suppress(QueryRefused):  # also `PriceNotAgreed`: every other error would fail here
                run(ask(text))
    assert entries(service) == before
    assert ledger(service).count_failures(user.analyst) == 0


def test_a_price_is_told_with_the_words_to_agree_to_it(fresh: Service) -> None:
    client = client_of(fresh)
    error = refused(client, COUNT)
    assert error.sqlstate == "ZP001"
    assert error.message.startswith("this costs epsilon 0.25, and nobody has agreed to it")
    assert "OPTIONS (epsilon = 0.25)" in str(error.hint)
    assert "SET dp_epsilon = 0.25" in str(error.hint)
    assert error.rewrite == AGREED
    assert entries(fresh) == 0
    answer = answered(client, str(error.rewrite))
    assert answer.release is not None
    assert answer.release.charge == Charge(Fraction(1, 4))
    # The release is the analyst's now, so that the first statement is free.
    assert answered(client, COUNT).table.equals(answer.table)
    assert answered(client, "SELECT COUNT(*) AS people FROM patients").table.column_names == ["people"]
    assert entries(fresh) == 1


def test_the_delta_is_told_too(service: Service) -> None:
    asked = "SELECT note, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY 1"
    asked = asked.replace(
        "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 4)", 1
    )
    error = refused(client_of(service), asked)
    assert "epsilon 0.25 and delta 1e-07" in error.message


@pytest.mark.parametrize(
    "text",
    [
        AGREED,
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) COUNT(*) AS n FROM patients",
        "SELECT 2 * n AS m FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n "
        "FROM patients) AS q",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) a.n / b.n AS r FROM (SELECT COUNT(*) AS n "
        "FROM patients) a, (SELECT COUNT(DISTINCT patient_id) AS n FROM visits) b",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE, epsilon = 0.1) COUNT(*) AS n FROM patients",
    ],
)
@pytest.mark.sampled(3)
def test_a_text_that_names_its_price_is_charged(fresh: Service, text: str) -> None:
    assert answered(client_of(fresh), text).release is not None
    assert entries(fresh) > 0


@pytest.mark.parametrize(
    "text",
    [
        COUNT,
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-9) COUNT(*) AS n FROM patients",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE) COUNT(*) AS n FROM patients",
        "SELECT a.n / b.n AS r FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n "
        "FROM patients) a, (SELECT COUNT(DISTINCT patient_id) AS n FROM visits) b",
        "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic TOP 3",
    ],
)
@pytest.mark.sampled(3)
def test_a_text_that_leaves_a_price_open_is_not_charged(fresh: Service, text: str) -> None:
    client = client_of(fresh)
    for _ in range(2):  # from the plan, the second time
        refused(client, text)
    assert entries(fresh) == 0


def test_a_connection_agrees_by_its_setting_and_an_account_by_the_owner(fresh: Service) -> None:
    tenth = client_of(fresh, dp_epsilon=Fraction(1, 10))
    auto = client_of(fresh, AUTO)
    charges = [answered(one, COUNT).release for one in (tenth, auto)]
    assert [release and release.charge.epsilon for release in charges] == [Fraction(1, 10), Fraction(1, 4)]


def test_a_connection_agrees_to_what_its_error_costs(fresh: Service) -> None:
    """Its text names no price: from the plan that was kept, the second time, it does not either."""
    client = client_of(fresh, dp_error=Fraction(50))
    release = answered(client, COUNT).release
    assert release is not None
    assert release.charge == Charge(Fraction("0.06"))
    other = "SELECT COUNT(*) AS n FROM visits"
    assert answered(client_of(fresh, dp_error=Fraction(5000)), other).release is not None
    for _ in range(2):
        refused(client_of(fresh), other.replace("n FROM", "m FROM") + " WHERE minutes > 5")


def test_the_largest_price_that_was_agreed_holds(fresh: Service) -> None:
    with pytest.raises(PriceNotAgreed, match=r"0\.25 now, and 0\.2 was agreed"):
        answered(client_of(fresh, dp_most=Charge(Fraction(1, 5))), COUNT)
    assert entries(fresh) == 0
    assert answered(client_of(fresh, dp_most=Charge(Fraction(1, 4))), COUNT).release is not None
    client = client_of(fresh)
    prepared = run(client.price(AGREED.replace("0.25", "0.5")))
    assert prepared.price == Charge(Fraction(1, 2))
    with pytest.raises(PriceNotAgreed):
        run(client.run(prepared, most=Charge(Fraction(1, 4))))
    assert run(client.run(prepared, most=prepared.price)).release is not None
    assert run(client.price(AGREED.replace("0.25", "0.5"))).price == Charge()


def test_a_refinement_names_its_price(fresh: Service) -> None:
    client = client_of(fresh)
    answered(client, AGREED)
    refined = answered(client, "REFINE RELEASE 1 TO 0.5").release
    assert refined is not None
    assert ledger(fresh).budget("alice").spent.epsilon == Fraction(1, 2)


def test_what_the_budget_does_not_pay_for_is_refused(fresh: Service) -> None:
    client = client_of(fresh)
    with pytest.raises(BudgetExceeded) as caught:
        answered(client, AGREED.replace("0.25", "3"))
    assert caught.value.sqlstate == "ZP002"
    assert entries(fresh) == 0


def test_set_is_the_protocols(service: Service) -> None:
    with pytest.raises(QueryRefused, match="setting of the connection"):
        answered(client_of(service), "SET dp_epsilon = 1")


# -- probes


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM visits LIMIT 0",
        "SELECT * FROM visits WHERE FALSE",
        "SELECT * FROM visits WHERE minutes > 5 AND (1 > 1)",
        "SELECT patient_id, cost FROM visits WHERE 1 <> 1 ORDER BY cost LIMIT 10",
        "SELECT * FROM (SELECT * FROM visits LIMIT 0) AS q ORDER BY 1",
        "SELECT * FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS q WHERE 0 = 1",
        "SELECT region, COUNT(*) FROM patients GROUP BY region HAVING 1 = 2",
        "SELECT region, COUNT(*) FROM patients WHERE 1 = 0 GROUP BY region",
        "SELECT patient_id FROM visits WHERE 1 = 0 UNION ALL SELECT patient_id FROM patients LIMIT 0",
        "SELECT COUNT(*) AS n FROM patients LIMIT 0",
    ],
)
def test_a_statement_without_rows_shows_its_columns(service: Service, text: str) -> None:
    before = entries(service)
    answer = answered(client_of(service), text)
    assert answer.table.num_rows == 0
    assert answer.columns
    assert answer.release is None
    assert entries(service) == before


def test_the_columns_of_no_rows_are_those_that_the_release_would_have(service: Service) -> None:
    client = client_of(service)
    with_rows = run(
        client.describe("SELECT region, COUNT(*) AS n, n / 2 AS half FROM patients GROUP BY region")
    )
    none = answered(
        client, "SELECT region, COUNT(*) AS n, n / 2 AS half FROM patients GROUP BY region LIMIT 0"
    )
    assert none.columns == with_rows.columns


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM patients WHERE 1 = 0",
        "SELECT SUM(cost) AS n FROM visits WHERE FALSE",
        "SELECT COUNT(*) AS n FROM patients WHERE 1 = 0 GROUP BY ROLLUP (region)",
        "SELECT COUNT(*) AS n FROM (SELECT * FROM patients LIMIT 0) AS q",
        "SELECT * FROM patients WHERE 1 = 1",
        "SELECT * FROM patients WHERE '1' = '0'",
        "SELECT * FROM patients LEFT JOIN (SELECT * FROM visits LIMIT 0) AS v USING (patient_id)",
    ],
)
def test_a_statement_that_may_have_rows_is_no_such_probe(service: Service, text: str) -> None:
    before = entries(service)
    with pytest.raises(QueryRefused):
        answered(client_of(service), text)
    assert entries(service) == before


CLINICS = 20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT clinic FROM visits GROUP BY clinic", CLINICS),
        ("SELECT DISTINCT v.clinic FROM public.visits AS v ORDER BY v.clinic", CLINICS),
        ("SELECT visits.clinic AS place FROM visits GROUP BY 1 ORDER BY place DESC LIMIT 3", 3),
        ("SELECT clinic FROM visits LIMIT 1000", CLINICS),
        ("SELECT clinic FROM visits WHERE clinic ILIKE '%road%' GROUP BY clinic", 1),
        ("SELECT visit_date FROM visits GROUP BY visit_date ORDER BY 1 LIMIT 5 OFFSET 10", 5),
        ("SELECT diagnosis_code FROM visits GROUP BY 1 LIMIT $1", 4),
    ],
)
def test_the_declared_values_of_a_key_are_free(service: Service, text: str, rows: int) -> None:
    before = entries(service)
    answer = answered(client_of(service), text, *([4] if "$1" in text else []))
    assert answer.table.num_rows == rows
    assert answer.notices == (Notice("NOTICE", "declared values, whether or not they occur"),)
    assert answer.release is None
    assert entries(service) == before


def test_declared_values_come_in_the_order_that_is_asked_for(service: Service) -> None:
    down = answered(client_of(service), "SELECT clinic AS c FROM visits GROUP BY c ORDER BY c DESC")
    listed = down.table.column("c").to_pylist()
    assert listed == sorted(listed, reverse=True)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT note FROM visits GROUP BY note",  # no declared values
        "SELECT DISTINCT clinic FROM visits LIMIT (SELECT COUNT(*) FROM visits)",
        "SELECT DISTINCT clinic FROM visits LIMIT 3 OFFSET (SELECT COUNT(*) FROM patients)",
        "SELECT clinic, visit_date FROM visits GROUP BY clinic, visit_date",
        "SELECT clinic FROM visits WHERE minutes > 5 GROUP BY clinic",
        "SELECT clinic FROM visits GROUP BY clinic HAVING COUNT(*) > 5",
        "SELECT clinic FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 3",
        "SELECT clinic FROM visits JOIN patients USING (patient_id) GROUP BY clinic",
        "SELECT lower(clinic) FROM visits GROUP BY 1",
        "SELECT clinic FROM visits WHERE clinic IN (SELECT clinic FROM visits) GROUP BY clinic",
        "SELECT clinic FROM visits LIMIT (SELECT COUNT(*) FROM patients)",
        "SELECT clinic FROM visits OFFSET (SELECT COUNT(*) FROM patients)",
    ],
)
def test_any_other_question_about_a_key_is_no_probe(service: Service, text: str) -> None:
    before = entries(service)
    with pytest.raises(QueryRefused):
        answered(client_of(service), text)
    assert entries(service) == before


def test_rows_are_refused_or_none_are_shown(service: Service) -> None:
    for text in ("SELECT * FROM visits LIMIT 100", "SELECT v.clinic, v.cost FROM visits AS v"):
        with pytest.raises(QueryRefused, match="never shown") as caught:
            answered(client_of(service), text)
        assert not isinstance(caught.value, PriceNotAgreed)
        shown = answered(client_of(service, EMPTY), text)
        assert shown.table.num_rows == 0
        assert [notice.severity for notice in shown.notices] == ["WARNING"]
        assert run(client_of(service, EMPTY).describe(text)).columns == shown.columns


def test_a_statement_that_was_free_when_it_was_priced_is_not_charged_without_a_word(
    fresh: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "SELECT a.n / b.n AS r FROM (SELECT COUNT(*) AS n FROM patients) a, "
        "(SELECT COUNT(DISTINCT patient_id) AS n FROM visits) b"
    )
    # As if all of it were stored now, and the data changed before it runs.
    monkeypatch.setattr(Planner, "priced", lambda _, prepared: SimpleNamespace(price=Charge()))
    assert "agreed" in str(refused(client_of(fresh), text))
    assert entries(fresh) == 0
    answered(client_of(fresh, AUTO), text)  # who agreed beforehand is charged
    assert entries(fresh) == 2


@pytest.mark.parametrize(
    "text", ["SELECT clinic FROM visits WHERE 1=1" + " AND 1=1" * 3_000, "SELECT 1" + "::INTEGER" * 3_000]
)
def test_a_statement_nested_too_deeply_is_refused(service: Service, text: str) -> None:
    with pytest.raises(QueryRefused):
        answered(client_of(service), text)
