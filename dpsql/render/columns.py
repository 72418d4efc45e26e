"""The columns of a release as text: counts with their noise, the free gaps beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.render.figures import at_unit, number, unit_of
from dpsql.render.readable import counts, ordering
from dpsql.render.values import text, values

if TYPE_CHECKING:
    from dpsql.render.figures import Estimate
    from dpsql.render.released import Released

__all__ = ["Shown", "columns"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One column: its heading, whether it is aligned right, its cells (None is NULL)."""

    name: str
    right: bool
    cells: list[str | None]


def columns(release: Released, most: int) -> list[Shown]:
    """Write the first `most` rows of a release, column by column."""
    noisy = {name: estimates[:most] for name, estimates in counts(release).items()}
    rows = release.rows.slice(0, most)
    shown = []
    for i, name in enumerate(rows.column_names):
        found = values(rows.column(i))
        if name in noisy:
            shown.append(Shown(name, True, [_count(estimate) for estimate in noisy[name]]))
        else:
            right = all(isinstance(value, (int, float)) for value in found if value is not None)
            cells = [None if value is None else text(value) for value in found]
            shown.append(Shown(name, right and bool(found), cells))
    if "gap" in release.table.column_names and "gap" not in rows.column_names:
        shown.append(Shown("gap", True, _gaps(release, most)))
    return shown


def _count(estimate: Estimate | None) -> str | None:
    return None if estimate is None else " ".join(estimate.text()).strip()


def _gaps(release: Released, most: int) -> list[str | None]:
    """Write the gaps to the precision of the counts' noise; the last may have none, which is no NULL."""
    units = [e.unit for e in ordering(release) if e is not None and e.unit is not None]
    place = max(units, default=unit_of(release.scale))
    found = values(release.table.column("gap").slice(0, most))
    return ["" if gap is None else number(gap) if place is None else at_unit(gap, place) for gap in found]
