"""Domains of which only groups with rows are counted: the same answers as over all, and up to 10^12."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.analysis import DomainPart, SparseDomain
from dpsql.engines import KeptCounts
from dpsql.errors import PolicyError, QueryRefused
from dpsql.kernel import mechanisms
from dpsql.kernel.changes import UnitChanges
from dpsql.kernel.counts import Counts
from dpsql.owner.verifying import verify
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import BIGINT
from tests.narrow import engine_of, present, private
from tests.support.exact import exact_of, made_up, with_exact
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1e12
delta = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
not_null = ["item", "at", "code"]
[tables.visits.domain]
page = {{ table = "pages", column = "page" }}
site = ["b", "a", "c", "d"]
item = {{ from = -3, to = 20 }}
at = {{ from = 2024-01-01, to = 2024-01-02 }}
code = {{ from = {first}, to = {last} }}
[tables.pages]
source = "pages.parquet"
public = true
"""
EXACT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, fresh = true)"
"""Noise of at most a thousandth of a count, so that answers are those without noise."""
N = "COUNT(DISTINCT user_id) AS n"


def opened(folder: Path, *, first: int = 0, last: int = 10**12 - 1) -> Session:
    rows: dict[str, list[Any]] = {name: [] for name in ("user_id", "page", "site", "item", "at", "code")}
    for i in range(60):
        # Group i // 10 has so many units that no two groups are equal, and the last ones lie outside.
        for user in range(i // 10 * 7 + 3):
            cells = user, "pqrstz"[i // 10], "abcdax"[i // 10], i // 10 * 5 - 4, i // 10 * 9 * 3_600_000_000
            moment = 1_704_067_200_000_000 + cells[4]
            for name, cell in zip(rows, (*cells[:4], moment, i // 10 * 10**11 + 5), strict=True):
                rows[name].append(cell)
    rows["page"][3] = rows["site"][4] = None
    folder.mkdir(exist_ok=True)
    schema = pa.table({**rows, "at": pa.array(rows["at"], pa.timestamp("us"))})
    write_world(folder, POLICY.format(first=first, last=last), visits=schema, pages={"page": list("pqrstuv")})
    return Session(load(folder / "dpsql.toml"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = opened(tmp_path_factory.mktemp("sparse"))
    yield made
    made.close()


def answered(session: Session, text: str) -> pa.Table:
    return session.run(f"{EXACT} {text}").table


def rounded(table: pa.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    return [{k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


SELECTIONS = [
    f"page, site, item, {N} FROM visits GROUP BY ALL ORDER BY n DESC LIMIT 3",
    f"page, {N} FROM visits WHERE item > 0 GROUP BY page ORDER BY n DESC LIMIT 1",
    f"{N}, site, page FROM visits GROUP BY ALL HAVING n >= 8 ORDER BY n DESC LIMIT 9",
    f"item, page, {N} FROM visits GROUP BY ALL HAVING n >= 30 LIMIT 9",
    f"site, item, page, {N} FROM visits GROUP BY ALL HAVING n >= 8 ORDER BY page DESC, item LIMIT 4",
    f"item, page, {N} FROM visits GROUP BY ALL HAVING n >= 8 ORDER BY 1 LIMIT 3",
    f"site, page, {N} FROM visits GROUP BY ALL HAVING n >= 8 ORDER BY site LIMIT 3",
    f"date_trunc('hour', at) AS h, page, {N}, DP_GAP() AS g FROM visits "
    "GROUP BY h, page ORDER BY n DESC LIMIT 3",
    f"page || '!' AS loud, site, {N} FROM visits GROUP BY ALL ORDER BY n DESC LIMIT 3",
    f"item, item // 2 AS half, upper(site) AS s, {N} FROM visits GROUP BY ALL ORDER BY n DESC LIMIT 4",
    f"page, site, {N}, COUNT_IF(item > 10) AS c, SUM(item) AS x FROM visits "
    "GROUP BY ALL ORDER BY n DESC LIMIT 2",
    f"page, site, DP_RANK() AS r, {N} FROM visits GROUP BY page, site ORDER BY COUNT(*) DESC LIMIT 2",
]


def bounded(text: str) -> str:
    """Return the text with bounds on what one unit contributes."""
    text = text.replace("SUM(item)", "SUM(item, contribution_bounds_per_group => (0, 20))")
    return text.replace("COUNT(*)", "COUNT(*, contribution_bounds_per_group => (0, 10))")


@pytest.mark.parametrize("text", SELECTIONS)
@pytest.mark.sampled(3)
def test_the_answer_is_that_over_all_groups(
    text: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{EXACT} {bounded(text)}"
    dense, engine = rounded(session.run(text).table), engine_of(session)
    assert dense
    every = by_key(engine.count(private(session.prepare(text)).plan.compiled))
    monkeypatch.setattr("dpsql.analysis.group_rules.MAX_DOMAIN", 3)
    session.database.plans.clear()
    compiled = private(session.prepare(text)).plan.compiled
    domain = present(compiled.sparse)
    listed = exact_of(
        present(engine.count(compiled).place_in_domain(domain, engine.schema_database.candidates))
    )
    assert 0 < len(present(listed.positions)) < domain.size
    positions = np.arange(domain.size)
    keys = zip(*(column.to_pylist() for column in listed.keys_at(positions)), strict=True)
    numbers = [listed.at(place, positions).tolist() for place in range(len(listed.n))]
    assert dict(zip(keys, zip(*numbers, strict=True), strict=True)) == every
    assert rounded(session.run(text).table) == dense


def by_key(counts: Counts) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Return the counts of each group by its keys."""
    keys = zip(*(column.to_pylist() for column in exact_of(counts).keys.columns), strict=True)
    found = dict(zip(keys, zip(*(n.tolist() for n in exact_of(counts).n), strict=True), strict=True))
    assert len(found) == len(exact_of(counts).n[0])
    return found


@pytest.mark.parametrize("numbers", [[3, 3], [-1, 2], [2, 7]])
def test_counts_that_contradict_the_domain_are_no_counts(numbers: list[int], session: Session) -> None:
    part = DomainPart((0,), (BIGINT,), 7, 0, None)
    places = {"o0": np.array(numbers)}
    keys = pa.table({"x": [0, 0]}).select([])
    found = with_exact(made_up(keys, (np.array([1, 2]),), UnitChanges((None,))), places=places)
    assert found.place_in_domain(SparseDomain((part,)), engine_of(session).schema_database.candidates) is None


def test_kept_counts_are_those_of_the_domain(session: Session) -> None:
    near = "code < 200000000000"
    text = f"{EXACT} code, site, {N} FROM visits WHERE {near} GROUP BY ALL ORDER BY n DESC LIMIT 3"
    compiled = private(session.prepare(text)).plan.compiled
    engine, kept, domain = engine_of(session), KeptCounts(10**6), present(compiled.sparse)
    counts = engine.count(compiled)
    kept.keep(compiled, counts)
    again = present(kept.find(compiled))
    values = engine.schema_database.candidates
    first, second = (exact_of(present(each.place_in_domain(domain, values))) for each in (counts, again))
    assert present(first.positions).tolist() == present(second.positions).tolist() != []
    assert first.n[0].tolist() == second.n[0].tolist()


def test_a_mechanism_for_all_groups_refuses_the_listed_ones(session: Session) -> None:
    text = f"{EXACT} code, {N} FROM visits GROUP BY code ORDER BY n DESC LIMIT 3"
    prepared = private(session.prepare(text))
    counts = engine_of(session).count(prepared.plan.compiled)
    noisy = mechanisms.NoisyTopK.plan(prepared.plan.groups, 3, 1)
    with pytest.raises(ValueError, match="planned for 1000000000000 counts"):
        noisy.run(exact_of(counts).n[0])


def test_the_groups_below_all_others_are_empty(session: Session) -> None:
    found = answered(
        session, f"code, site, {N} FROM visits WHERE code < 200000000000 GROUP BY ALL ORDER BY n LIMIT 50"
    ).to_pylist()
    assert len({(row["code"], row["site"]) for row in found}) == 50
    assert {round(row["n"]) for row in found} == {0}
    assert {row["site"] for row in found} == {"a", "b", "c", "d", None}
    assert max(row["code"] for row in found) > 10**10


def explained(session: Session, text: str) -> dict[str, str]:
    found = session.run(f"EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {text}").table
    return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_a_domain_of_a_million_million_groups(session: Session) -> None:
    top = f"code, {N} FROM visits GROUP BY code ORDER BY n DESC LIMIT 3"
    found = answered(session, top).to_pylist()
    assert [row["code"] for row in found] == [500_000_000_005, 400_000_000_005, 300_000_000_005]
    assert [round(row["n"]) for row in found] == [38, 31, 24]
    facts = explained(session, top)
    assert facts["domain_size"] == "1000000000000"
    assert facts["considered 1"].startswith("NOISY_TOP_K + BOX (chosen)")
    assert "considered 2" not in facts
    # The noise of 10^12 empty groups is larger than every count here.
    weak = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) {top}").table
    assert not {row["code"] for row in weak.to_pylist()} & {row["code"] for row in found}
    narrow = top.replace("GROUP BY", "WHERE code BETWEEN 100000000000 AND 400000000004 GROUP BY")
    assert [row["code"] // 10**11 for row in answered(session, narrow).to_pylist()] == [3, 2, 1]
    assert explained(session, narrow)["domain_size"] == "300000000005"
    few = top.replace("GROUP BY", "WHERE code > 400000000000 AND code < 400000000010 GROUP BY")
    assert explained(session, few)["domain_size"] == "9"
    assert answered(session, few).to_pylist()[0]["code"] == 400_000_000_005


REFUSED = [
    (f"code, {N} FROM visits GROUP BY code", "more than 10,000,000 groups", "ORDER BY n DESC LIMIT 10"),
    (f"code, {N} FROM visits GROUP BY code HAVING n > 5", "more than 10,000,000 groups", "LIMIT 10"),
    (f"code, item, {N} FROM visits GROUP BY ALL ORDER BY n DESC LIMIT 1", "more than 1,000,000,000,000", ""),
    (
        f"code // 2 AS h, {N} FROM visits GROUP BY h HAVING n > 5 LIMIT 3",
        "a declared range of integers",
        "code",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED)
def test_what_needs_all_groups_is_refused(text: str, message: str, hint: str, session: Session) -> None:
    with pytest.raises(QueryRefused, match=message) as refused:
        answered(session, text)
    assert hint in str(refused.value.hint)


def test_a_scan_takes_the_order_of_the_statement(session: Session) -> None:
    text = f"code, {N} FROM visits GROUP BY code HAVING n >= 8 ORDER BY code DESC LIMIT 3"
    found = answered(session, text).to_pylist()
    assert [row["code"] // 10**11 for row in found] == [5, 4, 3]
    assert [round(row["n"]) for row in found] == [38, 31, 24]
    assert explained(session, text)["considered 1"].startswith("ADAPTIVE_SPARSE_VECTOR")
    first = text.replace("ORDER BY code DESC ", "").replace("LIMIT 3", "LIMIT 2")
    assert explained(session, first)["considered 1"].startswith("HYBRID_TOP_K")
    scanned = session.run(first.join([EXACT.replace("fresh", "mechanism = SPARSE_VECTOR, fresh") + " ", ""]))
    assert [row["code"] // 10**11 for row in scanned.table.to_pylist()] == [2, 1]
    near = "code BETWEEN 80000000001 AND 120000000000"
    several = f"item, item // 2 AS half, code, {N} FROM visits WHERE {near} GROUP BY ALL "
    with pytest.raises(QueryRefused, match="no order by a key whose values depend") as refused:
        answered(session, several + "HAVING n >= 8 ORDER BY half LIMIT 3")
    assert refused.value.hint is not None
    assert refused.value.hint.endswith("-- asks something else: it without `ORDER BY half`")
    assert len(answered(session, several + "HAVING n >= 8 LIMIT 3")) == 1


def test_mechanisms_that_measure_all_groups_are_refused(session: Session) -> None:
    text = f"code, {N} FROM visits GROUP BY code ORDER BY n DESC LIMIT 3"
    for name in ("BOX", "LAPLACE", "JOINT"):
        with pytest.raises(QueryRefused, match="over a domain of 1,000,000,000,000 groups"):
            session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, mechanism = {name}) {text}")
    with pytest.raises(QueryRefused, match="noise that is finer than its grid"):
        session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100, noise = GEOMETRIC) {text}")


def test_a_long_range_is_no_list(session: Session, tmp_path: Path) -> None:
    with pytest.raises(QueryRefused, match="a range of integers that is too long for a list"):
        session.run("SELECT * FROM DP_DOMAIN(visits.code) LIMIT 3")
    assert {finding.level for finding in verify(session.policy).findings if "code" in finding.place} == {"ok"}
    with pytest.raises(PolicyError, match="at most 1000000000000 values"):
        opened(tmp_path / "longer", last=10**12)
    text = (tmp_path / "longer" / "dpsql.toml").read_text("utf-8").replace(str(10**12), str(10**9))
    kinds = 'user_id = "BIGINT", page = "VARCHAR", site = "VARCHAR", item = "BIGINT", at = "TIMESTAMP"'
    columns = f'columns = {{ {kinds}, code = "UBIGINT" }}'
    text = text.replace('unit = "user_id"', f'unit = "user_id"\n{columns}', 1)
    (tmp_path / "longer" / "dpsql.toml").write_text(text, "utf-8")
    with pytest.raises(PolicyError, match="a domain of a UBIGINT has at most 10,000,000 values"):
        Session(load(tmp_path / "longer" / "dpsql.toml"))
