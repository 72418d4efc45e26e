"""Where the mark of a ledger is: in the file that the policy names, or in the user's folder for state."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Protocol

from dpsql.errors import OperationalError
from dpsql.ledger.files import replace_durably
from dpsql.ledger.mark import Mark
from dpsql.ledger.mark_file import SETTING, MarkFile


class MarkPlace(Protocol):
    """Finds the file of a ledger's mark."""

    def file(self, ledger: str) -> MarkFile:
        """Return the file for the ledger with an identifier."""

    def at(self, path: Path) -> Mark | None:
        """Return the mark of the ledger that was at a path, if one was."""

    def keep(self, ledger: str, path: Path) -> None:
        """Remember that the ledger with an identifier is at a path; the mark's file is locked."""


class NamedPlace:
    """The file that a policy names."""

    def __init__(self, path: Path) -> None:
        self._file = MarkFile(path)

    def file(self, ledger: str) -> MarkFile:
        """Return the file."""
        return self._file

    def at(self, path: Path) -> Mark | None:
        """Return the mark, whatever ledger it is of."""
        return _mark(self._file)

    def keep(self, ledger: str, path: Path) -> None:
        """Do nothing: the file is found without that."""


class StateFolder:
    """A folder with the marks of all ledgers of a user.

    It has a file for each ledger, by its identifier, and one for each place of a ledger, which says what
    ledger was there: a ledger that is missing cannot tell its identifier.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, ledger: str) -> MarkFile:
        """Return the file for the ledger with an identifier."""
        return MarkFile(self._folder / f"{ledger}.mark")

    def at(self, path: Path) -> Mark | None:
        """Return the mark of the ledger that was at a path, unless it was opened elsewhere since."""
        try:
            ledger = self._place(path).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise _unusable(self._folder, problem) from None
        mark = _mark(self.file(ledger)) if ledger.isalnum() else None
        return mark if mark is not None and mark.path == str(path) else None

    def keep(self, ledger: str, path: Path) -> None:
        """Remember that the ledger with an identifier is at a path."""
        place = self._place(path)
        try:
            if not place.exists() or place.read_text(encoding="ascii").strip() != ledger:
                replace_durably(place, f"{ledger}\n".encode())
        except OSError as problem:
            raise _unusable(self._folder, problem) from None

    def _place(self, path: Path) -> Path:
        return self._folder / f"at-{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}"


def _mark(file: MarkFile) -> Mark | None:
    kept = file.named().read()
    return None if kept is None else kept.mark


def mark_place(chosen: Path | None) -> MarkPlace:
    """Return the place that a policy has chosen, or the user's folder for state."""
    return StateFolder(state_folder() / "dpsql" / "ledgers") if chosen is None else NamedPlace(chosen)


def state_folder() -> Path:
    """Return the folder in which programs of this user keep state."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given)
    local = os.environ.get("LOCALAPPDATA", "")
    if sys.platform == "win32" and local:
        return Path(local)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise OperationalError(
            "the mark of the ledger has no place: this user has no home folder, so nothing is given out"
            + SETTING
        ) from None


def _unusable(folder: Path, problem: OSError) -> OperationalError:
    return OperationalError(
        f"the folder {folder} for the marks of ledgers cannot be read or written ({problem.strerror}), so"
        f" nothing is given out{SETTING}"
    )
