"""The tools of programs over a real session: what they return, what they refuse, what they can spend."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.composition.prepared import question_key
from dpsql.errors import Error
from dpsql.kernel.loss import Charge
from dpsql.serve.json_facts import MOST_ROWS
from dpsql.serve.mcp.tools import Tools
from dpsql.serve.statement_service import (
    LIFETIME,
    Confirmations,
    LocalService,
    Priced,
    SpendingRule,
    in_thread,
)
from dpsql.session import Session
from dpsql.session_api import StatementResult

POLICY = """
[budget]
epsilon = 10
delta = 1e-5
max_epsilon_per_query = 3
ledger = "the-ledger.sqlite"
[analysts."*"]
epsilon = 10
delta = 1e-5
[analysts.someone-else]
epsilon = 1
[defaults]
rows_per_unit = 3
[tables.visits]
source = "the-file.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["home", "news", "shop"]
page.complete = true
year = { from = 2000, to = 2010, complete = true }
code = { table = "codes", column = "code", complete = true }
[tables.visits.bounds]
minutes = { from = 0, to = 60 }
[tables.codes]
source = "codes.parquet"
public = true
"""
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT user_id) AS n FROM visits"
FRESH = COUNT.replace("0.5", "0.5, fresh = TRUE")


def visits(users: int) -> pa.Table:
    ids = [user for user in range(users) for _ in range(2)]
    return pa.table(
        {
            "user_id": pa.array(ids, pa.int64()),
            "page": ["home", "news"] * users,
            "year": pa.array([2000 + user % 11 for user in ids], pa.int32()),
            "code": ["a"] * len(ids),
            "minutes": pa.array([5.0] * len(ids), pa.float64()),
        }
    )


@dataclass
class Given:
    """Programs of two analysts on one policy, and the clock of their confirmations."""

    folder: Path
    session: Session
    tools: Tools
    others: Tools
    clock: list[float]

    def __call__(self, tool: str, *args: Any, **named: Any) -> dict[str, Any]:
        found: dict[str, Any] = anyio.run(lambda: getattr(self.tools, tool)(*args, **named))
        json.dumps(found)  # it is all JSON
        return found

    @property
    def spent(self) -> Fraction:
        return self.session.ledger.budget(None).spent.epsilon


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Given]:
    pq.write_table(visits(100), tmp_path / "the-file.parquet")
    pq.write_table(pa.table({"code": ["a", "b"], "words": ["one", "two"]}), tmp_path / "codes.parquet")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    clock = [0.0]
    confirmations = Confirmations(b"secret", clock=lambda: clock[0])
    session = Session(tmp_path / "dpsql.toml", "agent7")
    other = Session(session.database, "agent8")
    rule = SpendingRule(confirmations)
    yield Given(
        tmp_path, session, Tools(LocalService(session), rule), Tools(LocalService(other), rule), clock
    )
    other.close()
    session.close()


def test_the_price_is_shown_then_confirmed_then_charged(given: Given) -> None:
    price = given("explain", COUNT)
    assert (price["epsilon"], price["delta"]) == (0.5, 0.0)
    assert given.spent == 0
    assert price["confirm_holds_seconds"] == LIFETIME
    assert price["expected_error"]["half_width"] > 0
    assert price["reading"]["selection"] == "count"
    assert "compiled_sql" not in json.dumps(price)
    answer = given("ask", COUNT, price["confirm"])
    assert given.spent == Fraction(1, 2)
    assert (answer["epsilon"], answer["release"], answer["left"]["epsilon"]) == (0.5, 1, 9.5)
    (row,) = answer["rows"]
    assert row["n_low"] < row["n"] < row["n_high"]
    again = given("ask", COUNT)
    assert (again["epsilon"], again["rows"]) == (0.0, answer["rows"])
    assert "confirm" not in given("explain", COUNT)
    assert given.spent == Fraction(1, 2)


def test_public_statements_and_lists_need_nothing(given: Given) -> None:
    assert given("ask", "SELECT * FROM codes ORDER BY code")["rows"][1] == {"code": "b", "words": "two"}
    assert "confirm" not in given("explain", "SELECT 1 AS one")
    assert given("explain", "SHOW TABLES")["reading"] == {"selection": "a command, which costs nothing"}
    assert given("ask", "SHOW TABLES")["rows"] == [
        {"table": "visits", "unit": "user_id", "protects": "a unit"},
        {"table": "codes", "unit": "public", "protects": None},
    ]
    assert given("budget") == {
        "total": {"epsilon": 10.0, "delta": 1e-05},
        "spent": {"epsilon": 0.0, "delta": 0.0},
        "left": {"epsilon": 10.0, "delta": 1e-05},
    }
    assert given("releases") == {"releases": []}


# -- attacks: each would spend without a confirmation for that statement at that price


def refused(given: Given, answer: dict[str, Any], why: str) -> None:
    assert re.search(why, answer["refused"])
    assert "explain" in answer["hint"]
    assert "rows" not in answer
    assert given.spent == 0


def test_nothing_is_charged_without_a_confirmation(given: Given) -> None:
    for confirm in (None, "", "yes", "1-1-" + "A" * 43):
        refused(given, given("ask", COUNT, confirm), "confirm")


def test_a_confirmation_is_not_replayed_for_another_statement(given: Given) -> None:
    confirm = given("explain", COUNT)["confirm"]
    for other in (
        COUNT + " WHERE page = 'home'",
        COUNT.replace("user_id", "page"),
        FRESH,
        COUNT.replace("AS n", "AS n, COUNT(*) AS m"),
    ):
        refused(
            given, given("ask", other, confirm), "not for this statement at its present price|refused|one"
        )


def test_a_confirmation_is_not_used_at_another_price(given: Given) -> None:
    confirm = given("explain", COUNT)["confirm"]
    for price in ("0.500000001", "0.4", "3"):
        refused(given, given("ask", COUNT.replace("0.5", price), confirm), "not for this statement")


def test_a_confirmation_is_not_another_analysts(given: Given) -> None:
    confirm = anyio.run(lambda: given.others.explain(COUNT))["confirm"]
    refused(given, given("ask", COUNT, confirm), "not for this statement")


def test_a_confirmation_expires(given: Given) -> None:
    confirm = given("explain", COUNT)["confirm"]
    given.clock[0] += LIFETIME
    refused(given, given("ask", COUNT, confirm), "has expired")


def test_a_statement_that_is_charged_each_time_is_confirmed_each_time(given: Given) -> None:
    confirm = given("explain", FRESH)["confirm"]
    assert given("ask", FRESH, confirm)["epsilon"] == 0.5
    answer = given("ask", FRESH, confirm)
    assert "was used" in answer["refused"]
    assert given.spent == Fraction(1, 2)


def test_a_confirmation_for_other_data_is_refused(given: Given) -> None:
    confirm = given("explain", COUNT)["confirm"]
    pq.write_table(visits(120), given.folder / "the-file.parquet")
    refused(given, given("ask", COUNT, confirm), "not for this statement")


def test_a_refinement_is_confirmed_for_itself(given: Given) -> None:
    given("ask", COUNT, given("explain", COUNT)["confirm"])
    fresh = given("explain", FRESH)["confirm"]
    refine = "REFINE RELEASE 1 TO 1"  # it costs what `fresh` costs, and asks the same count
    assert "not for this statement" in given("ask", refine, fresh)["refused"]
    assert given.spent == Fraction(1, 2)
    assert given("ask", refine, given("explain", refine)["confirm"])["epsilon"] == 0.5
    assert given.spent == 1


class Changing(LocalService):
    """A service for which something happens between the price and the answer."""

    def __init__(self, session: Session, between: Callable[[], None]) -> None:
        super().__init__(session)
        self.between = between

    async def run(self, priced: Priced, most: Charge) -> StatementResult:
        self.between()
        return await super().run(priced, most)


def test_a_price_that_rises_before_the_charge_is_not_charged(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    given("ask", COUNT, given("explain", COUNT)["confirm"])

    def forget() -> None:  # the release that answered it for nothing is not found any more
        monkeypatch.setattr(given.session.ledger, "find", lambda key, analyst: None)

    given.tools = Tools(Changing(given.session, forget), given.tools.rule)
    answer = given("ask", COUNT)
    assert "the statement costs epsilon 0.5 now, and 0 was agreed" in answer["refused"]
    assert given.spent == Fraction(1, 2)


def test_more_than_was_agreed_is_never_charged(given: Given) -> None:
    asked, _ = anyio.run(lambda: given.tools.question(COUNT))
    service = LocalService(given.session)
    for most in (Charge(), Charge(Fraction(49, 100)), Charge(Fraction(1, 2) - Fraction(1, 10**30))):
        with pytest.raises(Error, match="was agreed"):
            anyio.run(service.run, asked, most)
    assert given.spent == 0


def test_a_free_price_holds_for_one_statement(given: Given) -> None:
    rule = replace(given.tools.rule, free_below=Fraction(1, 10))
    given.tools = Tools(LocalService(given.session), rule)
    assert given("ask", COUNT.replace("0.5", "0.1"))["epsilon"] == 0.1
    assert "not confirmed" in given("ask", COUNT.replace("0.5", "0.11"))["refused"]
    assert given.spent == Fraction(1, 10)


def test_free_tools_cannot_be_made_to_charge(given: Given) -> None:
    rule = given.tools.rule
    service = LocalService(given.session)
    given.tools = Tools(service, rule)
    with pytest.raises(Error, match="was agreed"):
        anyio.run(lambda: service.free(COUNT))
    # What stands behind EXPLAIN is one statement.
    assert "one statement at a time" in given("explain", f"SELECT 1; {COUNT}")["refused"]
    assert given.spent == 0


# -- refusals


def test_refusals_are_results(given: Given) -> None:
    answer = given("ask", "SELECT user_id FROM visits")
    assert answer["line"] == 1
    assert "counted, never shown" in json.dumps(answer)
    assert given("explain", "SELCT 1")["would_be_accepted"] == "SELECT 1"
    assert "beyond" not in given("release", 99)["refused"]
    over = given("explain", COUNT.replace("0.5", "3.5"))
    assert "one statement" in given("ask", COUNT.replace("0.5", "3.5"), over.get("confirm"))["refused"]


def test_a_setting_is_refused(given: Given) -> None:
    answer = given("ask", "SET dp_epsilon = 3")
    assert "OPTIONS" in answer["hint"]
    assert given.session.defaults.epsilon is None


def test_of_an_unexpected_error_only_the_type_is_told(given: Given) -> None:
    def fail() -> None:
        raise KeyError("patient 4711")

    given.tools = Tools(Changing(given.session, fail), given.tools.rule)
    answer = given("ask", "SELECT 1 AS one")
    assert "KeyError" in answer["refused"]
    assert "4711" not in json.dumps(answer)


# -- what is told of the policy


def test_tables_are_described_with_their_public_values(given: Given) -> None:
    (private, public) = given("tables")["tables"]
    columns = {column["name"]: column for column in private["columns"]}
    assert private["unit"] == "user_id"
    assert columns["page"]["values"] == ["home", "news", "shop"]
    assert columns["year"]["values"] == {"from": 2000, "to": 2010}
    assert columns["code"]["values"] == {"from_table": "codes", "column": "code"}
    assert columns["minutes"]["values_are_cut_to"] == {"from": 0, "to": 60}
    assert "public" in public["unit"]


def test_the_policy_tells_nothing_of_the_owner(given: Given) -> None:
    told = given("policy")
    assert told["limits"] == {"max_epsilon_per_query": 3, "rows_per_unit": 3}
    for secret in ("the-file", "the-ledger", "someone-else", str(given.folder)):
        assert secret not in json.dumps(told)


def test_long_results_are_cut_and_read_on(given: Given) -> None:
    rows = given("ask", "SELECT i FROM range(2500) r(i)")
    assert (len(rows["rows"]), rows["rows_in_all"]) == (MOST_ROWS, 2500)


def test_the_exact_budget_is_beside_the_rounded_one(given: Given) -> None:
    given(
        "ask",
        COUNT.replace("0.5", "0.123456789"),
        given("explain", COUNT.replace("0.5", "0.123456789"))["confirm"],
    )
    assert anyio.run(LocalService(given.session).budget) == given.session.budget()


def test_what_a_program_gives_up_is_cancelled() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return cancelled.wait(10)

    async def give_up() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_thread, work, cancelled.set)
            assert await anyio.to_thread.run_sync(begun.wait, 10)
            tasks.cancel_scope.cancel()

    anyio.run(give_up)
    assert cancelled.is_set()


def test_keys_tell_statements_apart(given: Given) -> None:
    texts = [
        COUNT,
        FRESH,
        f"SELECT n + 1 AS m FROM ({COUNT})",
        f"SELECT n + 2 AS m FROM ({COUNT})",
        COUNT + " WHERE page = 'home'",
    ]
    keys = [question_key(given.session.prepare(text)) for text in texts]
    assert len({*keys}) == len(texts)
    assert question_key(given.session.prepare("SELECT 1")) == ""
    respelt = COUNT.replace("SELECT", "select").replace(" FROM", "\n  FROM")
    assert question_key(given.session.prepare(respelt)) == keys[0]
