"""REFINE RELEASE: what it costs, whose and which releases it takes, and that the data must be the same."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import BudgetExceeded, Error, OperationalError, QueryRefused
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import PrivacyLoss
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present, private, replace_engine

POLICY = """
share_releases = true
[engine]
keep = 0  # each count is the engine's
[budget]
epsilon = 20
max_epsilon_per_query = 8
max_failures = 5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.csv"
unit = "user_id"
columns = {user_id = "BIGINT", page = "VARCHAR"}
[tables.visits.domain]
page.values = ["a", "b"]
page.complete = true
"""
COUNT = "COUNT(DISTINCT user_id) AS n FROM visits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(100))
    (tmp_path / "visits.csv").write_text("user_id,page\n" + rows)
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., Session]]:
    made: list[Session] = []

    def open_(analyst: str = "ann") -> Session:
        made.append(Session(load(folder / "dpsql.toml"), analyst))
        return made[-1]

    yield open_
    for session in made:
        session.close()


@pytest.fixture
def session(opened: Callable[..., Session]) -> Session:
    return opened()


def ask(session: Session, epsilon: str = "0.1", rest: str = COUNT) -> int:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, fresh = TRUE) {rest}"
    return present(present(session.run(text).release).number)


def refine(session: Session, number: int, epsilon: str) -> Release:
    return present(session.run(f"REFINE RELEASE {number} TO {epsilon}").release)


def test_levels_cost_what_the_last_alone_would(session: Session) -> None:
    first = ask(session)
    for number, epsilon, cost in ((first, "0.3", "0.2"), (first + 1, ".7", "0.4"), (first + 2, "8", "7.3")):
        release = refine(session, number, epsilon)
        assert release.number == number + 1
        assert release.charge.epsilon == Fraction(cost)
        assert session.budget().spent.epsilon == Fraction(epsilon)
        assert release.guarantee.endswith(f"e^{float(epsilon):g}")
        assert (
            release.properties["refines"]
            == f"release {number}; together they cost epsilon {float(epsilon):g}"
        )
        assert session.release(number + 1).rows == release.rows
    assert abs(release.rows.column("n")[0].as_py() - 100) < 4, "a scale of 1/8: 32 of them, e^-32"
    low, high = (release.table.column(f"n_{side}")[0].as_py() for side in ("low", "high"))
    assert (high - low) / 2 == pytest.approx(3 / 8, rel=0.05)
    assert session.ledger.check() == []


def test_the_loss_is_the_difference_and_at_an_order_that_of_the_sum(session: Session) -> None:
    """The second value given the first one is private for no less: they may lie on different sides."""
    first = ask(session, "0.25")
    found = of_type(session.prepare(f"REFINE RELEASE {first} TO 1"), PreparedPrivate).method
    assert str(found.quote.loss) == "stream 3/4 of 5/4"
    assert found.quote.charge.epsilon == found.quote.loss.epsilon == Fraction(3, 4)
    assert found.quote.loss.cost(Fraction(4)) == PrivacyLoss.of(Fraction(5, 4)).cost(Fraction(4))
    # The law of the second value given a first one far below, where the count is 0, and where it is 1.
    p1, p2, values = math.exp(-0.25), math.exp(-1), np.arange(-400, 401)
    apart = np.where(values > 0, p1 ** values.clip(0) * (1 - p2 / p1), (values == 0) * 1.0)
    moved = np.correlate(apart, apart, "same")  # the first noise less the second
    law = [p2 ** np.abs(values - count) * moved[::-1][(values + 30 + 400).clip(0, 800)] for count in (0, 1)]
    ratio = np.abs(np.log(law[0] / law[0].sum()) - np.log(law[1] / law[1].sum()))[200:-200]
    assert 3 / 4 + 1 / 10 < ratio.max() <= 5 / 4 + 1e-9


def test_the_noise_is_drawn_given_the_first_release(session: Session) -> None:
    """At 1.1 times epsilon the noise stays what it was with probability 1 / 1.1^2 = .83, on a fine grid."""
    number = ask(session, "0.05")
    first = present(session.release(number)).rows.column("n")[0].as_py()
    before, kept = 0.05, 0
    for _ in range(40):
        release = refine(session, number, f"{before * 1.1:.9f}")
        value = release.rows.column("n")[0].as_py()
        kept += value == first
        number, first, before = present(release.number), value, before * 1.1
    assert 22 <= kept <= 40, "of 40 at .826: 22 is 5.5 deviations off"


def test_a_release_is_refined_once(session: Session) -> None:
    first = ask(session)
    refine(session, first, "0.3")
    with pytest.raises(QueryRefused, match="was refined before") as no:
        refine(session, first, "0.5")
    assert no.value.hint == f"refine release {first + 1}, which refined it"
    refine(session, first + 1, "0.5")
    other = ask(session)
    refine(session, other, "0.3")
    assert session.budget().spent.epsilon == Fraction("0.8")


def test_of_two_at_once_one_is_refused_and_pays_nothing(opened: Callable[..., Session]) -> None:
    one, other = opened(), opened()
    first = ask(one)
    prepared = [each.prepare(f"REFINE RELEASE {first} TO {to}") for each, to in ((one, 2), (other, 3))]
    assert [each.price.epsilon for each in prepared] == [Fraction("1.9"), Fraction("2.9")]
    other.execute(prepared[1])
    with pytest.raises(OperationalError, match="was refined by another statement; nothing was charged"):
        one.execute(prepared[0])
    assert one.budget().spent.epsilon == 3
    assert one.ledger.count_failures("ann") == 0
    assert one.ledger.check() == []


def changed_byte(path: Path) -> None:
    """Write another page of one row over the first, of the same length, and put the file's times back."""
    before = path.stat()
    text = path.read_text()
    path.write_text(text.replace("10,a", "10,b"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: changed_byte(folder / "visits.csv"), "cannot be refined: the data changed"),
        (
            lambda folder: (folder / "dpsql.toml").write_text(POLICY.replace('"a", "b"', '"a", "b", "c"')),
            "cannot be refined: the policy changed",
        ),
        (
            lambda folder: (folder / "dpsql.toml").write_text('data_version = "1"\n' + POLICY),
            "nothing proves that the data are still those of release 1",
        ),
    ],
)
def test_other_data_or_another_policy_is_refused(
    opened: Callable[..., Session], folder: Path, change: Callable[[Path], object], why: str
) -> None:
    number = ask(opened())
    change(folder)
    session = opened()
    with pytest.raises(Error, match=why):
        refine(session, number, "1")
    assert session.budget().spent.epsilon == Fraction("0.1")


def test_a_file_with_the_same_content_is_the_same(session: Session, folder: Path) -> None:
    number = ask(session)
    shutil.copy(folder / "visits.csv", folder / "copy.csv")
    os.replace(folder / "copy.csv", folder / "visits.csv")
    assert refine(session, number, "1").charge.epsilon == Fraction("0.9")


def test_the_content_is_read_again(session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That no time of a file changed proves nothing: the hash is not the one that was remembered."""
    stamps = dict.fromkeys((folder / "visits.csv",), (1, 1, 1, 1, 1))
    monkeypatch.setattr("dpsql.release.reuse._stamp", lambda file: stamps.get(file, ()))
    numbers = [ask(session), ask(session)]
    refine(session, numbers[0], "1")
    changed_byte(folder / "visits.csv")
    with pytest.raises(QueryRefused, match="cannot be refined: the data changed"):
        refine(session, numbers[1], "1")


DIFFERENCE = "COUNT(DISTINCT user_id) - COUNT(DISTINCT user_id) FILTER (WHERE page = 'a') AS n FROM visits"


@pytest.mark.parametrize(
    ("mechanism", "count", "truth"), [("LAPLACE", COUNT, 100), ("BOX", COUNT, 100), ("BOX", DIFFERENCE, 50)]
)
def test_every_noise_of_one_count_is_refined(
    session: Session, mechanism: str, count: str, truth: int
) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, mechanism = {mechanism}) {count}"
    number = present(present(session.run(text).release).number)
    release = refine(session, number, "8")
    assert release.charge.epsilon == Fraction("7.9")
    assert release.rows.column("n")[0].as_py() == pytest.approx(truth, abs=4), "a scale of 1/8: e^-32"


REFUSED = {
    "two counts": f"COUNT(DISTINCT user_id) FILTER (WHERE page = 'a'), {COUNT}",
    "groups": f"page, {COUNT} GROUP BY page ORDER BY n DESC LIMIT 2",
    "all groups": f"page, {COUNT} GROUP BY page",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_one_count_is_refused(session: Session, name: str) -> None:
    options = "max_groups_contributed = 1" if name == "all groups" else "fresh = TRUE"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, {options}) {REFUSED[name]}"
    number = present(present(session.run(text).release).number)
    with pytest.raises(QueryRefused, match=r"release of one count|without GROUP BY"):
        refine(session, number, "1")
    assert session.budget().spent.epsilon == Fraction("0.1")


def test_whose_release_it_is(opened: Callable[..., Session]) -> None:
    ann, bob = opened("ann"), opened("bob")
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) {COUNT}"
    number = present(present(ann.run(text).release).number)
    with pytest.raises(QueryRefused, match=f"you have no release {number}"):
        refine(bob, number, "1")
    shared = present(bob.run(text).release)
    assert shared.reused is not None
    with pytest.raises(QueryRefused, match="was made for another analyst"):
        refine(bob, present(shared.number), "1")
    refine(ann, number, "1")
    assert present(bob.run(text).release).rows == shared.rows, "a refined release is not shared"


def test_what_a_larger_epsilon_means(session: Session) -> None:
    number = ask(session, "2")
    for epsilon in ("2", "1.999", "0.1"):
        with pytest.raises(QueryRefused, match="has epsilon 2 already"):
            refine(session, number, epsilon)
    with pytest.raises(QueryRefused, match="may cost at most epsilon 8") as no:
        refine(session, number, "8.1")
    assert no.value.hint == f"REFINE RELEASE {number} TO 8"
    with pytest.raises(QueryRefused, match="grid steps"):
        refine(session, number, "2." + "0" * 17 + "1")
    ask(session, "7")
    ask(session, "7")
    with pytest.raises(BudgetExceeded):
        refine(session, number, "7")
    assert refine(session, number, "6").charge.epsilon == 4, "what did not fit used nothing up"


def test_the_first_statement_is_asked_with_its_own_defaults(session: Session) -> None:
    session.run("SET dp_epsilon = 0.25")
    session.run("SET dp_confidence = 0.9")
    number = present(present(session.run(f"SELECT {COUNT}").release).number)
    session.run("SET dp_epsilon = 1")
    session.run("SET dp_confidence = 0.99")
    release = refine(session, number, "2")
    assert release.charge.epsilon == Fraction("1.75")
    assert release.confidence == Fraction(9, 10)
    assert refine(session, present(release.number), "3").confidence == Fraction(9, 10)


def test_an_error_asked_for_and_a_wrapper(session: Session) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 20) {COUNT}"
    asked = session.run(f"SELECT n, n FROM ({text}) AS r LIMIT 1")
    result = session.run(f"REFINE RELEASE {present(asked.release).number} TO 2")
    assert asked.table.column_names == ["n", "n"]
    assert result.table.column_names == ["n"]
    assert present(result.release).charge.epsilon == Fraction("1.85")


def test_parameters_are_given_again(session: Session) -> None:
    """The ledger has the text alone: other parameters make another question."""
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {COUNT} WHERE page = ?"
    number = present(present(session.run(text, ["a"]).release).number)
    for parameters in (None, ["b"], ["a", "b"]):
        with pytest.raises(Error, match=r"refused now|it asks something else now"):
            session.run(f"REFINE RELEASE {number} TO 2", parameters)
    assert session.budget().spent.epsilon == 1
    assert present(session.run(f"REFINE RELEASE {number} TO 2", ["a"]).release).charge.epsilon == 1


class Wrong:
    """An engine that does something before it counts."""

    def __init__(self, engine: Any, before: Callable[[], None]) -> None:
        self._engine, self._before = engine, before

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def count(self, compiled: Any) -> Counts:
        self._before()
        found: Counts = self._engine.count(compiled)
        return found


def raising() -> None:
    raise duckdb.Error("a private value")


def test_one_that_fails_keeps_its_charge_and_uses_the_release_up(session: Session) -> None:
    number = ask(session)
    engine = engine_of(session)
    replace_engine(session, Wrong(engine, raising))
    with pytest.raises(OperationalError) as failed:
        refine(session, number, "1")
    assert "private value" not in str(failed.value)
    replace_engine(session, engine)
    assert session.budget().spent.epsilon == 1
    assert session.ledger.count_failures("ann") == 1
    with pytest.raises(QueryRefused, match="was refined before") as no:
        refine(session, number, "2")
    assert no.value.hint is None
    assert session.ledger.check() == []


@pytest.mark.parametrize("trusted", [False, True])
def test_a_file_that_changes_while_it_is_counted_gives_no_answer(
    opened: Callable[..., Session], folder: Path, *, trusted: bool
) -> None:
    """Also one that is never verified, whose change other statements do not notice."""
    (folder / "dpsql.toml").write_text(
        POLICY.replace(
            "[tables.visits]", "[tables.visits]\ntrust_source = true" if trusted else "[tables.visits]"
        )
    )
    session = opened()
    number = ask(session)
    engine = engine_of(session)
    replace_engine(session, Wrong(engine, lambda: changed_byte(folder / "visits.csv")))
    with pytest.raises(Error, match="the data changed while it was counted"):
        refine(session, number, "1")
    assert session.budget().spent.epsilon == 1
    assert session.ledger.count_cancelled("ann") == 1
    assert len(session.ledger.releases("ann")) == 1


def test_a_file_that_changes_after_it_was_prepared(session: Session, folder: Path) -> None:
    number = ask(session)
    prepared = private(session.prepare(f"REFINE RELEASE {number} TO 1"))
    changed_byte(folder / "visits.csv")
    with pytest.raises(OperationalError, match="nothing was charged"):
        session.execute(prepared)
    assert session.budget().spent.epsilon == Fraction("0.1")


@pytest.mark.parametrize(
    ("column", "refined"), [("drawn DOUBLE AS (random())", False), ("note INTEGER", True)]
)
def test_a_table_that_computes_a_column_may_change_without_its_file(
    folder: Path, opened: Callable[..., Session], column: str, refined: bool
) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits (user_id BIGINT, page VARCHAR, {column})")
        connection.execute("INSERT INTO visits (user_id, page) SELECT i, 'a' FROM range(100) AS r(i)")
    policy = POLICY.replace('source = "visits.csv"', 'source = "main.visits"').replace(
        'columns = {user_id = "BIGINT", page = "VARCHAR"}\n', ""
    )
    (folder / "dpsql.toml").write_text(policy + '[database]\npath = "shop.duckdb"\n')
    session = opened()
    number = ask(session)
    if refined:
        assert refine(session, number, "0.2").charge.epsilon == Fraction(1, 10)
    else:
        with pytest.raises(QueryRefused, match="visits has a generated column"):
            refine(session, number, "0.2")
