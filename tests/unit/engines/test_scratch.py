"""Folders for spilled rows: the owner's alone, and removed by the next process where theirs was killed."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpsql.engines import process_storage
from dpsql.engines.process_storage import Scratch, remove_ownerless
from tests.commands import Commands

OWNER = """
import sys, time
from dpsql.engines.process_storage import Scratch
made = Scratch()
(made.path / "rows.tmp").write_text("private")
print(made.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def owner(commands: Commands, script: str = OWNER) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that has a folder, and kill it in the end."""
    process = subprocess.Popen([*commands.command, "python", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        if process.returncode is None:
            process.kill()
            process.communicate()


def test_what_a_killed_process_left_is_removed_and_a_living_ones_is_kept(commands: Commands) -> None:
    with owner(commands) as (_, living), owner(commands) as (process, left):
        process.kill()
        process.communicate()
        assert (left / "rows.tmp").exists()
        mine = Scratch()
        assert not left.exists()
        assert (living / "rows.tmp").exists()
        remove_ownerless()
        assert mine.path.exists(), "one's own is kept, too"
        mine.remove()
        assert not mine.path.exists()


def test_a_session_spills_into_such_a_folder(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "visits.csv").write_text("id\n1\n")
    (tmp_path / "dpsql.toml").write_text(
        '[budget]\nepsilon = 1\nledger = "ledger.sqlite"\n'
        '[tables.visits]\nsource = "visits.csv"\nunit = "id"\ncolumns = { id = "INTEGER" }\n'
    )
    script = (
        "import sys, time, tempfile, os\nfrom dpsql.policy import load\nfrom dpsql.session import Session\n"
        f"session = Session(load({str(tmp_path / 'dpsql.toml')!r}))\n"
        "sql = \"SELECT current_setting('temp_directory')\"\n"
        "connection = session.database.engines().engine._connection(counts_only=False)\n"
        "print(connection.execute(sql).fetchall()[0][0], flush=True)\ntime.sleep(600)\n"
    )
    with owner(commands, script) as (process, folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        remove_ownerless()
        assert folder.exists()
        process.kill()
        process.communicate()
    remove_ownerless()
    assert not folder.exists()


def test_nothing_is_followed_or_taken_that_is_not_ones_own(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "keep").write_text("x")
    (temporary / "dpsql-scratch-link").symlink_to(victim, target_is_directory=True)
    (temporary / "dpsql-scratch-file").write_text("x")
    (temporary / "dpsql-scratch-open").mkdir()
    (temporary / "dpsql-scratch-open").chmod(0o755)
    (temporary / "another").mkdir(mode=0o700)
    before = sorted(temporary.iterdir())
    remove_ownerless()
    assert sorted(temporary.iterdir()) == before
    assert (victim / "keep").exists()
    (temporary / "dpsql-scratch-theirs").mkdir(mode=0o700)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: victim.stat().st_uid + 1)
        remove_ownerless()
    assert (temporary / "dpsql-scratch-theirs").exists()
    remove_ownerless()
    assert not (temporary / "dpsql-scratch-theirs").exists()


def test_a_link_within_a_folder_is_removed_not_followed(temporary: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "keep").write_text("x")
    left = temporary / "dpsql-scratch-left"
    left.mkdir(mode=0o700)
    (left / "link").symlink_to(victim, target_is_directory=True)
    remove_ownerless()
    assert not left.exists()
    assert (victim / "keep").exists()


def test_a_folder_swapped_for_a_link_after_it_was_looked_at_is_not_followed(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "keep").write_text("x")
    left = temporary / "dpsql-scratch-left"
    left.mkdir(mode=0o700)
    locked = process_storage._try_lock

    def swapped(path: Path) -> int | None:
        handle = locked(path)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(victim, target_is_directory=True)
        return handle

    monkeypatch.setattr(process_storage, "_try_lock", swapped)
    remove_ownerless()
    assert (victim / "keep").exists()


def test_a_forked_child_leaves_its_parents_folder(commands: Commands) -> None:
    made = Scratch()
    child = os.fork()
    if not child:
        made.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert made.path.exists()
    with owner(commands) as (_, other):
        assert made.path.exists(), "the child's end did not give up the lock"
        assert other.exists()
    made.remove()


def test_many_that_start_and_clean_at_once_keep_their_own(temporary: Path) -> None:
    for i in range(20):
        (temporary / f"dpsql-scratch-left{i}").mkdir(mode=0o700)
    kept: list[Scratch] = []

    def work() -> None:
        kept.extend(Scratch() for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 40, "none met an error"
    assert sorted(temporary.iterdir()) == sorted(one.path for one in kept)
    for one in kept:
        one.remove()
    assert not list(temporary.iterdir())
