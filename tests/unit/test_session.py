"""A session: charged before data is read, a constant text on failure, no charge for a repeated statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Never, cast
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

from dpsql.composition.prepared import PreparedComposed
from dpsql.engines import FAILED, Cancelled, RunningStatement
from dpsql.errors import (
    BudgetExceeded,
    Error,
    OperationalError,
    PriceNotAgreed,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger
from dpsql.places import NumberPlace, Places
from dpsql.release import from_bytes, to_bytes
from dpsql.session import Session
from tests.narrow import engine_of, present, private
from tests.opened import sessions_in

POLICY = """
[engine]
keep = 0  # each count is the engine's
[budget]
epsilon = 5
delta = 1e-6
default_epsilon = 0.5
max_epsilon_per_query = 2
max_failures = 2
ledger = "ledger.sqlite"
[analysts.bob]
epsilon = 1
[analysts."*"]
epsilon = 5
delta = 1e-6
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "person"
[tables.visits.domain]
page.values = ["a", "b", "c"]
page.complete = true
[tables.pages]
source = "pages.parquet"
public = true
"""
CANARY = "canary-4711"
TOP = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2"
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"


def spends(epsilon: str, rest: str = "COUNT(DISTINCT user_id) AS n FROM visits") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) {rest}"


class Recorder:
    """Stands before an object and writes down what is called, in one list for all of them."""

    def __init__(self, inner: object, calls: list[str], error: BaseException | None = None) -> None:
        self.inner, self.calls, self.error = inner, calls, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*args: object, **kwargs: Any) -> object:
            self.calls.append(name)
            if name == "count" and self.error is not None:
                raise self.error
            return found(*args, **kwargs)

        return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    duckdb.sql(
        f"COPY (SELECT i // 3 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page, '{CANARY}' AS note, i AS ms "
        f"FROM range(60) t(i)) TO '{tmp_path}/visits.parquet'"
    )
    duckdb.sql(f"COPY (SELECT 'a' AS page, 'news' AS kind) TO '{tmp_path}/pages.parquet'")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def sessions(folder: Path) -> Iterator[Callable[..., Session]]:
    with sessions_in(folder, POLICY) as opened:
        yield opened


@pytest.fixture
def session(sessions: Callable[..., Session]) -> Session:
    return sessions()


def recorded(session: Session, error: BaseException | None = None) -> list[str]:
    """Record what the session asks of its ledger and its engine; `error` is what counting raises."""
    calls: list[str] = []
    session.ledger = cast("Ledger", Recorder(session.ledger, calls))
    object.__setattr__(session.database.engines(), "engine", Recorder(engine_of(session), calls, error))
    return calls


def spent(session: Session) -> Fraction:
    return session.budget().spent.epsilon


def test_the_charge_is_written_before_data_is_read_and_settled_before_rows_are_shown(
    session: Session,
) -> None:
    session.run(COUNT)  # the source is vetted once
    calls = recorded(session)
    answer = session.run(TOP)
    assert [c for c in calls if c in ("reserve_all", "count", "settle_all", "fail", "cancel")] == [
        "reserve_all",
        "count",
        "settle_all",
    ]
    assert spent(session) == 1
    assert answer.release is not None
    assert answer.release.charge == Charge(Fraction(1, 2))
    assert answer.release.number is not None


def test_a_source_is_vetted_before_anything_is_charged_and_once(session: Session) -> None:
    calls = recorded(session)
    session.run(COUNT)
    assert calls.index("vet") < calls.index("reserve_all") < calls.index("count")
    calls.clear()
    session.run(spends("0.7"))
    assert "vet" not in calls


def test_a_source_that_cannot_be_read_as_declared_costs_nothing(
    folder: Path, sessions: Callable[..., Session]
) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS user_id, 'a' AS page FROM range(2)) TO '{folder}/visits.parquet'")
    session = sessions(toml=POLICY.replace('unit = "user_id"', 'unit = "user_id"\nunique = [["user_id"]]'))
    for _ in range(3):
        with pytest.raises(OperationalError, match="cannot be read as declared"):
            session.run(COUNT)
    assert spent(session) == 0


@pytest.mark.parametrize(
    "error", [RuntimeError(CANARY), OperationalError(CANARY), duckdb.Error(CANARY), MemoryError()]
)
def test_a_failure_keeps_the_charge_and_says_nothing(
    session: Session, error: duckdb.Error | MemoryError | RuntimeError | OperationalError
) -> None:
    session.run(COUNT)
    calls = recorded(session, error)
    with pytest.raises(OperationalError) as caught:
        session.run(TOP)
    assert str(caught.value) == FAILED
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert calls[-3:] == ["reserve_all", "count", "fail"]
    assert spent(session) == 1
    assert len(session.ledger.releases("alice")) == 1


def test_a_failure_of_the_mechanism_is_one_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = private(session.prepare(COUNT))

    def fails(self: object, counts: Counts) -> Never:
        raise ValueError(CANARY, counts)

    monkeypatch.setattr(type(prepared.method), "run", fails)
    with pytest.raises(OperationalError) as caught:
        session.execute(prepared)
    assert str(caught.value) == FAILED
    assert spent(session) == Fraction(1, 2)


def test_after_too_many_failures_the_owner_is_asked(session: Session) -> None:
    session.run(COUNT)
    calls = recorded(session, RuntimeError(CANARY))
    for _ in range(2):
        with pytest.raises(OperationalError, match="could not finish"):
            session.run(spends("0.1"))
    calls.clear()
    with pytest.raises(OperationalError) as caught:
        session.run(spends("0.1"))
    assert "count" not in calls
    assert str(caught.value) != FAILED
    assert spent(session) == Fraction(7, 10)
    assert present(session.run(COUNT).release).reused is not None, "what was released stays readable"


def test_an_interrupt_keeps_the_charge_and_is_no_failure(session: Session) -> None:
    session.run(COUNT)
    calls = recorded(session, KeyboardInterrupt())
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            session.run(spends("0.1"))
    assert calls[-3:] == ["reserve_all", "count", "cancel"]
    assert spent(session) == Fraction(8, 10)
    cast("Recorder", engine_of(session)).error = None
    assert present(session.run(spends("0.1")).release).charge.epsilon == Fraction(1, 10)


def test_without_budget_no_data_is_read(session: Session) -> None:
    calls = recorded(session)
    with pytest.raises(BudgetExceeded) as caught:
        session.run(spends("2.5"))
    assert (caught.value.requested[0], caught.value.scope) == (Fraction(5, 2), "query")
    for _ in range(2):
        session.run(spends("2, fresh = TRUE"))
    with pytest.raises(BudgetExceeded) as caught:
        session.run(spends("1.5"))
    assert caught.value.remaining[0] == 1
    assert calls.count("count") == 2
    assert spent(session) == 4


def test_an_analyst_has_a_cap_of_his_own(sessions: Callable[..., Session]) -> None:
    bob = sessions("bob")
    bob.run(spends("0.9"))
    with pytest.raises(BudgetExceeded) as caught:
        bob.run(spends("0.2"))
    assert "bob" in caught.value.scope
    assert present(sessions("alice").run(spends("0.2")).release).charge.epsilon == Fraction(1, 5)


def test_preparing_prices_and_neither_charges_nor_reads(session: Session) -> None:
    calls = recorded(session)
    prepared = session.prepare(TOP)
    assert (prepared.private, prepared.price) == (True, Charge(Fraction(1, 2)))
    assert session.prepare("SELECT * FROM pages").private is False
    assert session.prepare("SHOW TABLES").price == Charge()
    assert not {"reserve_all", "count", "vet", "settle_all"} & set(calls)
    assert spent(session) == 0


def test_what_was_asked_before_costs_nothing(session: Session) -> None:
    first = session.run(TOP)
    calls = recorded(session)
    for text in (TOP, f"  {TOP}  ", TOP.replace("visits", "Visits"), f"-- again\n{TOP}"):
        again = session.run(text)
        assert again.table.equals(first.table)
        assert again.release is not None
        assert again.release.reused is not None
        assert first.release is not None
        assert again.release.number == first.release.number
        assert session.prepare(text).price == Charge()
    assert "count" not in calls
    assert spent(session) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (TOP.replace("LIMIT 2", "LIMIT 1"), None),
        (TOP.replace("'", '"').replace("FROM visits", "FROM visits WHERE note = 'x'"), None),
        (TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE)"), None),
        (TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.6)"), None),
        (TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (noise = LAPLACE)"), None),
        (TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (confidence = 0.9)"), None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_another_question_has_another_answer(
    session: Session, text: str, parameters: list[str] | None
) -> None:
    session.run(TOP)
    answer = session.run(text, parameters)
    assert answer.release is not None
    assert answer.release.reused is None
    assert spent(session) > Fraction(1, 2)


def test_another_calculation_with_the_same_counts_costs_nothing(session: Session) -> None:
    twice, thrice = (session.run(TOP.replace(" FROM", f", n * {k} AS m FROM")) for k in (2, 3))
    assert thrice.release is not None
    assert thrice.release.reused is not None
    assert spent(session) == Fraction(1, 2)
    for answer, k in ((twice, 2), (thrice, 3)):
        n, m = (answer.table[name].to_pylist() for name in ("n", "m"))
        assert m == pytest.approx([k * x for x in n])


def test_what_columns_are_called_is_no_part_of_the_question(session: Session) -> None:
    gaps = TOP.replace(" FROM", ", DP_GAP() AS gap FROM")
    first = present(session.run(gaps).release)
    other = gaps.replace("page,", "page AS where_,").replace("AS n", "AS m").replace("BY n", "BY m")
    again = present(session.run(other.replace("AS gap", "AS ahead")).release)
    assert again.number == first.number
    assert spent(session) == Fraction(1, 2)
    assert again.rows.column_names == ["where_", "m", "ahead"]
    assert again.rows.rename_columns(first.rows.column_names).equals(first.rows)
    details = ["gap", "p_value", "m_stddev", "m_low", "m_high"]
    assert again.table.column_names == ["where_", "m", "ahead", *details]
    for name in ("gap", "p_value", "n_stddev", "n_low", "n_high"):
        assert again.table.column(name.replace("n_", "m_")).equals(first.table.column(name))
    assert (again.keys, again.counts, again.properties["ordering"]) == (("where_",), ("m",), "m")
    assert present(session.run(gaps).release).table.equals(first.table)


def test_a_column_that_is_called_as_a_detail_of_another_hides_none(session: Session) -> None:
    """What is called `n_low` and shows something else is no end of an interval, under any names."""
    two = COUNT.replace(" FROM", ", COUNT(DISTINCT user_id) FILTER (WHERE note IS NULL) AS {} FROM")
    clash, plain = (present(session.run(two.format(name)).release) for name in ("n_low", "pages"))
    assert clash.number == plain.number
    assert plain.table.column_names[2:5] == ["n_stddev", "n_low", "n_high"]
    assert clash.table.column_names[:5] == ["n", "n_low", "n_stddev", "n_low_1", "n_high"]
    for one, other in zip(clash.table.columns, plain.table.columns, strict=True):
        assert one.equals(other)
    assert clash.places == plain.places == Places((), (NumberPlace(0, 2, 3, 4), NumberPlace(1, 5, 6, 7)))
    low = "SELECT COUNT(DISTINCT user_id) AS n, DP_INTERVAL_LOW(n) AS {} FROM visits"
    same, other = (present(session.run(low.format(name)).release) for name in ("n_low", "least"))
    assert same.number == other.number
    assert other.table.column("n_low").equals(same.table.column("n_low"))
    assert same.table.column_names == ["n", "n_low", "n_stddev", "n_high"]


def test_equal_names_stay_two_columns(session: Session) -> None:
    two = COUNT.replace(" FROM", ", COUNT(DISTINCT user_id) FILTER (WHERE note IS NULL) AS n FROM")
    release = present(session.run(two).release)
    assert release.counts == ("n", "n")
    assert release.rows.column_names == ["n", "n"]
    assert release.table.column_names[2:5] == ["n_stddev", "n_low", "n_high"]
    assert release.table.column_names[5:] == ["n_1_stddev", "n_1_low", "n_1_high"]
    again = present(session.run(two.replace("AS n,", "AS a,")).release)
    assert (again.number, again.counts) == (release.number, ("a", "n"))
    assert from_bytes(to_bytes(release)).places == release.places


def test_a_column_without_a_name_is_named_by_its_text(session: Session) -> None:
    found = session.run(
        "SELECT count( DISTINCT user_id ) /* units */, 3 + COUNT(DISTINCT user_id) FROM visits"
    )
    assert found.table.column_names == ["count( DISTINCT user_id )", "3 + COUNT(DISTINCT user_id)"]
    inside = session.run(
        "SELECT * FROM (SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FROM visits)"
    )
    assert inside.table.column_names == ["COUNT(DISTINCT user_id)", "COUNT(DISTINCT user_id)_1"]
    assert present(inside.release).counts == tuple(inside.table.column_names)


def test_equal_releases_of_one_statement_may_have_other_names(session: Session) -> None:
    """They have equal keys, although one epsilon is written and the other follows."""
    both = f"SELECT a.n, b.m FROM ({spends('0.5')}) AS a, ({COUNT.replace('AS n', 'AS m')}) AS b"
    answer = session.run(both)
    assert answer.table.column("n").equals(answer.table.column("m"))
    assert spent(session) == Fraction(1, 2)
    assert present(answer.release).table.column("m_low").equals(present(answer.release).table.column("n_low"))


def test_texts_are_compared_letter_by_letter_and_values_by_their_type(session: Session) -> None:
    text = COUNT + " WHERE note = ?"
    for value in ("A", "a", "a "):
        assert present(session.run(text, [value]).release).reused is None
    for other in (1, 1.0, "1", True):
        assert present(session.run(f"{COUNT} WHERE ? IS NOT NULL", [other]).release).reused is None
    assert present(session.run(text, ["a"]).release).reused is not None


@pytest.mark.parametrize(
    ("text", "value", "literal"),
    [
        (f"{COUNT} WHERE page = {{}}", "b", "'b'"),
        (f"{COUNT} WHERE note = {{}}", "it's", "'it''s'"),
        (f"{COUNT} WHERE note IS DISTINCT FROM {{}}", None, "NULL"),
        (f"{COUNT} WHERE (note = 'x') = {{}}", True, "TRUE"),
        (f"{COUNT} WHERE LENGTH(note) > {{}}", -3, "-3"),
        (f"{COUNT} WHERE LENGTH(note) > {{}}", 1.5, "1.5"),
        (f"{COUNT} WHERE LENGTH(note) * {{}} > 1", 1e-7, "1e-7"),
        (f"{COUNT} WHERE LENGTH(note) * {{}} > 1", 1e22, "1e22"),
        (f"{COUNT} WHERE LENGTH(note) > {{}}", Decimal("1.50"), "1.50"),
        (f"{COUNT} WHERE LENGTH(note) > {{}}", Decimal(3), "3"),
        (f"{COUNT} WHERE DATE '2026-01-31' > {{}}", date(2026, 1, 30), "DATE '2026-01-30'"),
        (
            f"{COUNT} WHERE TIMESTAMP '2026-01-31' > {{}}",
            datetime(2026, 1, 30, 12),
            "TIMESTAMP '2026-01-30 12:00:00'",
        ),
        (f"{COUNT} WHERE note = {{}}", UUID(int=7), f"'{UUID(int=7)}'"),
        (spends("{}"), 0.25, "0.25"),
        (spends("{}"), 1, "1.0"),
        (TOP.replace("2", "{}"), 1, "1"),
        (TOP.replace("ORDER", "HAVING n > {} ORDER"), 30.0, "30"),
        (TOP.replace(" FROM", ", n * {} AS m FROM"), 2.0, "2"),
    ],
)
@pytest.mark.sampled(4)
def test_a_value_that_is_bound_asks_what_its_literal_asks(
    session: Session, text: str, value: object, literal: str
) -> None:
    written = present(session.run(text.format(literal)).release)
    bound = present(session.run(text.format("?"), [value]).release)
    assert bound.number == written.number
    assert present(session.run(text.format("$v"), {"v": value}).release).number == written.number
    assert spent(session) == written.charge.epsilon


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (spends("?"), [-1]),
        (spends("$1"), [-1]),
        (spends("?") + " WHERE page = ?", [-1, "a"]),
        (spends("$e") + " WHERE page = $p", {"e": -1, "p": "a"}),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_bound_option_that_is_wrong_is_what_the_error_is_about(
    session: Session, text: str, values: list[object]
) -> None:
    with pytest.raises(QuerySyntaxError, match="epsilon must lie between") as caught:
        session.run(text, values)
    assert (caught.value.line, caught.value.col) == (1, text.index("epsilon = ") + 11)


@pytest.mark.parametrize(("value", "literal"), [(30.0, "30.0"), (Decimal("30.00"), "30.00")])
def test_a_whole_number_of_another_type_is_another_literal(
    session: Session, value: object, literal: str
) -> None:
    """A driver that sends 30 as a number with decimals asks another question than the literal 30.

    SQL calculates with whole numbers otherwise than with others, so a release is not taken for the other's.
    """
    text = f"{COUNT} WHERE LENGTH(note) > {{}}"
    whole = present(session.run(text.format("30")).release)
    bound = present(session.run(text.format("?"), [value]).release)
    assert bound.number != whole.number
    assert present(session.run(text.format(literal)).release).number == bound.number


def test_defaults_of_the_connection_are_part_of_the_question(session: Session) -> None:
    session.run(COUNT)
    session.run("SET dp_epsilon = 0.25")
    assert present(session.run(COUNT).release).charge.epsilon == Fraction(1, 4)
    assert present(session.run(spends("0.5")).release).reused is not None


def test_a_release_is_the_analysts_own(sessions: Callable[..., Session]) -> None:
    alice, bob = sessions("alice"), sessions("bob")
    first = alice.run(COUNT)
    assert present(bob.run(COUNT).release).reused is None
    assert bob.budget().spent.epsilon == Fraction(1, 2)
    assert sessions("alice").run(COUNT).table.equals(first.table), "another session of hers"
    assert [r.statement for r in bob.ledger.releases("bob")] == [COUNT]


def test_new_data_has_new_answers(folder: Path, sessions: Callable[..., Session]) -> None:
    first = sessions()
    first.run(COUNT)
    fewer = "SELECT i AS user_id, 'a' AS page, '' AS note, i AS ms FROM range(7) t(i)"
    duckdb.sql(f"COPY ({fewer}) TO '{folder}/visits.parquet'")
    assert present(sessions().run(COUNT).release).reused is None


def test_an_epsilon_is_said_or_has_a_default(sessions: Callable[..., Session]) -> None:
    session = sessions(toml=POLICY.replace("default_epsilon = 0.5\n", ""))
    with pytest.raises(QueryRefused, match="gives no epsilon") as caught:
        session.prepare(COUNT)
    assert "OPTIONS (epsilon = 0.2)" in present(caught.value.hint)
    offered = present(caught.value.rewrite)
    assert offered == spends("0.2") + " -- 0.2 is a guess"
    assert session.prepare(offered).price.epsilon == Fraction("0.2")
    session.run("SET dp_epsilon = 1")
    assert present(session.run(COUNT).release).charge.epsilon == 1


def test_what_is_missing_is_offered_with_what_is_wrong(sessions: Callable[..., Session]) -> None:
    session = sessions(toml=POLICY.replace("default_epsilon = 0.5\n", ""))
    with pytest.raises(QueryRefused) as caught:
        session.prepare(
            "SELECT nte, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY nte ORDER BY n DESC LIMIT 10"
        )
    assert [o.message[:22] for o in caught.value.obstacles] == [
        "the statement gives no",
        "there is no column nte",
    ]
    offered = present(caught.value.rewrite)
    assert offered == (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-9, epsilon = 0.2) note, "
        "COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 10 "
        "-- 0.2 and 1e-9 are guesses"
    )
    assert session.prepare(offered).price == Charge(Fraction("0.2"), Fraction(1, 10**9))


def test_a_refusal_costs_nothing_and_is_the_same_again(session: Session) -> None:
    calls = recorded(session)
    texts = set()
    for _ in range(2):
        with pytest.raises(QueryRefused) as caught:
            session.run("SELECT pge, COUNT(*) AS n, CORR(ms, ms) FROM visits GROUP BY pge ORDER BY n DESC")
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert set(calls) <= {"translate"}, "the SQL of what is offered is written, and nothing is run"
    assert session.budget().spent.epsilon == 0


def test_settings_are_the_connections(session: Session, sessions: Callable[..., Session]) -> None:
    assert session.run("SET dp_epsilon = 1.5").table.num_columns == 0
    assert session.prepare(COUNT).price.epsilon == Fraction(3, 2)
    assert sessions().prepare(COUNT).price.epsilon == Fraction(1, 2)
    session.run("SET dp_measure = 0.3")
    assert private(session.prepare(TOP)).plan.options.measure == Fraction(3, 10)
    session.run("SET dp_confidence = 0.9")
    assert present(session.run(COUNT).release).confidence == Fraction(9, 10)


def test_explain_reads_and_costs_nothing(session: Session) -> None:
    calls = recorded(session)
    plain = session.run(f"EXPLAIN {TOP}")
    assert plain.release is None
    assert plain.table.column_names == ["property", "value"]
    facts = json.loads(session.run(f"EXPLAIN (FORMAT JSON) {TOP}").table.column(0)[0].as_py())
    assert {
        "selection", "mechanism", "unit", "guarantee", "epsilon", "delta", "split", "noise_scale",
        "predicted_stddev", "domain", "domain_size", "budget_left", "compiled_sql",
    } <= facts.keys()  # fmt: skip
    assert facts["domain_size"] == 3
    assert facts["epsilon"] == 0.5
    assert facts["compiled_sql"] == private(session.prepare(TOP)).counting.sql
    public = json.loads(session.run("EXPLAIN (FORMAT JSON) SELECT * FROM pages").table.column(0)[0].as_py())
    assert public["epsilon"] == 0
    assert not {"reserve_all", "count", "vet", "settle_all"} & set(calls)
    assert spent(session) == 0


def test_explain_is_the_same_whatever_the_data(folder: Path, sessions: Callable[..., Session]) -> None:
    whole = sessions().run(f"EXPLAIN {TOP}").table
    duckdb.sql(f"COPY (SELECT * FROM '{folder}/visits.parquet' WHERE user_id = 3) TO '{folder}/one.parquet'")
    (folder / "one.parquet").rename(folder / "visits.parquet")
    assert sessions().run(f"EXPLAIN {TOP}").table.equals(whole)


def test_show_and_describe(session: Session) -> None:
    assert session.run("SHOW TABLES").table.to_pylist() == [
        {"table": "visits", "unit": "user_id", "protects": "a person"},
        {"table": "pages", "unit": "public", "protects": None},
    ]
    assert session.run("DESCRIBE visits").table.to_pylist() == [
        {"column": "user_id", "type": "BIGINT", "domain": ""},
        {"column": "page", "type": "VARCHAR", "domain": "declared"},
        {"column": "note", "type": "VARCHAR", "domain": ""},
        {"column": "ms", "type": "BIGINT", "domain": ""},
    ]
    assert {row["domain"] for row in session.run("DESCRIBE pages").table.to_pylist()} == {"public"}
    session.run(COUNT)
    budget = session.run("SHOW PRIVACY BUDGET").table.to_pylist()[0]
    assert (budget["total"], budget["spent"], budget["remaining"]) == ("5", "0.5", "4.5")
    released = session.run("SHOW RELEASES").table.to_pylist()
    assert [(r["statement"], r["epsilon"]) for r in released] == [(COUNT, "0.5")]


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        (TOP, "top-2"),
        (COUNT, "count"),
        (TOP.replace("ORDER BY n DESC LIMIT 2", "HAVING n >= 1.5"), "above threshold 2"),
        (TOP.replace("ORDER BY n DESC LIMIT 2", "TOP 1"), "argmax"),
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_a_selection_has_one_word_everywhere(session: Session, asked: str, word: str) -> None:
    explained = dict(zip(*session.run(f"EXPLAIN {asked}").table.to_pydict().values(), strict=True))
    release = session.run(asked).release
    (listed,) = session.run("SHOW RELEASES").table.to_pylist()
    (entry,) = session.ledger.entries(session.analyst)
    assert (
        explained["selection"] == present(release).selection == listed["selection"] == entry.selection == word
    )


def test_public_statements_are_free_and_never_meet_private_rows(session: Session) -> None:
    calls = recorded(session)
    assert session.run("SELECT page, kind FROM pages").table.to_pylist() == [{"page": "a", "kind": "news"}]
    assert session.run("SELECT 1 AS x").release is None
    assert not {"reserve_all", "count"} & set(calls)
    assert engine_of(session).schema_database.run("SELECT COUNT(*) FROM visits").column(0).to_pylist() == [0]


def test_a_release_holds_what_was_asked_and_what_is_free(session: Session) -> None:
    text = TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = NOISY_TOP_K)")
    release = session.run(text).release
    assert release is not None
    assert (release.keys, release.counts) == (("page",), ("n",))
    assert release.rows.column_names == ["page", "n"]
    assert release.rows.schema.types == [pa.string(), pa.float64()]
    assert {"gap", "n_stddev", "n_low", "n_high"} <= set(release.table.column_names)
    assert release.statement == text
    assert "all rows of one person" in release.guarantee
    assert "e^0.5" in release.guarantee


FAULTS = [
    "SELECT * FROM visits",
    "SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note HAVING n > 1 LIMIT 2",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE note = 5",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE note::INTEGER = 'x'",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE error(note)",
    "SELECT COUNT(*) FROM visits",
    "SELECT MAX(note) FROM visits",
    "SELECT (SELECT MAX(note) FROM visits) FROM pages",
    "SELECT * FROM query('SELECT note FROM visits')",
    "SELECT * FROM 'visits.parquet'",
    "DESCRIBE visits",
    "SHOW TABLES",
    "SUMMARIZE visits",
    f"EXPLAIN {TOP}",
    "EXPLAIN ANALYZE SELECT COUNT(DISTINCT user_id) FROM visits",
    "EXPLAIN SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id = 3",
    "SELECT estimated_size FROM duckdb_tables()",
    TOP,
]


def test_no_private_value_is_ever_shown(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    shown = []
    for text in FAULTS:
        try:
            shown.append(str(session.run(text).table.to_pylist()))
        except Error as error:
            shown += [str(error), repr(error), str(error.__cause__), str(error.__context__)]
    object.__setattr__(
        session.database.engines(),
        "engine",
        Recorder(engine_of(session), [], RuntimeError(CANARY)),
    )
    with pytest.raises(OperationalError) as caught:
        session.run(spends("0.1"))
    shown += [str(caught.value), *capfd.readouterr()]
    assert len(shown) > len(FAULTS)
    assert CANARY not in "\n".join(shown)


def test_show_release_is_the_whole_release_as_one_cell(session: Session) -> None:
    made = present(session.run(TOP).release)
    shown = session.run(f"show release {made.number}")
    (text,) = shown.table.column("release").to_pylist()
    found = json.loads(text)
    assert (found["number"], found["statement"], found["epsilon"]) == (made.number, TOP, 0.5)
    assert found["rows"] == made.table.to_pylist()
    assert present(shown.release).table.equals(made.table)
    assert spent(session) == Fraction(1, 2)
    with pytest.raises(ProgrammingError, match="you have no release 99"):
        session.run("SHOW RELEASE 99")


def test_no_more_is_charged_than_was_agreed(session: Session) -> None:
    prepared = session.prepare(TOP)
    with pytest.raises(PriceNotAgreed, match=r"costs epsilon 0\.5 now, and 0\.49 was agreed"):
        session.execute(prepared, most=Charge(Fraction(49, 100)))
    assert spent(session) == 0
    first = present(session.execute(prepared, most=Charge(Fraction(1, 2))).release)
    assert spent(session) == Fraction(1, 2)
    assert present(session.execute(prepared, most=Charge()).release).number == first.number


def test_stored_releases_are_found_without_a_charge(session: Session) -> None:
    prepared = session.prepare(
        f"SELECT (SELECT COUNT(DISTINCT user_id) FROM visits) * 2 AS n, ({COUNT}) AS m"
    )
    assert isinstance(prepared, PreparedComposed)
    assert session.read_stored(prepared) is None
    assert spent(session) == 0
    made = session.execute(prepared)
    again = session.read_stored(prepared)
    assert again is not None
    assert again.table.equals(made.table)


def test_a_statement_that_was_cancelled_before_it_began_reads_nothing(session: Session) -> None:
    running, prepared = RunningStatement(), session.prepare("SELECT page FROM pages")
    running.cancel()
    with pytest.raises(Cancelled, match="nothing was charged"):
        session.execute(prepared, running=running)
    assert session.execute(prepared).table.num_rows > 0
