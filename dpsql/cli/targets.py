"""Files and folders that results are written to, checked before anything is charged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.cli.exits import UnwritableError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_target(path: Path, *, folder: bool) -> None:
    """Raise `UnwritableError` if a file cannot be written; `folder`: it may be a folder as well."""
    if (path.is_dir() and not folder) or not path.parent.is_dir():
        raise UnwritableError(f"cannot write {path}: {'a folder' if path.is_dir() else 'no such folder'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnwritableError(f"cannot write {path}: no permission")


def names_in_folder(name: str, folder: str | None, numbers: Sequence[int]) -> dict[int, str]:
    """Make a folder for the results of several statements; return the name of each one's file."""
    if folder is None:
        raise UnwritableError(
            f"{name} holds one result, and there are {len(numbers)} statements\n"
            "Hint: -o FOLDER writes a file for each"
        )
    digits = len(str(max(numbers)))
    names = {number: f"{number:0{digits}}.{name}" for number in numbers}
    path = Path(folder)
    refused = f"cannot write {len(numbers)} results of {name} to {folder}"
    try:
        path.mkdir(exist_ok=True)
        others = {entry.name for entry in path.iterdir()} - set(names.values())
    except FileExistsError:
        raise UnwritableError(f"{refused}: it is a file\nHint: -o FOLDER writes a file for each") from None
    except OSError as problem:
        raise UnwritableError(f"{refused}: {problem.strerror}") from None
    if others:
        raise UnwritableError(f"{refused}: the folder holds other files, such as {min(others)}")
    return names
