"""Everything that can be wrong with the ledger's file: one clear error, and nothing released or lost."""

import itertools
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import InternalError, OperationalError, PolicyError
from dpsql.kernel.ledger import store
from dpsql.kernel.ledger.schema import VERSION
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.ledger import LadderRequest, Ledger, RefinementStep, Request, Reservation
from tests.commands import Commands
from tests.kept_ladders import reserve_one
from tests.support.ledger_streams import ASKED, answer_check, open_stream

TENTH = Charge(Fraction(1, 10))


def open_at(path: Path, policy_id: str = "p") -> Ledger:
    return Ledger.open(path, policy_id=policy_id, total=Charge(Fraction(1000)), high_water=False)


def reserve(ledger: Ledger) -> Reservation:
    return ledger.reserve(analyst="ann", statement="s", selection="r", mechanism="m", charge=TENTH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger in which a tenth is spent."""
    path = tmp_path / "ledger.sqlite"
    with open_at(path) as ledger:
        ledger.settle(reserve(ledger), TENTH, release=b"rows", reuse_key="k")
    return path


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as somebody else's tool sees it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def common_user() -> Iterator[None]:
    """Act as a user whom file permissions bind; as root, for a while as nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that any user can reach, with a ledger in it, everything writable."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        with open_at(folder / "ledger.sqlite") as ledger:
            reserve(ledger)
        (folder / "ledger.sqlite").chmod(0o666)
        yield folder
        folder.chmod(0o777)


def one_line(error: BaseException) -> str:
    """The error's text, which is one line, names the file and drags no engine error along."""
    text = str(error)
    assert "\n" not in text
    assert "ledger.sqlite" in text
    assert error.__suppress_context__ or error.__context__ is None
    assert error.__cause__ is None
    return text


def test_a_new_ledger_is_complete_and_leaves_no_drafts(tmp_path: Path) -> None:
    path = tmp_path / "my ledger? 100%#.sqlite"
    with open_at(path) as ledger:
        assert ledger.budget().spent == Charge()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with raw(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_log_is_moved_into_the_file_now_and_then(tmp_path: Path) -> None:
    log = tmp_path / "ledger.sqlite-wal"
    with open_at(tmp_path / "ledger.sqlite") as ledger:
        sizes = []
        for _ in range(300):
            ledger.settle(reserve(ledger), TENTH)
            sizes.append(log.stat().st_size)
        # The 128th and the 256th charge did it.
        assert sizes[127] < sizes[126] / 10
        assert sizes[255] < sizes[254] / 10
        assert max(sizes[128:]) < 1.1 * max(sizes[:128])
        assert ledger.check() == []


def test_a_connection_keeps_every_write_durable(path: Path) -> None:
    with open_at(path) as ledger:
        connection = ledger._store._connection
        assert connection is not None
        settings = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "wal_autocheckpoint": 0}


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="folder") as caught:
        open_at(tmp_path / "none" / "ledger.sqlite")
    one_line(caught.value)


def test_a_folder_in_the_files_place(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").mkdir()
    with pytest.raises(OperationalError) as caught:
        open_at(tmp_path / "ledger.sqlite")
    one_line(caught.value)


def test_a_read_only_file(shared_folder: Path) -> None:
    path = shared_folder / "ledger.sqlite"
    path.chmod(0o444)
    with common_user(), pytest.raises(OperationalError, match="read-only") as caught:
        open_at(path)
    one_line(caught.value)
    path.chmod(0o666)
    with open_at(path) as ledger:
        assert ledger.budget().spent == TENTH


def test_a_read_only_folder(shared_folder: Path) -> None:
    shared_folder.chmod(0o555)
    with common_user(), pytest.raises(OperationalError, match="its folder is read-only") as caught:
        open_at(shared_folder / "ledger.sqlite")
    one_line(caught.value)
    with common_user(), pytest.raises(OperationalError, match="may this user write"):
        open_at(shared_folder / "new-ledger.sqlite")
    assert [entry.name for entry in shared_folder.iterdir()] == ["ledger.sqlite"]


def test_a_file_that_becomes_read_only_later(shared_folder: Path) -> None:
    path = shared_folder / "ledger.sqlite"
    with common_user():
        ledger = open_at(path)
        assert ledger._store._connection is not None
        ledger._store._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(OperationalError, match="read-only") as caught:
            reserve(ledger)
        one_line(caught.value)
        assert ledger.budget().spent == TENTH
        reserve(ledger)  # the connection was made anew
        ledger.close()


def test_a_full_disk(path: Path) -> None:
    with open_at(path) as ledger:
        connection = ledger._store._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        reservation = reserve(ledger)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OperationalError, match="disk is full") as caught:
            ledger.settle(reservation, TENTH, release=b"x" * 100_000, reuse_key="big")
        one_line(caught.value)
        assert ledger.find("big", "ann") is None
        assert ledger.budget().spent == Charge(Fraction(2, 10))
        assert [entry.state for entry in ledger.entries()] == ["reserved", "settled"]
        ledger.settle(reservation, TENTH, release=b"x", reuse_key="big")
        assert ledger.check() == []


FULL_DISK = """
import resource, signal, sys
from fractions import Fraction
from pathlib import Path
from dpsql.kernel.loss import Charge
from dpsql.errors import OperationalError
from dpsql.ledger import Ledger

path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
tenth = Charge(Fraction(1, 10))
ledger = Ledger.open(path, policy_id="p", total=Charge(Fraction(1000)), max_failures=1000)
def reserve():
    return ledger.reserve(analyst="ann", statement="s", selection="r", mechanism="m", charge=tenth)
said, done = [], 0
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for room in range(0, 40_000, 2000):
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        held = reserve()
        done += 1
        ledger.settle(held, tenth, release=b"rows" * 1000, reuse_key="k")
    except OperationalError as error:
        said.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(len(said), len(set(said)), done, len(ledger.entries()), ledger.check(), len(ledger.releases("ann")))
print(*set(said), sep="\\n")
assert ledger.budget().spent == Charge(Fraction(len(ledger.entries()), 10))
settled = sum(entry.state == "settled" for entry in ledger.entries())
assert settled == len(ledger.releases("ann")) > 0
ledger.settle(reserve(), tenth)
ledger.close()
"""


def test_a_disk_that_fills_up_at_any_point(tmp_path: Path, commands: Commands) -> None:
    """The file may not grow beyond a limit that cuts the writing of a charge anywhere."""
    path = tmp_path / "ledger.sqlite"
    command = [*commands.command, "python", FULL_DISK, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    first, *texts = ran.stdout.splitlines()
    failed, kinds, done, entries, *problems, releases = first.split()
    assert int(failed) > 3
    assert (int(kinds), problems) == (1, ["[]"])
    # Every reservation that was given is in the ledger, and every release that was stored.
    assert int(entries) >= int(done) >= int(releases) > 0
    assert len(texts) == 1
    assert "the disk reports an error or is full" in texts[0] or "the disk is full" in texts[0]


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"not a database at all" * 500])
def test_a_file_that_is_no_ledger(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(OperationalError, match=r"ledger of dpsql|damaged") as caught:
        open_at(path)
    one_line(caught.value)
    assert str(path.parent) not in str(caught.value)  # analysts of a server read it
    assert path.read_bytes() == content


def test_another_programs_database(tmp_path: Path) -> None:
    with raw(tmp_path / "ledger.sqlite") as connection:
        connection.execute("CREATE TABLE entry (entry INTEGER)")
    with pytest.raises(OperationalError, match="no ledger of dpsql"):
        open_at(tmp_path / "ledger.sqlite")


def test_a_damaged_file(path: Path) -> None:
    with open_at(path) as ledger:
        two = [Request("r", "m", TENTH, place=i, places=2) for i in (1, 2)]
        ledger.fail(ledger.reserve_all(analyst="ann", statement="s", requests=two))
        ledger.cancel(reserve(ledger))
        answer_check(ledger, opened := open_stream(ledger))
        ledger.streams.begin(opened.entry, ASKED, None)
        number = ledger.settle(reserve(ledger), TENTH, release=b"x", reuse_key="k")
        step = RefinementStep(number, 2 * TENTH.epsilon)
        ledger.reserve(analyst="ann", statement="s", selection="r", mechanism="m", charge=TENTH, refines=step)
        ladder = LadderRequest("visits", "rows", "v1", "dpsql bounds visits", PrivacyLoss.of(TENTH.epsilon))
        ledger.settle_ladder(reserve_one(ledger, ladder), b"bins")
    with raw(path) as connection:  # of an empty table nothing can be lost
        pages = (
            "SELECT rootpage FROM sqlite_master WHERE tbl_name IN ('restored', 'touch', 'tree', 'node',"
            " 'periods', 'progress', 'report', 'report_run')"
        )
        empty = {page - 1 for (page,) in connection.execute(pages)}
    whole = path.read_bytes()
    refused = 0
    for page in {*range(len(whole) // 4096)} - empty:
        for fill in (b"\0", b"\xff"):
            path.write_bytes(whole[: page * 4096 + 100] + fill * 3996 + whole[(page + 1) * 4096 :])
            try:
                with open_at(path) as ledger:
                    assert ledger.check() != []
                    ledger.budget()
            except OperationalError as error:
                one_line(error)
                refused += 1
    assert refused > 4


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE total SET epsilon = '0.1'",
        "UPDATE total SET delta = NULL",
        "UPDATE total SET epsilon = '2/4'",
        "DELETE FROM setting",
        "DROP TABLE total",
        "DELETE FROM total",
        "PRAGMA user_version = 0",
    ],
)
def test_a_ledger_somebody_edited(path: Path, change: str) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(change.replace("= NULL", "= ''"))
    with pytest.raises(OperationalError, match="damaged") as caught, open_at(path) as ledger:
        reserve(ledger)
    one_line(caught.value)


def test_a_newer_ledger(path: Path) -> None:
    with raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(OperationalError, match="newer dpsql") as caught:
        open_at(path)
    one_line(caught.value)


def test_another_policys_ledger(path: Path) -> None:
    with pytest.raises(PolicyError, match="belongs to the policy p, not to q") as caught:
        open_at(path, "q")
    assert caught.value.hint
    pickle.loads(pickle.dumps(caught.value))


def test_a_log_without_its_ledger_is_not_a_new_ledger(path: Path) -> None:
    path.unlink()
    path.with_name(path.name + "-wal").write_bytes(b"something")
    with pytest.raises(OperationalError, match="restore both") as caught:
        open_at(path)
    one_line(caught.value)
    assert not path.exists()


def test_a_ledger_that_vanishes_or_is_replaced_in_use(path: Path, tmp_path: Path) -> None:
    with open_at(path) as ledger:
        held = reserve(ledger)
        path.rename(tmp_path / "away")
        with pytest.raises(OperationalError, match=r"ledger\.sqlite cannot be used") as caught:
            reserve(ledger)
        one_line(caught.value)
        for left in tmp_path.glob("ledger.sqlite-*"):
            left.unlink()
        open_at(path).close()
        with pytest.raises(OperationalError, match="replaced"):
            reserve(ledger)
        # What was reserved in the old file is unknown to the new one.
        with pytest.raises(InternalError, match="no such reservation"):
            ledger.settle(held, TENTH)


def test_a_busy_ledger_waits_and_then_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.BUSY_SECONDS == 5
    with open_at(path) as ledger, raw(path) as other:
        monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="busy") as caught:
            reserve(ledger)
        one_line(caught.value)
        assert ledger.budget().spent == TENTH  # reading needs no waiting
        monkeypatch.setattr(store, "BUSY_SECONDS", 60)
        release = threading.Timer(0.1, other.execute, ["ROLLBACK"])
        other.execute("PRAGMA busy_timeout = 0")
        release.start()
        reserve(ledger)
        release.join()


def test_the_entries_cannot_be_changed_by_accident(path: Path) -> None:
    changes = [
        "DELETE FROM entry",
        "DELETE FROM release",
        "UPDATE release SET payload = x'00'",
        "UPDATE entry SET state = 'failed', release = NULL",
        "UPDATE entry SET charged_loss = 'none'",
        "UPDATE entry SET statement = ''",
    ]
    with open_at(path) as ledger:
        reserve(ledger)
        with raw(path) as connection:
            for change in changes:
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    connection.execute(change)
            with pytest.raises(sqlite3.IntegrityError):
                # Refunded without a release.
                connection.execute(
                    "UPDATE entry SET state = 'failed', charged_loss = 'none' WHERE state = 'reserved'"
                )
        assert ledger.check() == []


TAMPERINGS: list[tuple[str, str]] = [
    ("UPDATE total SET epsilon = '0/1' WHERE name = 'policy'", "the total of policy"),
    ("UPDATE total SET delta = '1/9' WHERE name = 'analyst ann'", "the total of analyst ann"),
    ("DELETE FROM total WHERE name = 'analyst ann'", "the total of analyst ann"),
    (
        "INSERT INTO total (name, epsilon, delta) VALUES ('analyst bob', '1/2', '0/1')",
        "the total of analyst bob",
    ),
    ("UPDATE total SET epsilon = 'x' WHERE name = 'policy'", "unreadable"),
    ("DELETE FROM entry WHERE state = 'reserved'", "the total of policy"),
    ("UPDATE entry SET charged_loss = 'pure 1' WHERE state = 'settled'", "more than was reserved"),
    ("UPDATE entry SET charged_loss = 'none' WHERE state = 'reserved'", "not charged in full"),
    ("UPDATE entry SET release = 1 WHERE state = 'reserved'", "reserved but has a release"),
    ("UPDATE entry SET release = NULL WHERE state = 'settled'", "settled but has no release"),
    ("UPDATE release SET analyst = 'bob'", "release 1 has no settled entry"),
    ("DELETE FROM release", "entry refers to a missing release"),
    ("UPDATE running SET n = 5", "counted as running"),
]


@pytest.mark.parametrize(("change", "says"), TAMPERINGS)
def test_check_finds_what_was_tampered_with(path: Path, change: str, says: str) -> None:
    with open_at(path) as ledger:
        reserve(ledger)
        assert ledger.check() == []
        with raw(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (trigger,) in triggers:
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(change)
        assert any(says in problem for problem in ledger.check())


def test_a_handler_that_enters_a_charge_underway_is_a_bug(path: Path) -> None:
    with open_at(path) as ledger:
        inner: list[Callable[[], object]] = [ledger.budget, lambda: reserve(ledger)]
        for call in inner:
            with ledger._store.write(), pytest.raises(InternalError, match="twice"):
                call()
        reserve(ledger)
        assert ledger.check() == []


# An interrupt right after a file was opened, before its block is entered, leaves it to be closed by itself.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_point_leaves_the_ledger_whole(path: Path, stride: int) -> None:
    """Ctrl-C arrives between any two calls into SQLite, before and after each of them."""
    with Ledger.open(path, policy_id="p", total=Charge(Fraction(1000)), max_failures=1000) as ledger:
        handed_out = 1
        for point in itertools.count(1, stride):
            left = [point]

            def interrupt(frame: object, event: str, argument: object, left: list[int] = left) -> None:
                if event in ("c_call", "c_return") and argument is not sys.setprofile:
                    left[0] -= 1
                    if left[0] == 0:
                        sys.setprofile(None)
                        raise KeyboardInterrupt

            sys.setprofile(interrupt)
            try:
                ledger.settle(reserve(ledger), TENTH, release=b"rows", reuse_key="k")
                handed_out += 1
                if left[0] > 20:  # charges differ a little in their number of calls
                    break
            except KeyboardInterrupt:
                continue
            finally:
                sys.setprofile(None)
                assert ledger.budget().spent == Charge(Fraction(len(ledger.entries()), 10))
        # Some were interrupted before, some after what they did was durable.
        states = [entry.state for entry in ledger.entries()]
        assert states.count("settled") > handed_out
        assert 0 < states.count("reserved") < point
        assert ledger.check() == []


def test_the_file_is_the_owners_alone_to_place(path: Path) -> None:
    link = path.with_name("link.sqlite")
    link.symlink_to(path)
    with open_at(link) as ledger:
        assert ledger.budget().spent == TENTH
        reserve(ledger)
    assert stat.S_ISLNK(os.lstat(link).st_mode)
    with open_at(path) as ledger:
        assert ledger.budget().spent == Charge(Fraction(2, 10))
