"""One module for each goal that is not yet met everywhere; `python -m tests.benchmarks` finds them by name.

A module of this package has

``TITLE``    the heading of its figures
``GOAL``     the goal in one sentence
``figures``  a function of a `Setting` that yields `Figure`s
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple, Protocol, cast

from tests.benchmarks.events import Events
from tests.benchmarks.measures import Figure

__all__ = ["Goals", "Setting", "discovered"]


class Setting(NamedTuple):
    """What a run has: made data of its size, data of a thousand rows, a folder, and the rounds."""

    size: str
    events: Events
    tiny: Events
    folder: Path
    rounds: int


class Goals(Protocol):
    """A module of this package."""

    TITLE: str
    GOAL: str

    def figures(self, setting: Setting) -> Iterator[Figure]:
        """Measure."""


def discovered() -> dict[str, Goals]:
    """Return the modules of this package by their names."""
    names = sorted(module.name for module in iter_modules(__path__))
    return {name: cast("Goals", import_module(f"{__name__}.{name}")) for name in names}
