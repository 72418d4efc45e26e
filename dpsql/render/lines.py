"""The line on what an answer leaves out: at most one sentence for each thing, in one order.

The order is that of `SLOTS`. The sentence of a slot is in a release's properties, under `slot(name)`; that of
the rows in no shown group follows from `Release.outside`, a number of the same release. Nothing is said of
private rows that was not released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dpsql.lazy_dataclass import dataclass
from dpsql.render.figures import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SLOTS = ("outside", "cut", "bound", "zone")
"""What a sentence is about: rows in no shown group, what was cut and is not in the intervals, the bound and
the size of the cut, the time zone."""

IN_THE_RANGE = " (in the range)"
"""Said of what intervals have."""
NOT_IN_THE_RANGE = " (not in the range)"
"""Said of what intervals do not have. Of an answer that shows none, neither is said."""

BELOW = "groups below the bar are not shown"
"""Said of all groups of keys without declared values: which groups there are is private."""


def slot(name: str) -> str:
    """Return the key of a sentence among the properties of a release."""
    if name not in SLOTS:
        raise ValueError(f"a line has no sentence {name}")
    return f"line.{name}"


@dataclass(frozen=True, slots=True)
class Outside:
    """The number of the rows whose keys are in no group that is shown, released with the groups."""

    what: str
    """What is counted (`rows`, `patients`), or the name of the column with `of` before it."""
    value: float
    stddev: float | None
    low: float | None
    high: float | None


class Lined(Protocol):
    """The attributes of a release that its line is made of."""

    @property
    def outside(self) -> Outside | None:
        """The rows in no shown group."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Further facts, among them the sentences."""

    @property
    def has_intervals(self) -> bool:
        """Whether the answer has intervals."""

    @property
    def parts(self) -> Sequence[Lined]:
        """The releases that the answer was computed from."""


def sentences(release: Lined, *, pm: str = "±") -> list[str]:
    """Return the sentences of a release in order; of one that was computed from others, theirs."""
    every = [release, *release.parts]
    found = [text for name in SLOTS for each in every if (text := _sentence(each, name, pm))]
    if not release.has_intervals:
        found = [text.replace(IN_THE_RANGE, "").replace(NOT_IN_THE_RANGE, "") for text in found]
    return list(dict.fromkeys(found))


def line(release: Lined, *, pm: str = "±") -> str:
    """Return the sentences as one line; empty if there are none."""
    return "; ".join(sentences(release, pm=pm))


def _sentence(release: Lined, name: str, pm: str) -> str:
    if name == "outside" and release.outside is not None:
        found = release.outside
        value, more = Estimate(found.value, found.low, found.high).text(pm=pm)
        return f"in no group shown: {value} {more} {found.what}".replace("  ", " ")
    return release.properties.get(slot(name), "")
