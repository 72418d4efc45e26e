"""Rows in no group are one more number of the same release, shown in the line below an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.errors import OperationalError, PolicyError
from dpsql.owner.verifying import verify
from dpsql.policy import RangeDomain, TableDomain, ValuesDomain, load
from dpsql.release import Release, from_arrow, to_arrow
from dpsql.release.release import from_bytes, to_bytes, write_cell
from dpsql.render.data import add_metadata
from dpsql.render.readable import SLOTS, Outside, line, sentences, slot
from dpsql.session import Session
from tests.narrow import engine_of, present, private
from tests.support.exact import exact_of
from tests.support.world import open_world, write_world

POLICY = """
[budget]
epsilon = 1e9
delta = 0.1
default_epsilon = 1e5
default_delta = 1e-6
ledger = "ledger.sqlite"
[defaults]
groups = 1
[tables.t]
source = "t.parquet"
unit = "u"
unit_kind = "person"
[tables.t.domain]
{domain}
[tables.p]
source = "p.parquet"
public = true
"""
DOMAIN = """
k = ["a", "b"]
n = { from = 0, to = 3 }
sure = { values = ["s", "t"], complete = true }
"""
ROWS = """
SELECT i AS u, ['a', 'b', 'c', NULL][1 + i % 4] AS k, i % 6 AS n, ['s', 't'][1 + i % 2] AS sure,
  i % 3 AS w, 2 AS x
FROM range(240) r(i)
"""
PUBLIC = "SELECT unnest(['s', 't']) AS sure"


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Session]:
    def make(domain: str = DOMAIN, rows: str = ROWS) -> Session:
        return Session(load(write_world(tmp_path, POLICY.format(domain=domain), t=rows, p=PUBLIC)))

    return make


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that the tests share."""
    text = POLICY.format(domain=DOMAIN) + "[engine]\nkeep = 0  # each count is the engine's\n"
    with open_world(tmp_path_factory.mktemp("outside"), text, t=ROWS, p=PUBLIC) as made:
        yield made


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on units with many groups each, that the tests share."""
    text = POLICY.format(domain=DOMAIN)
    with open_world(tmp_path_factory.mktemp("many"), text, t=MANY, p=PUBLIC) as made:
        yield made


def released(session: Session, rest: str) -> Release:
    return present(session.run(f"SELECT {rest}").release)


def outside(session: Session, rest: str) -> tuple[int, str] | None:
    found = released(session, rest).outside
    return None if found is None else (round(found.value), found.what)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("k, COUNT(DISTINCT u) AS c FROM t GROUP BY k", (60, "persons")),
        ("k, COUNT(*, contribution_bounds_per_group => (0, 1)) AS c FROM t GROUP BY k", (60, "rows")),
        ("n, COUNT(DISTINCT u) AS c FROM t WHERE n >= 2 GROUP BY n", (80, "persons")),
        ("n, COUNT(DISTINCT u) AS c FROM t WHERE n BETWEEN 2 AND 4 GROUP BY n", (40, "persons")),
        ("k, SUM(x, contribution_bounds_per_group => (0, 9)) AS s FROM t GROUP BY k", (120, "of s")),
        ("k, COUNT_IF(n > 2, contribution_bounds_per_group => (0, 1)) AS c FROM t GROUP BY k", (20, "of c")),
        ("k, n, COUNT(DISTINCT u) AS c FROM t GROUP BY k, n", (120, "persons")),
        ("n, COUNT(DISTINCT u) AS c FROM t WHERE n < 5 GROUP BY n", (40, "persons")),
        ("upper(k) AS g, COUNT(DISTINCT u) AS c FROM t GROUP BY g", (60, "persons")),
        # What WHERE lists, or the owner declares, or the type, has no other values.
        ("k, COUNT(DISTINCT u) AS c FROM t WHERE k IN ('a', 'c') GROUP BY k", None),
        ("n, COUNT(DISTINCT u) AS c FROM t WHERE n BETWEEN 1 AND 2 GROUP BY n", None),
        ("sure, COUNT(DISTINCT u) AS c FROM t GROUP BY sure", None),
        ("n > 2 AS g, COUNT(DISTINCT u) AS c FROM t GROUP BY g", None),
        ("CASE WHEN w > 1 THEN 'x' END AS g, COUNT(DISTINCT u) AS c FROM t GROUP BY g", None),
        ("p.sure, COUNT(DISTINCT u) AS c FROM t JOIN p ON t.sure = p.sure GROUP BY p.sure", None),
        ("COUNT(DISTINCT u) AS c FROM t", None),
        # Selections show some of the groups, and say nothing of the others.
        ("k, COUNT(DISTINCT u) AS c FROM t GROUP BY k ORDER BY c DESC LIMIT 1", None),
        ("k, COUNT(DISTINCT u) AS c FROM t GROUP BY k HAVING c > 5", None),
    ],
)
@pytest.mark.sampled(3)
def test_rows_in_no_group_are_one_number(
    session: Session, rest: str, expected: tuple[int, str] | None
) -> None:
    assert outside(session, rest) == expected


def test_it_has_noise_of_its_own_as_one_more_group(session: Session) -> None:
    for rest, groups in (("k", 4), ("sure", 2), ("k, sure", 7)):
        statement = f"SELECT {rest}, COUNT(DISTINCT u) AS c FROM t GROUP BY {rest}"
        plan = private(session.prepare(statement)).plan
        assert plan.groups == groups
        found = session.run(f"EXPLAIN {statement}").table.to_pylist()
        assert (
            "outside" in {row["property"] if "property" in row else next(iter(row.values())) for row in found}
        ) == (plan.outside)


CUT = "left out: groups of a person beyond 1, what is cut is not known (not in the range)"
"""What an answer says of `groups = 1` of the policy."""


def test_it_is_shown_everywhere(session: Session) -> None:
    release = released(session, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k")
    outside, cut = release.line.split("; ")
    assert re.fullmatch(r"in no group shown: (60|59\.9|60\.0)\S* ± \S+ persons", outside)
    assert cut == CUT
    assert release.null_group
    for shown in (repr(release), release.to_markdown(), release.to_html()):
        assert release.line in shown
    facts = json.loads(write_cell(release).column(0)[0].as_py())
    assert facts["line"] == [outside, cut]
    assert round(facts["outside"]["value"]) == 60
    assert facts["null_group"] is True
    metadata = add_metadata(release.rows, release).schema.metadata
    assert metadata[b"dpsql.line"].decode() == release.line
    assert metadata[b"dpsql.null_group"] == b"true"


def test_it_is_stored_and_sent_with_the_release(session: Session) -> None:
    release = released(session, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k")
    assert from_bytes(to_bytes(release)).outside == release.outside
    assert present(from_arrow(to_arrow(release.rows, release))[1]).outside == release.outside


def test_groups_below_the_bar_are_told(session: Session) -> None:
    assert (
        released(session, "w, COUNT(DISTINCT u) AS c FROM t GROUP BY w").line
        == f"groups below the bar are not shown; {CUT}"
    )
    assert not released(session, "w, COUNT(DISTINCT u) AS c FROM t GROUP BY w ORDER BY c DESC LIMIT 2").line


# -- one group for every bound

MANY = """
SELECT i // 8 AS u, ['a', 'b', 'y', 'z', NULL][1 + i % 5] AS k, 0 AS n, 's' AS sure, 0 AS w, 1 AS x
FROM range(800) r(i)
"""


def exact(session: Session, rest: str, options: str) -> list[int]:
    plan = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}")).plan
    counts = engine_of(session).count(plan.compiled)
    assert plan.outside
    return [int(exact_of(counts).n[0][i]) for i in exact_of(counts).in_order()]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_it_counts_among_the_groups_that_a_unit_is_kept_to(many: Session, most: int) -> None:
    options = f"mechanism = LAPLACE, max_groups_contributed = {most}"
    found = exact(many, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k", options)
    assert len(found) == 4
    assert sum(found) == 100 * most
    assert all(found)


def test_what_bounds_all_groups_together_bounds_it_too(many: Session) -> None:
    found = exact(many, "k, COUNT(*) AS c FROM t GROUP BY k", "max_rows_contributed = 3")
    assert sum(found) == 300 << 24


def test_values_outside_are_one_group_of_a_unit(many: Session) -> None:
    """A unit with two undeclared values counts once among its units."""
    assert exact(many, "k, COUNT(DISTINCT u) AS c FROM t GROUP BY k", "mechanism = BOX")[-1] == 100


# -- what declares that there is none


@pytest.mark.parametrize(
    "number",
    ["COUNT(DISTINCT u)", "COUNT(*)", "SUM(x, contribution_bounds_per_row => (0, 2))", "COUNT(DISTINCT w)"],
)
@pytest.mark.sampled(2)
def test_a_unit_with_one_row_in_each_group_may_have_several_in_none(tmp_path: Path, number: str) -> None:
    """Where the keys tell its rows apart, no bound of one group holds for the rows of all other values."""
    rows = "SELECT i AS u, 'k' || j AS k, j % 3 AS w, 2 AS x FROM range(40) a(i), range(9) b(j)"
    unique = 'unit_kind = "person"\nunique = [["u", "k"]]'
    (tmp_path / "dpsql.toml").write_text(
        POLICY.format(domain='k = ["k0", "k1"]\nw = [0, 1, 2]').replace('unit_kind = "person"', unique)
    )
    duckdb.sql(f"COPY (SELECT 's' AS sure) TO '{tmp_path}/p.parquet'")
    seen = []
    for left in ("", " WHERE i > 0"):
        duckdb.sql(f"COPY ({rows}{left}) TO '{tmp_path}/t.parquet'")
        session = Session(load(tmp_path / "dpsql.toml"))
        prepared = private(session.prepare(f"SELECT k, {number} AS n FROM t GROUP BY k"))
        assert not prepared.plan.outside
        seen.append([column.tolist() for column in exact_of(prepared.counting.count()).n])
        session.close()
    most = max(count.bound for count in prepared.plan.counts)
    moves = [a - b for one, other in zip(*seen, strict=True) for a, b in zip(one, other, strict=True)]
    assert any(moves)
    assert all(0 <= move <= most for move in moves)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ('{ values = ["a", "b"], complete = true }', ValuesDomain(("a", "b"), True)),
        ('{ values = ["a", "b"] }', ValuesDomain(("a", "b"))),
        ("{ from = 0, to = 3, complete = true }", RangeDomain(0, 3, True)),
        ('{ table = "p", column = "sure", complete = true }', TableDomain("p", "sure", True)),
    ],
)
def test_a_domain_may_be_declared_complete(opened: Callable[..., Session], text: str, domain: object) -> None:
    name = "n" if "from" in text else "sure"
    assert opened(f"{name} = {text}").policy.tables["t"].domain[name] == domain


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ('k = { values = ["a", "b", "c"], complete = true }', "0 rows outside, 60 rows with NULL"),
        ("n = { from = 0, to = 4, complete = true }", "40 rows outside, 0 rows with NULL"),
        ('sure = { values = ["s"], complete = true }', "120 rows outside"),
    ],
)
def test_complete_is_tested_for_each_version_of_the_data(
    opened: Callable[..., Session], tmp_path: Path, domain: str, words: str
) -> None:
    session = opened(domain)
    with pytest.raises(OperationalError, match="cannot be read as declared"):
        session.run("SELECT COUNT(DISTINCT u) AS c FROM t")
    found = [each for each in verify(load(tmp_path / "dpsql.toml")).findings if each.level == "wrong"]
    assert len(found) == 1
    assert words in found[0].text


def test_rows_without_a_unit_do_not_make_a_domain_incomplete(opened: Callable[..., Session]) -> None:
    rows = f"{ROWS} UNION ALL SELECT NULL, NULL, 9, NULL, 0, 1"
    assert outside(opened(rows=rows), "sure, COUNT(DISTINCT u) AS c FROM t GROUP BY sure") is None


@pytest.mark.parametrize(
    "domain", ["k = { values = ['a'], complete = 1 }", "k = { complete = true }", "k = { values = 'a' }"]
)
def test_a_wrong_domain_is_refused(opened: Callable[..., Session], domain: str) -> None:
    with pytest.raises(PolicyError):
        opened(domain)


# -- the line


class Said:
    outside: Outside | None = None
    parts: tuple[Any, ...] = ()
    has_intervals = True

    def __init__(self, **lines: str) -> None:
        self.properties = {slot(name): text for name, text in lines.items()}


def test_the_sentences_of_a_line_have_one_order() -> None:
    said = Said(**{name: f"on {name}" for name in reversed(SLOTS)})
    assert sentences(said) == [f"on {name}" for name in SLOTS]
    said.outside = Outside("rows", 1714.2, 15.0, 1684.0, 1744.0)
    assert line(said, pm="+-") == "in no group shown: 1,714 +- 31 rows; on cut; on bound; on nobody; on zone"
    whole = Said()
    whole.parts = (said, Said(zone="on zone"), Said(cut="on more"))
    assert sentences(whole)[1:] == ["on cut", "on more", "on bound", "on nobody", "on zone"]
    with pytest.raises(ValueError, match="no sentence"):
        slot("weather")
