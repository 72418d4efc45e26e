"""The modules of dpsql that one statement runs through: `python -m tests.modules_of_a_statement`.

A module counts when one of its functions runs between the text of the statement and its answer; what runs
at import, and functions that a dataclass writes itself, do not count. Modules are listed by package, packages
in the order in which the statement first reaches them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import dpsql

STATEMENTS = {
    "SUM": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) SUM(cost) AS s FROM visits",
    "top-k": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) diagnosis_code, "
        "COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY diagnosis_code ORDER BY n DESC LIMIT 10"
    ),
}
"""What is traced: the two most common statements, on the shipped data."""

PACKAGE = Path(dpsql.__file__).parent


def trace(run: Callable[[], object]) -> list[str]:
    """Run a function; return the module of each call in dpsql, repeats of one module left out."""
    entered: list[str] = []
    names: dict[str, str | None] = {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file not in names:
            path = Path(file)
            inside = path.is_absolute() and path.is_relative_to(PACKAGE)
            names[file] = ".".join(path.relative_to(PACKAGE).with_suffix("").parts) if inside else None
        name = names[file]
        if name is not None and frame.f_code.co_name != "<module>" and entered[-1:] != [name]:
            entered.append(name)

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def modules_of(statement: str) -> list[str]:
    """Run a statement of the shipped clinic in a new session; return the modules that it enters, in order."""
    from dpsql.policy import load
    from dpsql.release import reuse
    from dpsql.session import Session

    reuse._SETTLED_SECONDS = -3600.0  # as if the files were old, so that counts are kept however fast this is
    with tempfile.TemporaryDirectory() as folder:
        data = PACKAGE.parent / "data"
        for path in [*data.glob("*.toml"), *data.glob("*.parquet")]:
            shutil.copy(path, folder)
        session = Session(load(Path(folder) / "clinic.toml"))
        try:
            return trace(lambda: session.run(statement))
        finally:
            session.close()


def packages(entered: list[str]) -> dict[str, set[str]]:
    """Return the modules of each package, packages by first entry; the kernel's folders are packages."""
    found: dict[str, set[str]] = {}
    for name in entered:
        parts = name.split(".")
        depth = 2 if parts[0] == "kernel" and len(parts) > 2 else 1
        found.setdefault(".".join(parts[:depth]) if len(parts) > 1 else "(top)", set()).add(name)
    return found


def main() -> None:
    """Run the command."""
    reader = argparse.ArgumentParser(prog="python -m tests.modules_of_a_statement", description=__doc__)
    reader.add_argument("--statement", help="a statement of the shipped clinic, in place of the two")
    given = reader.parse_args()
    for name, text in {"": given.statement}.items() if given.statement else STATEMENTS.items():
        entered = modules_of(text)
        changes = sum(one != other for one, other in pairwise(entered))
        print(f"{name}: {len(set(entered))} modules, {changes} changes of module")
        for package, modules in packages(entered).items():
            print(
                f"  {len(modules):3}  {package:20} {', '.join(sorted(m.rpartition('.')[2] for m in modules))}"
            )


if __name__ == "__main__":
    main()
