"""The mark outside of the ledger: an older copy is noticed, and no charge is lost by restoring one."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import store
from dpsql.kernel.ledger.events import stored_totals
from dpsql.kernel.ledger.totals import Row
from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, Totals
from dpsql.ledger import GroupCap, Ledger, Opening, Request, Reservation
from dpsql.ledger.mark import Mark, MarkFile, StoredMark, append_durably, replace_durably, unlock
from dpsql.ledger.mark import lock as lock_file
from tests.support.ledger_streams import open_stream

TENTH = Charge(Fraction(1, 10))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for state."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder / "ledger.sqlite"


def open_at(
    path: Path, opening: Opening = Opening.USE, high_water: Path | bool | None = None, **given: object
) -> Ledger:
    return Ledger.open(
        path,
        **{"policy_id": "p", "total": Charge(Fraction(10)), **given},  # type: ignore[arg-type]  # any keyword
        high_water=high_water,
        opening=opening,
    )


def reserve(ledger: Ledger, analyst: str = "ann") -> Reservation:
    return ledger.reserve(analyst=analyst, statement="s", selection="r", mechanism="m", charge=TENTH)


def spend(ledger: Ledger, analyst: str = "ann", key: str | None = None) -> int:
    return ledger.settle(reserve(ledger, analyst), TENTH, release=b"rows", reuse_key=key)


def spent(ledger: Ledger, analyst: str | None = None) -> Fraction:
    if analyst is None:
        return ledger.budget().spent.epsilon
    return sum((entry.charged.charge.epsilon for entry in ledger.entries(analyst)), Fraction(0))


def mark_file(state: Path) -> Path:
    (found,) = (state / "dpsql" / "ledgers").glob("*.mark")
    return found


def read(state: Path) -> Mark:
    return Mark.read(mark_file(state).read_text())


@contextmanager
def ledger_in_use(path: Path, times: int = 1) -> Iterator[Ledger]:
    with open_at(path) as ledger:
        for _ in range(times):
            spend(ledger)
        yield ledger


def restored(path: Path, copy: Path) -> None:
    """Put an older copy in the ledger's place."""
    for left in path.parent.glob(path.name + "-*"):
        left.unlink()
    shutil.copy(copy, path)


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A copy of the ledger after two charges; then three more are made."""
    with ledger_in_use(path, 2):
        pass
    copy = tmp_path / "copy.sqlite"
    shutil.copy(path, copy)
    with ledger_in_use(path, 3):
        pass
    return copy


def test_each_answer_is_in_the_mark_before_it_is_handed_out(path: Path, state: Path) -> None:
    with open_at(path) as ledger:
        first = read(state)
        assert first.event == ledger.head()
        held = reserve(ledger)
        assert read(state) == first, "a reservation hands nothing out"
        ledger.settle(held, TENTH, release=b"rows", reuse_key="k")
        after = read(state)
        assert after.event == ledger.head()
        assert after.totals["policy"][:2] == ("1/10", "0/1")
        assert after.path == str(path)
        ledger.fail(reserve(ledger))
        assert read(state) == after
    with open_at(path) as ledger:
        assert read(state).event == ledger.head(), "a mark that is behind is advanced"
        assert ledger.messages == ()


def test_a_stream_is_in_the_mark_before_its_first_answer(path: Path, state: Path) -> None:
    with open_at(path) as ledger:
        open_stream(ledger)
        assert read(state).event == ledger.head()
        assert read(state).totals["policy"][:2] == ("1/10", "0/1")


def test_nothing_is_handed_out_that_the_mark_does_not_hold(
    path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object) -> None:
        raise OSError(28, "No space left on device")

    with open_at(path) as ledger:
        before = read(state)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(
                OperationalError, match=r"No space.*nothing is given out\nHint: .*high_water ="
            ):
                spend(ledger, key="k")
            asks: list[Callable[[], object]] = [
                lambda: ledger.find("k", "ann"),
                lambda: ledger.release(1, "ann"),
                lambda: ledger.list_until("ann"),
            ]
            # It is stored and charged; asked again it is not given out either.
            for ask in asks:
                with pytest.raises(OperationalError, match="nothing is given out"):
                    ask()
        assert read(state) == before
        assert spent(ledger) == Fraction(1, 10)
        assert ledger.find("k", "ann") is not None
        assert read(state).event == ledger.head()
        assert ledger.check() == []


def test_a_release_of_another_process_is_in_the_mark_before_it_is_given_again(
    path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_at(path) as one, open_at(path) as other:
        with monkeypatch.context() as patch:
            patch.setattr(other._mark, "cover", lambda store, event: None)  # killed before the mark
            spend(other, key="k")
        assert read(state).event != one.head()
        assert one.find("k", "ann") is not None
        assert read(state).event == one.head()


def test_an_older_copy_is_refused_and_then_goes_on_with_what_was_spent(path: Path, copy: Path) -> None:
    with open_at(path) as ledger:
        newest = ledger.head()
    restored(path, copy)
    text = r"this ledger is older than the mark: 6 events are missing .*\nHint: .*--accept-restored"
    with pytest.raises(OperationalError, match=text):
        open_at(path)
    with open_at(path, Opening.INSPECT) as ledger:
        assert ledger.check() == ["this ledger is older than the mark: 6 events are missing"]
        assert ledger.event(newest.n) is None, "its receipts show it, too"
    with open_at(path, Opening.ACCEPT) as ledger:
        assert ledger.accepted == {"policy": Totals(Fraction(3, 10)), "analyst ann": Totals(Fraction(3, 10))}
        assert spent(ledger) == Fraction(5, 10)
        assert ledger.check() == []
    with open_at(path) as ledger:
        spend(ledger)
        assert spent(ledger) == Fraction(6, 10)
        assert ledger.check() == []
    with open_at(path, Opening.ACCEPT) as ledger:
        assert ledger.accepted is None, "there is nothing to accept"
        assert spent(ledger) == Fraction(6, 10)


def test_analysts_caps_hold_for_what_was_lost(path: Path, tmp_path: Path) -> None:
    caps = {"ann": Charge(Fraction(1, 2)), "bob": Charge(Fraction(1, 2))}
    with open_at(path, analysts=caps) as ledger:
        spend(ledger, "ann")
    shutil.copy(path, tmp_path / "copy.sqlite")
    with open_at(path, analysts=caps) as ledger:
        for _ in range(3):
            spend(ledger, "bob")
    restored(path, tmp_path / "copy.sqlite")
    with open_at(path, Opening.ACCEPT, analysts=caps) as ledger:
        assert ledger.budget("bob").spent.epsilon == Fraction(3, 10)
        assert ledger.budget("ann").spent.epsilon == Fraction(1, 10)


def test_a_reservation_from_before_cannot_be_settled_after(path: Path, tmp_path: Path) -> None:
    """Its settling would take something from totals that hold what it was settled to already."""
    with open_at(path) as ledger:
        spend(ledger)
        held = reserve(ledger)
        shutil.copy(path, tmp_path / "copy.sqlite")
        with closing_log(path, tmp_path / "copy.sqlite"):
            pass
        ledger.settle(held, Charge(Fraction(1, 20)))
        spend(ledger)
    restored(path, tmp_path / "copy.sqlite")
    with open_at(path, Opening.ACCEPT) as ledger:
        assert spent(ledger) == Fraction(25, 100)
        with pytest.raises(Exception, match="ended twice"):
            ledger.settle(held, Charge(Fraction(1, 20)))
        assert ledger.check() == []
        assert reserve(ledger).entry == 3, "it holds no slot either"


@contextmanager
def closing_log(path: Path, copy: Path) -> Iterator[None]:
    """Make a copy that was taken of an open file whole, by its log."""
    shutil.copy(path.with_name(path.name + "-wal"), copy.with_name(copy.name + "-wal"))
    import sqlite3

    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    yield


def test_an_older_copy_that_went_on_alone_is_noticed_and_both_count(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Continued without the mark, or under that of another user, it has as many events again."""
    for continued, events in ((1, 4), (5, 12)):
        for high_water in (False, tmp_path / f"other {continued}"):
            folder = tmp_path / f"{continued} {high_water is False}"
            shutil.copytree(tmp_path / "state", folder)
            monkeypatch.setenv("XDG_STATE_HOME", str(folder))
            restored(path, copy)
            with open_at(path, high_water=high_water) as ledger:
                for _ in range(continued):
                    spend(ledger)
                assert ledger.head().n > events
            with pytest.raises(OperationalError, match=r"older than the mark|went on alone"):
                open_at(path)
            with open_at(path, Opening.ACCEPT) as ledger:
                # 2 before, 3 that were lost, and those that it went on with. How many were before is not
                # known exactly, so that they may count twice.
                assert Fraction(5 + continued, 10) <= spent(ledger) <= Fraction(7 + continued, 10)
                assert ledger.check() == []


def test_a_copy_beside_the_ledger_is_refused_once_one_of_them_was_used(path: Path, tmp_path: Path) -> None:
    """A folder that is copied with its ledger has one budget, not two."""
    with ledger_in_use(path, 2):
        pass
    copied = tmp_path / "copied"
    shutil.copytree(path.parent, copied)
    with ledger_in_use(copied / path.name):
        pass
    with pytest.raises(OperationalError, match="2 events are missing") as caught:
        open_at(path)
    assert "A copy for other data needs another file in [budget] ledger" in str(caught.value)
    with open_at(path, Opening.ACCEPT) as ledger:
        assert spent(ledger) == Fraction(3, 10)
        spend(ledger)
    with pytest.raises(OperationalError, match="older than the mark"):
        open_at(copied / path.name)
    with open_at(copied / path.name, Opening.ACCEPT) as ledger:
        assert spent(ledger) >= Fraction(4, 10)


def test_a_folder_that_is_moved_keeps_its_mark(path: Path, tmp_path: Path, state: Path) -> None:
    with ledger_in_use(path, 2):
        pass
    moved = path.parent.rename(tmp_path / "moved") / path.name
    with open_at(moved) as ledger:
        assert ledger.messages == ()
        assert spent(ledger) == Fraction(2, 10)
        assert read(state).path == str(moved)
    # Its former place is free for another ledger.
    path.parent.mkdir()
    with open_at(path) as ledger:
        assert ledger.messages == (f"new ledger {path}: nothing is spent yet",)


@pytest.mark.parametrize("named", [False, True])
def test_a_lost_ledger_is_not_made_anew(path: Path, tmp_path: Path, named: bool) -> None:
    where = tmp_path / "elsewhere" / "mark" if named else None
    with open_at(path, high_water=where) as ledger:
        spend(ledger)
        spend(ledger, "bob")
    path.unlink()
    for _ in range(2):
        with pytest.raises(
            OperationalError, match=r"is missing, but its mark is there: 7 events are missing"
        ):
            open_at(path, high_water=where)
        assert not path.exists()
    with open_at(path, Opening.ACCEPT, high_water=where) as ledger:
        assert ledger.messages == ()
        assert spent(ledger) == Fraction(2, 10)
        assert ledger.budget("bob").spent == ledger.budget().spent
        assert ledger.check() == []
    with open_at(path, high_water=where) as ledger:
        assert spent(ledger) == Fraction(2, 10)
        assert ledger.check() == []
    for left in path.parent.glob("*"):
        left.unlink()
    with pytest.raises(OperationalError, match="is missing"):
        open_at(path, high_water=where)


def test_another_ledger_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    with ledger_in_use(path, 2):
        pass
    with open_at(tmp_path / "other.sqlite", high_water=False) as other:
        spend(other)
    restored(path, tmp_path / "other.sqlite")
    with pytest.raises(OperationalError, match="another ledger was here, and its mark tells of 7 events"):
        open_at(path)
    with open_at(path, Opening.ACCEPT) as ledger:
        assert spent(ledger) == Fraction(3, 10)
    with open_at(path) as ledger:
        assert ledger.check() == []


def test_two_ledgers_have_no_mark_in_common(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with open_at(path, high_water=mark) as ledger:
        spend(ledger)
    with pytest.raises(OperationalError, match=r"its mark is there, of the ledger .*project"):
        open_at(tmp_path / "other.sqlite", high_water=mark)
    open_at(tmp_path / "other.sqlite", high_water=False).close()
    with pytest.raises(OperationalError, match=r"its mark is that of another ledger, ledger\.sqlite"):
        open_at(tmp_path / "other.sqlite", high_water=mark)


def test_a_lost_mark_begins_anew_and_says_so(path: Path, state: Path) -> None:
    with ledger_in_use(path) as ledger:
        mark_file(state).unlink()
        spend(ledger)
        assert read(state).event == ledger.head(), "written again while it is in use"
    mark_file(state).unlink()
    with open_at(path) as ledger:
        (text,) = ledger.messages
        assert text.startswith("no mark of the ledger was found in ")
        assert text.endswith("a new mark begins")
        assert ledger.check() == []
    with open_at(path) as ledger:
        assert ledger.messages == ()


def test_what_is_not_seen(path: Path, copy: Path, tmp_path: Path, state: Path) -> None:
    """Ledger and mark restored together are consistent; the receipts of later answers tell."""
    shutil.copytree(state, tmp_path / "state then")
    with ledger_in_use(path, 2) as ledger:
        receipt = ledger.head()
    shutil.copy(path, tmp_path / "newest.sqlite")
    before = tmp_path / "before.sqlite"
    shutil.copy(copy, before)
    shutil.rmtree(state)
    restored(path, before)
    with open_at(path) as ledger:
        assert spent(ledger) == Fraction(2, 10)
        assert ledger.event(receipt.n) is None


def test_without_a_mark_nothing_is_written_elsewhere(path: Path, state: Path) -> None:
    with open_at(path, high_water=False) as ledger:
        spend(ledger)
        assert not ledger.has_mark
        assert ledger.check() == []
    assert not state.exists()
    with open_at(path) as ledger:
        assert ledger.has_mark
        assert read(state).event == ledger.head()


def test_the_mark_goes_only_forwards(path: Path, state: Path) -> None:
    """Processes and threads that settle at once leave the newest event in the mark."""
    many = Charge(Fraction(100))
    with (
        open_at(path, max_failures=100, total=many) as one,
        open_at(path, max_failures=100, total=many) as other,
    ):
        seen: list[int] = []

        def work(ledger: Ledger) -> None:
            for _ in range(8):
                spend(ledger)
                seen.append(read(state).event.n)

        threads = [threading.Thread(target=work, args=(ledger,)) for ledger in (one, other) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 32
        mark = read(state)
        newest = one.head()
        assert one.event(mark.event.n) == mark.event
        assert max(seen) == mark.event.n
        assert newest.n - mark.event.n <= 4, "what was reserved after the last answer"
        assert one.check() == []


def test_a_mark_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    replace_durably(mark, b"old")
    calls = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real_fsync(handle)

    def replace(draft: Path, target: Path) -> Path:
        calls.append("rename")
        assert mark.read_bytes() == b"old"
        return real_replace(draft, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    replace_durably(mark, b"new")
    assert calls == ["file", "rename", "folder"]
    assert mark.read_bytes() == b"new"
    assert [*tmp_path.iterdir()] == [mark]


def test_a_line_is_added_for_each_answer_and_a_long_file_written_anew(path: Path, state: Path) -> None:
    sizes, numbers = [], []
    with open_at(path, max_failures=500, total=Charge(Fraction(100))) as ledger:
        for i in range(300):
            spend(ledger, analyst=f"a{i % 20}")
            found = read(state)
            assert found.event == ledger.head()
            assert found.totals == {name: tuple(total) for name, total in totals_of(ledger).items()}
            sizes.append(mark_file(state).stat().st_size)
            numbers.append(mark_file(state).stat().st_ino)
    assert max(sizes) < 40_000
    assert 1 < len(set(numbers)) < 30
    assert all(before < after for before, after in pairwise(sizes[:40]))


def totals_of(ledger: Ledger) -> dict[str, Row]:
    with ledger._store.read() as connection:
        return stored_totals(connection)


@pytest.mark.parametrize("left", [b"{", b'{"event":{"n":99', b"\0" * 100, b"\xff"])
def test_a_line_that_a_crash_cut_off_is_not_counted(path: Path, state: Path, left: bytes) -> None:
    with ledger_in_use(path, 3) as ledger:
        with mark_file(state).open("ab") as file:
            file.write(left)
        with pytest.raises(ValueError, match=r"line|char|property"):
            Mark.read(mark_file(state).read_bytes().decode("latin-1"))
        spend(ledger)
        assert read(state).event == ledger.head()
    with mark_file(state).open("ab") as file:
        file.write(left)
    with open_at(path) as ledger:
        spend(ledger)
        assert read(state).event == ledger.head()
        assert ledger.messages == ()


def test_a_mark_whose_first_line_was_cut_off_is_damaged(path: Path, state: Path) -> None:
    with ledger_in_use(path):
        pass
    first = mark_file(state).read_bytes().split(b"\n")[0]
    mark_file(state).write_bytes(first)
    with pytest.raises(OperationalError, match="is damaged"):
        open_at(path)


@pytest.mark.parametrize("written", [0, 5])
def test_what_could_not_be_added_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """A file that is full takes a part of what is written, or fails when it is made durable."""
    mark = tmp_path / "mark"
    mark.write_bytes(b"one\ntorn")

    def fails(handle: int) -> None:
        raise OSError(5, "Input/output error")

    class Full(FileIO):
        def write(self, content: object) -> int:
            return super().write(bytes(content)[:written])  # type: ignore[call-overload]  # bytes

    if written:
        monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Full(path, mode))
    else:
        monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space" if written else "Input/output"):
        append_durably(mark, 4, b"two two\n")
    monkeypatch.undo()
    assert mark.read_bytes() == b"one\n"
    append_durably(mark, 4, b"two\n")
    assert mark.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", "\xff", '{"mark of a dpsql ledger":2}', '{"mark of a dpsql ledger":1}'],
)
def test_a_damaged_mark_is_an_error(path: Path, state: Path, text: str) -> None:
    with ledger_in_use(path):
        pass
    mark_file(state).write_bytes(text.encode("latin-1"))
    with pytest.raises(OperationalError, match="is damaged"):
        open_at(path)


def test_a_mark_is_read_back(path: Path, state: Path) -> None:
    with ledger_in_use(path) as ledger:
        found = read(state)
        assert Mark.read(found.text) == found
        assert json.loads(found.text)["event"] == {"n": ledger.head().n, "hash": ledger.head().hash}


def test_a_mark_that_is_held_makes_others_wait_and_then_says_so(
    path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
    with ledger_in_use(path) as ledger:
        lock = os.open(mark_file(state).with_name(mark_file(state).name + ".lock"), os.O_RDWR)
        assert lock_file(lock)
        with pytest.raises(OperationalError, match="is busy"):
            spend(ledger)
        assert spent(ledger) == Fraction(2, 10)
        unlock(lock)
        os.close(lock)
        spend(ledger)
        assert read(state).event == ledger.head()


def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A user of a container, without an entry in the list of users."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", unknown)
    return "has no home folder"


def read_only_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A home on a volume that cannot be written."""

    def refused(*given: object, **more: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refused)
    return "Read-only file system"


def a_file_in_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    (tmp_path / "state").write_text("")
    return "Not a directory|File exists"


@pytest.mark.parametrize("made", [no_home, read_only_home, a_file_in_its_place])
def test_where_no_mark_can_be_written_nothing_is_charged_and_the_setting_is_named(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: object
) -> None:
    says = made(monkeypatch, tmp_path)  # type: ignore[operator]  # one of those above
    with pytest.raises(
        OperationalError, match=rf"({says}).*so nothing is given out\nHint: .*high_water = false"
    ):
        open_at(path)
    with open_at(path, high_water=False) as ledger:
        spend(ledger)


def test_a_forked_process_marks_what_it_settles(path: Path, state: Path) -> None:
    with open_at(path) as ledger:
        spend(ledger)
        with ledger._mark._lock:  # another thread of the parent was writing at the moment of the fork
            child = os.fork()
            if child == 0:
                try:
                    spend(ledger)
                    os._exit(0 if read(state).event == ledger.head() else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        spend(ledger)
        assert read(state).event == ledger.head()
        assert ledger.check() == []


def test_what_other_processes_add_meanwhile_is_no_problem(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is read before the ledger that it is compared with."""
    true = MarkFile.read
    added: list[bool] = []
    with closing(open_at(path)) as ledger, closing(open_at(path)) as other:

        def later(file: MarkFile, known: StoredMark | None = None) -> StoredMark | None:
            if not added:
                added.append(True)
                spend(other)
            return true(file, known)

        monkeypatch.setattr(MarkFile, "read", later)
        assert ledger.check() == []
        assert added


def test_a_group_is_not_told_less_than_was_lost_of_noise_without_an_epsilon(
    path: Path, tmp_path: Path
) -> None:
    """The mark tells no cost of an analyst without a cap: it is unknown what the group has spent."""
    delta = Fraction(1, 10**5)
    caps: dict[str, Any] = {
        "total": Charge(Fraction(20), delta),
        "filter_of": lambda cap: Filter.of(cap, "zcdp"),
        "groups": {"team": GroupCap(("ann",), Charge(Fraction(2), delta))},
    }

    def asked(ledger: Ledger) -> None:
        loss = PrivacyLoss.gaussian(Fraction(1, 1000))
        one = Request("r", "m", Charge(Fraction(1, 10), Fraction(1, 10**7)), loss=loss)
        held = ledger.reserve_all(analyst="ann", statement="s", requests=[one])
        ledger.settle(held, loss, release=b"x")

    with open_at(path, **caps) as ledger:
        asked(ledger)
    shutil.copy(path, tmp_path / "copy.sqlite")
    with open_at(path, **caps) as ledger:
        asked(ledger)
    restored(path, tmp_path / "copy.sqlite")
    with open_at(path, Opening.ACCEPT, **caps) as ledger:
        assert ledger.check() == []
        for _ in range(2):
            with pytest.raises(OperationalError, match="no cost at another order"):
                asked(ledger)
    caps.pop("groups")
    with open_at(path, **caps) as ledger:
        asked(ledger)
        assert ledger.check() == []
