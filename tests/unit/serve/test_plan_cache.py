"""Plans that are kept: of the same text, values, defaults and data, and of nothing that changes by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dpsql.composition.kept_plans import plan_key, scopes
from dpsql.composition.prepared import PreparedPrivate
from dpsql.language import Options
from dpsql.lazy_dataclass import replace
from dpsql.policy import load
from dpsql.serve.answers import DataCache, Planned
from dpsql.serve.client import Client
from dpsql.serve.service import Service
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
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
[views.latest]
sql = "SELECT * FROM visits WHERE page < 1"
[views.clock]
sql = "SELECT user_id, today() AS day FROM visits"
"""
OPTION = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
COUNT = f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits"


def write(folder: Path, units: int) -> None:
    """Write the tables anew, with times long ago: only then their content is known by their times."""
    rows = f"SELECT i AS user_id, i % 3 AS page FROM range({units}) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/visits.parquet'")
    (folder / "pages.csv").write_text("page\na\n")
    for file in folder.glob("*.*"):
        os.utime(file, (1e9 + units, 1e9 + units))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", -60.0)  # the change times are of now
    (tmp_path / "dpsql.toml").write_text(POLICY)
    write(tmp_path, 200)
    with serving(tmp_path / "dpsql.toml") as made:
        yield made


def plans(service: Service) -> int:
    return len(service.generation.plans)


def asked(client: Client, text: str, *values: object) -> pa.Table:
    return run(client.answer(text, values)).table


def test_a_statement_asked_again_is_not_prepared_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(service)
    first = asked(client, COUNT)
    monkeypatch.setattr("dpsql.composition.planner.choose", None)  # nothing can be prepared any more
    assert asked(client, COUNT).equals(first)
    assert service.figures().stored_hits == 1


def test_a_plan_is_the_analysts_neither_by_its_price_nor_by_its_rows(service: Service) -> None:
    for client in (client_of(service, ALICE), client_of(service, BOB)):
        asked(client, COUNT)
    assert plans(service) == 1
    ledger = service.generation.database.ledger
    assert {entry.analyst: int(entry.charged.charge.epsilon) for entry in ledger.entries()} == {
        "alice": 1,
        "bob": 1,
    }
    assert [len(ledger.releases(name)) for name in ("alice", "bob")] == [1, 1]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (COUNT + " WHERE page = $1", (1,)),
        (COUNT + " WHERE page = $1", (2,)),
        (COUNT + " WHERE page = $1", (1.0,)),
        (COUNT + " ", ()),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_another_text_or_value_has_another_plan(
    service: Service, text: str, values: tuple[object, ...]
) -> None:
    client = client_of(service)
    asked(client, COUNT + " WHERE page = $1", True + 0) if values != (1,) else None
    before = plans(service)
    asked(client, text, *values)
    assert plans(service) == before + 1


def test_values_of_other_types_have_other_keys() -> None:
    keys = {plan_key("q", (value,), Options()) for value in (1, 1.0, True, "1", None)}
    assert len(keys) == 5
    options = Options(epsilon=Fraction(1))
    assert plan_key("q", (), options) == plan_key("q", (), Options(epsilon=Fraction(1)))
    assert plan_key("q", (), options) != plan_key("q", (), replace(options, epsilon=None))
    assert plan_key("q", (), options) != plan_key("q", (), replace(options, delta=Fraction(1)))


def test_analysts_with_another_cap_have_other_plans(tmp_path: Path) -> None:
    """What a statement's epsilon buys depends on the scopes that are charged."""
    caps = '[analysts.bob]\nepsilon = 5\n[analysts."*"]\nepsilon = 5\ndelta = 1e-7\n'
    write(tmp_path, 10)
    path = tmp_path / "capped.toml"
    for accounting, different in (('delta = 1e-6\naccounting = "zcdp"', True), ("delta = 1e-6", False)):
        path.write_text(POLICY.replace("epsilon = 100\n", f"epsilon = 100\n{accounting}\n") + caps)
        policy = load(path)
        ann, bob, eve = (plan_key("q", (), Options(), scopes(policy, name)) for name in ("ann", "bob", "eve"))
        assert ann == eve
        assert (ann != bob) is different


def test_other_defaults_have_another_plan(service: Service) -> None:
    plain = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
    for epsilon in (Fraction(1), Fraction(2)):
        asked(client_of(service, dp_epsilon=epsilon), plain)
    assert plans(service) == 2
    assert service.budget("alice").spent.epsilon == 3


def test_new_data_has_new_plans(service: Service, tmp_path: Path) -> None:
    client = client_of(service)
    before = asked(client, COUNT).column("n")[0].as_py()
    write(tmp_path, 9000)
    after = asked(client, COUNT).column("n")[0].as_py()
    assert after > before + 8000  # false alarms: e^-800


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {OPTION} COUNT(*) AS n FROM clock",
        f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM visits WHERE today() > DATE '2020-01-01'",
        "SELECT page, now() AS t FROM pages",
        "SELECT page, CURRENT_DATE AS t FROM pages",
        "SHOW RELEASES",
        "EXPLAIN SELECT page FROM pages",
        "SELECT page, '" + 20_000 * "x" + "' AS t FROM pages",
    ],
)
@pytest.mark.sampled(3)
def test_what_changes_by_itself_or_is_long_is_not_kept(service: Service, text: str) -> None:
    asked(client_of(service, dp_epsilon=Fraction(1)), text)
    assert plans(service) == 0


def test_a_view_is_kept(service: Service) -> None:
    asked(client_of(service), f"SELECT {OPTION} COUNT(DISTINCT user_id) AS n FROM latest")
    assert plans(service) == 1


def test_a_file_that_was_just_written_may_change_again_unseen(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", 1e9)
    asked(client_of(service), COUNT)
    assert plans(service) == 0


def test_a_refinement_is_not_kept_since_it_holds_a_release(service: Service) -> None:
    client = client_of(service)
    asked(client, f"{COUNT} WHERE page = 1")
    before = plans(service)
    refined = run(client.answer("REFINE RELEASE 1 TO 2"))
    assert refined.release is not None
    assert plans(service) == before


def test_the_least_used_plans_are_forgotten(service: Service) -> None:
    cache = DataCache[Planned](2)
    client = client_of(service)
    prepared = run(client.price(COUNT)).statement
    assert isinstance(prepared, PreparedPrivate)
    engines = prepared.counting.engines
    names = [("a",), ("b",), ("c",)]
    for name in names[:2]:
        cache.put(name, engines, Planned(prepared), "alice")
    assert cache.get(("a",), engines) is not None
    cache.put(("c",), engines, Planned(prepared), "alice")
    assert [cache.get(name, engines) is not None for name in names] == [True, False, True]
    assert len(cache) == 2
