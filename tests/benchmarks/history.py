"""Runs of the benchmarks, kept as JSON in one file: the newest is the last."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Self

from dpsql import __version__

from .measures import Figure

__all__ = ["Run", "changes"]


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured when, where, and on data of which size."""

    size: str
    when: str
    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)

    @classmethod
    def begun(cls, size: str) -> Self:
        """Return a run that begins now."""
        load = "/".join(f"{x:.1f}" for x in os.getloadavg())
        versions = {name: version(name) for name in ("duckdb", "pyarrow", "numpy", "sqlglot")}
        machine = {"dpsql": __version__, "python": platform.python_version(), **versions}
        machine |= {"cores": str(os.cpu_count()), "load": load}
        return cls(size, datetime.now(UTC).isoformat(timespec="minutes"), machine)

    @classmethod
    def all(cls, file: Path) -> list[Self]:
        """Return the runs of a file, the oldest first; none if it is not there."""
        written = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        return [
            cls(run["size"], run["when"], run["machine"], [Figure(**figure) for figure in run["figures"]])
            for run in written
        ]

    @classmethod
    def last(cls, file: Path) -> Self | None:
        """Return the newest run of a file."""
        return next(reversed(cls.all(file)), None)

    def append(self, file: Path) -> None:
        """Add the run to those of a file."""
        runs = [asdict(run) for run in (*self.all(file), self)]
        file.write_text(json.dumps(runs, indent=1), encoding="utf-8")


def changes(run: Run, before: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """Return then and now of what both runs have: the ratio to the floor, else the figure itself."""
    earlier = {(figure.group, figure.what): figure for figure in before.figures}
    found = {}
    for figure in run.figures:
        old = earlier.get((figure.group, figure.what))
        if old is None:
            continue
        then, now = (f.ours if figure.ratio is None else f.ratio for f in (old, figure))
        if then and now:
            found[figure.group, figure.what] = then, now
    return found
