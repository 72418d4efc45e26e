"""Ledgers of older versions: brought up to date whole or not at all, every charge as it was."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import OperationalError
from dpsql.kernel.facts import ByRow, Facts, TableFacts
from dpsql.kernel.ledger import part_totals
from dpsql.kernel.ledger.caps import PartBudgets
from dpsql.kernel.ledger.schema import VERSION
from dpsql.kernel.ledger.totals import PERSON
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, PureDP, Realised, Stream
from dpsql.kernel.unit_parts import ALL_PARTS, Calendar
from dpsql.ledger import GroupCap, LadderRequest, Ledger, RefinementStep, Request
from dpsql.policy import BudgetPolicy
from dpsql.types import BIGINT
from tests.commands import Commands
from tests.kept_ladders import reserve_one

DATA = Path(__file__).parent / "data"
DUMP = DATA / "ledger_version_4.sql"
"""A ledger as version 4 of the schema has it, with every kind of entry; two of them have no end."""

VERSION_5 = DATA / "ledger_version_5.sql"
"""A ledger as version 5 has it, with costs at orders, Gaussian noise, a group and restored amounts."""

VERSION_6 = DATA / "ledger_version_6.sql"
"""A ledger as version 6 has it, with kept ladders too: settled, failed, cancelled and without an end."""

VERSION_7 = DATA / "ledger_version_7.sql"
"""The ledger of version 6 as version 7 went on with it: one more charge, which tells of the facts."""

VERSION_8 = DATA / "ledger_version_8.sql"
"""The ledger of version 7 as version 8 went on with it: two charges to weeks, one settled, one failed."""

VERSION_8_STREAM = DATA / "ledger_version_8_stream.sql"
"""The ledger of version 7 as version 8 went on with it: a charge to parts, and a stream of a process."""

VERSION_9 = DATA / "ledger_version_9.sql"
"""The ledger of version 8 as version 9 went on with it: a registered report."""

VERSION_10 = DATA / "ledger_version_10.sql"
"""The ledger of version 9 as version 10 went on with it: one more charge to weeks."""

TOTAL = Charge(Fraction(10), Fraction(1, 1000))


def open_at(path: Path) -> Ledger:
    return Ledger.open(path, policy_id="p", total=TOTAL, max_failures=9)


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of version 4."""
    path = tmp_path / "ledger.sqlite"
    with raw(path) as connection:
        connection.executescript(DUMP.read_text())
    return path


def version(path: Path) -> int:
    with raw(path) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def structure(path: Path) -> dict[str, object]:
    """The columns of all tables, and the text of all triggers."""
    with raw(path) as connection:
        found: dict[str, object] = {}
        for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            if kind == "table":
                found[name] = connection.execute(f"PRAGMA table_info({name})").fetchall()
            else:
                found[name] = re.sub(r'["\s]+', " ", text or "")
        return found


def test_every_charge_and_release_stays(path: Path) -> None:
    with open_at(path) as ledger:
        assert ledger.budget().spent == Charge(Fraction(344, 105), Fraction(1, 10000))
        assert ledger.budget("bob").spent == Charge(Fraction(344, 105), Fraction(1, 10000))
        assert (ledger.count_failures("ann"), ledger.count_cancelled("bob")) == (1, 1)
        assert [entry.state for entry in ledger.entries()].count("reserved") == 2
        shared = next(entry for entry in ledger.entries() if entry.shared)
        assert shared.charged.charge == Charge(Fraction(1, 3), Fraction(1, 10000))
        found = ledger.find("k", "ann")
        assert found is not None
        assert (found.payload, found.event.n) == (b"rows", 1), "the migration has its hash"
        assert ledger.release(5, "ann").payload == b"finer"
        assert ledger.is_vetted("visits", "v1")
        assert ledger.check() == []
        refined = ledger.reserve(
            analyst="ann",
            statement="s",
            selection="r",
            mechanism="m",
            charge=Charge(Fraction(1)),
            refines=RefinementStep(5, Fraction(7, 3)),
        )
        ledger.settle(refined, Charge(Fraction(1)), release=b"finest")
        assert ledger.check() == []
    assert version(path) == VERSION


def test_what_each_entry_cost_is_known(path: Path) -> None:
    """Nothing tells which of them were streams, so each costs what was reserved for it."""
    with open_at(path) as ledger:
        found = {entry.entry: entry for entry in ledger.entries()}
        with raw(path) as connection:
            refined = {entry for (entry,) in connection.execute("SELECT entry FROM refinement")}
        assert refined
        for entry in found.values():
            (part,) = entry.charged.parts
            if entry.shared:
                assert isinstance(part, Realised)
                assert entry.reserved == entry.charged
            elif entry.charged != entry.reserved or entry.entry in refined:
                assert isinstance(part, Stream)
                assert entry.charged.cost(Fraction(4)) == entry.reserved.cost(Fraction(4))
            else:
                assert isinstance(part, PureDP)
    total = Charge(Fraction(10), Fraction(1, 1000))
    policy = BudgetPolicy(total.epsilon, total.delta, accounting="zcdp")
    with Ledger.open(path, policy_id="p", total=total, filter_of=policy.filter_of) as ledger:
        order = ledger.budget().alpha
        assert order is not None
        entries = [entry for entry in ledger.entries() if not entry.shared]
        assert ledger.budget().cost == sum((e.charged.cost(order) for e in entries), Fraction(0))
        assert ledger.check() == []


def test_it_has_the_structure_of_a_new_one(path: Path, tmp_path: Path) -> None:
    open_at(path).close()
    open_at(tmp_path / "new.sqlite").close()
    assert structure(path) == structure(tmp_path / "new.sqlite")


@pytest.mark.parametrize(("before", "gone"), [(3, ["part"]), (2, ["part", "refinement"])])
def test_versions_before_it_are_brought_up_to_date(path: Path, before: int, gone: list[str]) -> None:
    with raw(path) as connection:
        for table in gone:
            connection.execute(f"DROP TABLE {table}")
        connection.execute(f"PRAGMA user_version = {before}")
    with open_at(path) as ledger:
        assert ledger.check() == []
        assert len(ledger.entries()) == 10


def test_what_was_reserved_before_is_ended_after(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_at(path) as ledger:
        monkeypatch.setattr("dpsql.kernel.ledger.limits.current", lambda: "elsewhere|1|1")
        from dpsql.ledger import Reservation

        nine = Reservation(9, PrivacyLoss.of(Fraction(1, 2)))
        ledger.settle(nine, Charge(Fraction(1, 4)))
        ledger.fail(Reservation(10, PrivacyLoss.of(Fraction(1, 7))))
        assert ledger.budget().spent.epsilon == Fraction(344, 105) - Fraction(1, 4)
        assert ledger.check() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE scope SET epsilon = '3/1' WHERE name = 'policy'",
        "DELETE FROM scope WHERE name = 'analyst cem'",
        "INSERT INTO release VALUES (9, 99, '', 'ann', NULL, NULL)",
    ],
)
def test_a_damaged_one_stays_as_it_is(path: Path, change: str) -> None:
    with raw(path) as connection:
        connection.execute(change)
    with pytest.raises(OperationalError, match=r"damaged.*restore it"):
        open_at(path)
    assert version(path) == 4
    with raw(path) as connection:
        assert connection.execute("SELECT COUNT(reserved_epsilon) FROM entry").fetchone() == (10,)


OLD = [
    # What version 4 of dpsql runs, in this order, to reserve,
    "SELECT COALESCE(SUM(n), 0) FROM failure",
    "INSERT INTO scope VALUES ('analyst ann', '0/1', '0/1')"
    " ON CONFLICT DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta",
    "INSERT INTO entry (at, analyst, statement, reading, mechanism, reserved_epsilon, reserved_delta,"
    " charged_epsilon, charged_delta, state, shared, holder)"
    " VALUES ('', 'ann', '', '', '', '1/1', '0/1', '1/1', '0/1', 'reserved', 0, '')",
    # to settle, step, fail and cancel,
    "SELECT reserved_epsilon, reserved_delta, state, at, analyst, holder FROM entry WHERE entry = 9",
    "UPDATE entry SET state = 'settled', charged_epsilon = '0/1', release = 1 WHERE entry = 9",
    "INSERT INTO failure VALUES ('ann', 1) ON CONFLICT DO UPDATE SET n = n + excluded.n",
    # to share, to clear failures, and to remember that a source was vetted.
    "SELECT e.charged_epsilon, r.payload FROM release r JOIN entry e ON e.entry = r.entry",
    "DELETE FROM failure WHERE 1",
    "INSERT OR REPLACE INTO meta VALUES ('vetted visits', 'v2')",
    "SELECT 1 FROM meta",
]


def test_an_older_dpsql_that_has_it_open_can_write_nothing(path: Path) -> None:
    with raw(path) as old:
        for statement in OLD:
            old.execute("BEGIN")
            old.execute(statement)
            old.execute("ROLLBACK")
        open_at(path).close()
        for statement in OLD:
            with pytest.raises(sqlite3.OperationalError, match=r"no such|no column named|has \d columns but"):
                old.execute(statement)
    with open_at(path) as ledger:
        assert ledger.check() == []
        assert ledger.is_vetted("visits", "v1")


# --- from version 5 on ---------------------------------------------------------------------------------

ZCDP: dict[str, object] = {
    "policy_id": "p",
    "total": TOTAL,
    "max_failures": 9,
    "analysts": {"ann": Charge(Fraction(6), Fraction(1, 1000)), "*": Charge(Fraction(5))},
    "groups": {"team": GroupCap(("ann", "bob"), Charge(Fraction(8), Fraction(1, 1000)))},
    "filter_of": lambda budget: Filter.of(budget, "zcdp"),
    "high_water": False,
}
"""The policy of the ledger of version 5."""


def of_version_5(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_5.read_text())
    return path


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables; the table of totals has the name of version 5."""
    with raw(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}
    return {"scope" if name == "total" else name: rows for name, rows in found.items()}


def test_version_5_stays_as_it_is_and_gets_a_table_of_ladders(tmp_path: Path) -> None:
    path = of_version_5(tmp_path / "ledger.sqlite")
    before = content(path)
    with Ledger.open(path, **ZCDP) as ledger:  # type: ignore[arg-type]
        assert str(ledger.head()) == "23-2ea46e413fd8e711"
        shown = ["6.76715 of 10", "4.48346 of 6", "0.937735 of 5", "0.1 of 5"]
        for name, spent in zip((None, "ann", "bob", "cem"), shown, strict=True):
            assert f"epsilon {spent} spent" in repr(ledger.budget(name))
        assert (ledger.check(), ledger.ladders()) == ([], [])
        assert content(path) == {**before, "bounds": [], **NO_PARTS, **NO_STREAMS}
        kept = PrivacyLoss.of(Fraction(1, 16))
        asked = LadderRequest("visits", "rows", "v1", "s", kept)
        ledger.settle_ladder(reserve_one(ledger, asked), b"bins")
        assert ledger.budget("cem").spent.epsilon == Fraction(1, 10) + Fraction(1, 16)
        assert ledger.check() == []
    assert version(path) == VERSION


OLD_5 = [
    # Version 5 of dpsql reads or writes totals in each transaction that charges, ends or shares anything,
    "SELECT epsilon, delta, cost, alpha FROM scope WHERE name = 'policy'",
    "SELECT name FROM scope WHERE name >= 'group ['",
    "INSERT OR REPLACE INTO scope VALUES ('policy', '0/1', '0/1', NULL, NULL)",
    # and when another mark begins.
    "SELECT name, epsilon, delta, cost, alpha FROM scope ORDER BY name",
]


def test_a_dpsql_of_version_5_that_has_it_open_can_charge_nothing(tmp_path: Path) -> None:
    """It does not know that ladders count in every scope."""
    path = of_version_5(tmp_path / "ledger.sqlite")
    with raw(path) as old:
        for statement in OLD_5:
            old.execute("BEGIN")
            old.execute(statement)
            old.execute("ROLLBACK")
        Ledger.open(path, **ZCDP).close()  # type: ignore[arg-type]
        for statement in OLD_5:
            with pytest.raises(sqlite3.OperationalError, match="no such table: scope"):
                old.execute(statement)


# --- from version 6 on ---------------------------------------------------------------------------------

NO_REPORTS: dict[str, list[object]] = {"report": [], "report_run": []}
"""The tables that version 9 added, of a ledger without reports."""

NO_PARTS: dict[str, list[object]] = {"touch": [], "tree": [], "node": [], **NO_REPORTS}
"""Those that versions 8 and 9 added, of a ledger in which nothing was charged to parts."""

NO_PERIODS: dict[str, list[object]] = {"periods": []}
"""The table that version 11 added."""

NO_STREAMS: dict[str, list[object]] = {"stream": [], "asked": [], **NO_PERIODS}
"""The tables that versions 10 and 11 added."""

OF_VERSION_6 = {
    **ZCDP,
    "groups": {"team": GroupCap(("ann", "bob", "cem"), Charge(Fraction(8), Fraction(1, 1000)))},
}
"""The policy of the ledger of version 6."""


def of_version_6(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_6.read_text())
    return path


SEVENTH = "32-a5137d7c063ac01d"
"""The newest event of the ledger of version 7."""


def of_version_7(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_7.read_text())
    return path


WEEKS = PartBudgets("visit", Calendar("week"), "visits by week")
EIGHTH = "37-c123150efa8e2055"
"""The newest event of the ledger of version 8."""


def of_version_8(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_8.read_text())
    return path


def of_version_9(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_9.read_text())
    return path


def of_version_10(path: Path) -> Path:
    with raw(path) as connection:
        connection.executescript(VERSION_10.read_text())
    return path


RECORDED = {
    5: of_version_5,
    6: of_version_6,
    7: of_version_7,
    8: of_version_8,
    9: of_version_9,
    10: of_version_10,
}


def test_version_10_stays_as_it_is_and_a_person_bears_its_charges_once(tmp_path: Path) -> None:
    path = of_version_10(tmp_path / "ledger.sqlite")
    before = content(path)
    with Ledger.open(path, **OF_VERSION_6, parts=WEEKS) as ledger:  # type: ignore[arg-type]
        assert str(ledger.head()) == "40-b62fae0779032ac4"
        assert (ledger.check(), content(path)) == ([], {**before, **NO_PERIODS})
        assert len({parts.budget.spent.epsilon for parts in ledger.budget_by_parts()}) > 1
        with ledger._store.read() as connection:
            charges = list(part_totals.list_charges(connection, PERSON, None))
        assert len(charges) == len(ledger.entries()) - 1  # one is of a shared release
        assert {years for years, _ in charges} == {ALL_PARTS}
    assert version(path) == VERSION


def test_version_8_stays_as_it_is_and_has_no_reports(tmp_path: Path) -> None:
    path = of_version_8(tmp_path / "ledger.sqlite")
    before = content(path)
    with Ledger.open(path, **OF_VERSION_6, parts=WEEKS) as ledger:  # type: ignore[arg-type]
        assert str(ledger.head()) == EIGHTH
        assert (ledger.check(), ledger.reports()) == ([], [])
        assert content(path) == {**before, **NO_REPORTS, **NO_STREAMS}
        assert "epsilon 6.87196 of 10 spent" in repr(ledger.budget())
    assert version(path) == VERSION


def test_version_9_stays_as_it_is_with_its_report(tmp_path: Path) -> None:
    path = of_version_9(tmp_path / "ledger.sqlite")
    before = content(path)
    with Ledger.open(path, **OF_VERSION_6, parts=WEEKS) as ledger:  # type: ignore[arg-type]
        assert ledger.check() == []
        assert [report.name for report, _ in ledger.reports()] == ["weekly"]
        assert content(path) == {**before, **NO_STREAMS}
    assert version(path) == VERSION


def test_version_8_stays_as_it_is_and_has_no_lasting_streams(tmp_path: Path) -> None:
    """A stream of before belongs to its process: it has not ended, and stays charged in full."""
    path = tmp_path / "ledger.sqlite"
    with raw(path) as connection:
        connection.executescript(VERSION_8_STREAM.read_text())
    before = content(path)
    with Ledger.open(path, **OF_VERSION_6, parts=WEEKS) as ledger:  # type: ignore[arg-type]
        assert str(ledger.head()) == "36-4e2de74c059b10ff"
        assert (ledger.check(), content(path)) == ([], {**before, **NO_REPORTS, **NO_STREAMS})
        assert ledger.streams.list() == []
        assert ledger.entries()[0].mechanism == "stream of checks"
    assert version(path) == VERSION


def test_version_7_stays_as_it_is_and_counts_in_all_parts(tmp_path: Path) -> None:
    path = of_version_7(tmp_path / "ledger.sqlite")
    before = content(path)
    with Ledger.open(path, **OF_VERSION_6) as ledger:  # type: ignore[arg-type]
        head = str(ledger.head())
        assert head == SEVENTH
        assert (ledger.check(), content(path)) == ([], {**before, **NO_PARTS, **NO_STREAMS})
        spent = ledger.budget().spent
    weeks = PartBudgets("visit", Calendar("week"), "visits by week")
    with Ledger.open(path, **OF_VERSION_6, parts=weeks) as ledger:  # type: ignore[arg-type]
        (*periods, _, _) = ledger.budget_by_parts()
        assert [part.budget.spent for part in periods] == [spent]
        assert ledger.check() == []


def test_version_6_stays_as_it_is_and_its_next_charge_tells_of_the_facts(tmp_path: Path) -> None:
    path = of_version_6(tmp_path / "ledger.sqlite")
    before, facts = content(path), Facts((TableFacts("visits", ByRow(), (("cost", BIGINT),), kind="visit"),))
    with Ledger.open(path, **OF_VERSION_6) as ledger:  # type: ignore[arg-type]
        assert str(ledger.head()) == "28-fff6d407c30d8fb5"
        shown = ["6.69332 of 10", "4.4054 of 6", "1.15649 of 5", "0.31875 of 5"]
        for name, spent in zip((None, "ann", "bob", "cem"), shown, strict=True):
            assert f"epsilon {spent} spent" in repr(ledger.budget(name))
        states = [charge.state for charge in ledger.ladder_charges()]
        assert states == ["settled", "failed", "cancelled", "reserved"]
        assert (ledger.check(), ledger.facts) == ([], None)
        assert content(path) == {**before, **NO_PARTS, **NO_STREAMS}
        asked = [Request("r", "m", Charge(Fraction(1, 8)))]
        ledger.reserve_all(analyst="dee", statement="s", requests=asked, facts=facts)
        assert (ledger.facts, ledger.check()) == (facts.digest, [])
        event = ledger.event(28)
        assert event is not None
        assert str(event) == "28-fff6d407c30d8fb5"
    after = content(path)
    assert after["event"][:28] == before["event"]
    assert after["entry"][:12] == before["entry"]
    assert version(path) == VERSION


@pytest.mark.parametrize("recorded", [DUMP, VERSION_6, VERSION_8])
def test_steps_of_old_streams_that_were_tampered_with_are_found(tmp_path: Path, recorded: Path) -> None:
    """Streams that belonged to processes wrote what they had spent; nothing writes that any more."""
    path = tmp_path / "ledger.sqlite"
    with raw(path) as connection:
        connection.executescript(recorded.read_text())
    with Ledger.open(path, **OF_VERSION_6, parts=WEEKS if recorded is VERSION_8 else None) as ledger:  # type: ignore[arg-type]
        assert ledger.check() == []
        for change in ("DELETE FROM progress", "UPDATE progress SET epsilon = '1/20'"):
            with pytest.raises(OperationalError), ledger._store.write() as connection:
                connection.execute(change)
        with ledger._store.write() as connection:
            connection.execute("DROP TRIGGER progress_is_final")
            connection.execute("UPDATE progress SET epsilon = '7/1', step = step + 5 WHERE step = 1")
        found = " ".join(ledger.check())
        assert "less than its steps" in found
        assert "not in order" in found


@pytest.mark.parametrize("before", [5, 6, 7, 8, 9, 10])
def test_later_versions_have_the_structure_of_a_new_one(tmp_path: Path, before: int) -> None:
    path = RECORDED[before](tmp_path / "ledger.sqlite")
    Ledger.open(path, policy_id="p", total=TOTAL, high_water=tmp_path / "mark").close()
    open_at(tmp_path / "new.sqlite").close()
    assert structure(path) == structure(tmp_path / "new.sqlite")


@pytest.mark.parametrize("recorded", [DUMP, VERSION_5, VERSION_6, VERSION_7, VERSION_8])
def test_all_that_a_recorded_ledger_holds_stays(tmp_path: Path, recorded: Path) -> None:
    """All tables byte by byte; entries and events of those versions whose form is the present one."""
    path = tmp_path / "ledger.sqlite"
    with raw(path) as connection:
        connection.executescript(recorded.read_text())
        connection.execute("CREATE TABLE IF NOT EXISTS bounds (number INTEGER)")
        before = content(path)
        if not before["bounds"]:
            connection.execute("DROP TABLE bounds")
    parts = WEEKS if recorded is VERSION_8 else None
    Ledger.open(path, **OF_VERSION_6, parts=parts).close()  # type: ignore[arg-type]
    after = content(path)
    for name in ("progress", "refinement", "part", "cancelled", "running", "bounds"):
        assert after[name] == before[name], name
    width = len(before["release"][0])
    assert [row[:width] for row in after["release"]] == before["release"]
    if recorded is not DUMP:
        assert after["entry"] == before["entry"]
        assert after["event"][: len(before["event"])] == before["event"]
        assert after["restored"] == before["restored"] != []


def test_a_version_that_came_while_it_was_open_is_refused(path: Path) -> None:
    with open_at(path) as ledger:
        held = reserve_one(ledger, LadderRequest("t", "rows", "v", "s", PrivacyLoss.of(Fraction(1, 4))))
        with raw(path) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        for use in (ledger.budget, ledger.ladders, lambda: ledger.settle_ladder(held, b"bins")):
            with pytest.raises(OperationalError, match="written by a newer dpsql"):
                use()
        with raw(path) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION}")
        ledger.settle_ladder(held, b"bins")
        assert ledger.check() == []


KILLED = """
import os, signal, sys
from fractions import Fraction
from pathlib import Path
from dpsql.ledger import Ledger
from dpsql.kernel.loss import Charge

path, every = Path(sys.argv[1]), sys.argv[2] == "call"
before, entries, spent = int(sys.argv[4]), int(sys.argv[5]), Fraction(sys.argv[6])
whole = path.read_bytes()

def die_at(point):
    left = [point]
    def profile(frame, event, argument):
        if event in ("c_call", "c_return") and (every or getattr(argument, "__name__", "") == "execute"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(profile)

def opened():
    total, mark = Charge(Fraction(10), Fraction(1, 1000)), f"{path}-mark"
    return Ledger.open(path, policy_id="p", total=total, high_water=mark)

point, stride, seen = 1, int(sys.argv[3]), []
while True:
    child = os.fork()
    if child == 0:
        die_at(point)
        opened()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import sqlite3
    raw = sqlite3.connect(path)
    version = raw.execute("PRAGMA user_version").fetchone()[0]
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    columns = {row[1] for row in raw.execute("PRAGMA table_info(entry)")}
    raw.close()
    # A whole file of one version.
    old = {"meta" in tables, "failure" in tables, "reserved_epsilon" in columns}
    new = {"event" in tables, "setting" in tables, "reserved_loss" in columns}
    old |= {"scope" in tables}
    new |= {"total" in tables, "bounds" in tables}
    if before == 5:
        old, new = {"scope" in tables}, {"total" in tables, "bounds" in tables}
    if before >= 6:
        old, new = set(), {"periods" in tables}
        assert {"total", "bounds"} <= tables, point
        assert before < 8 or {"touch", "node"} <= tables, point
        assert ({"report", "report_run"} <= tables) == (before >= 9 or "periods" in tables), point
    assert (old or {version == before}, new) == ({version == before}, {version == 11}), point
    assert not {name for name in tables if name.endswith(("_before", "_now"))}, point
    with opened() as ledger:
        assert ledger.check() == [], point
        assert ledger.budget().spent.epsilon == spent, point
        assert len(ledger.entries()) == entries, point
        assert len(ledger.releases("ann")) == {4: 5, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 10: 4}[before], point
    seen.append(version)
    if code == 0:
        break
    assert code == -signal.SIGKILL, (point, code)
    for left in path.parent.glob(path.name + "-*"):
        left.unlink()
    path.write_bytes(whole)
    point += stride
print(len(seen), *sorted(set(seen)))
"""


@pytest.mark.parametrize(
    ("where", "stride"),
    [
        ("execute", 25),
        pytest.param("execute", 9, marks=pytest.mark.longer),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("execute", 3), ("call", 1))),
    ],
)
@pytest.mark.parametrize(
    ("before", "entries", "spent"),
    [
        (4, 10, "344/105"),
        *(
            pytest.param(before, entries, "10", marks=pytest.mark.longer)
            for before, entries in ((5, 12), (6, 12), (7, 13), (8, 15), (9, 15))
        ),
        (10, 16, "10"),
    ],
)
def test_killed_at_any_step_it_is_of_the_old_version_or_of_the_new_one(
    path: Path,
    tmp_path: Path,
    commands: Commands,
    where: str,
    stride: int,
    before: int,
    entries: int,
    spent: str,
) -> None:
    path = path if before == 4 else RECORDED[before](tmp_path / "later.sqlite")
    command = [*commands.command, "python", KILLED, *map(str, (path, where, stride, before, entries, spent))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    steps, *versions = ran.stdout.split()
    assert versions == [str(before), "11"]
    assert int(steps) * stride > {4: 120, 5: 45, 6: 30, 7: 30, 8: 20, 9: 12, 10: 8}[before]
