"""Give a stored release the output names of another statement that asks the same question."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.places import FREE
from dpsql.release.release import places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.analysis import Output, Plan
    from dpsql.places import Places
    from dpsql.release.release import Release


def ends_of(outputs: Sequence[Output], places: Places) -> tuple[int, ...]:
    """Return the places of the columns of a release, with its details, that are ends of intervals."""
    asked = (place for place, output in enumerate(outputs) if output.kind in ("low", "high"))
    details = (end for number in places.numbers for end in (number.low, number.high) if end is not None)
    return tuple(dict.fromkeys((*asked, *details)))


def renamed(release: Release, plan: Plan) -> Release:
    """Return a stored release with the names of a statement with the same reuse key; its plan is given."""
    # Imported here: who reads answers of a server analyses no statement.
    import pyarrow as pa  # noqa: PLC0415

    from dpsql.analysis import layout  # noqa: PLC0415

    titles = [output.name for output in plan.outputs]
    if release.rows.column_names == titles and release.places is not None:
        return release
    table, before = release.table, places_of(release)
    free = {kind: place for kind in FREE if (place := getattr(before, kind)) is not None}
    names, after = layout(plan.outputs, free, getattr(plan.selection, "count", None))
    columns = dict(enumerate(release.rows.columns))
    moved = [(getattr(after, kind), place) for kind, place in free.items()]
    for old, new in zip(before.numbers, after.numbers, strict=True):
        moved += zip(new.details, old.details, strict=True)
    for to, place in moved:
        if to not in columns:
            columns[to] = pa.nulls(len(table), pa.float64()) if place is None else table.column(place)
    rows = release.rows.rename_columns(titles)
    listed = [columns[place] for place in range(len(names))]
    together = release.together
    if together is not None:
        now = {str(at): str(to) for to, at in moved if at is not None}
        together = together.rename_columns([now.get(name, name) for name in together.column_names])
    keys, counts = (tuple(o.name for o in plan.outputs if o.kind == kind) for kind in ("key", "count"))
    properties = dict(release.properties)
    if "ordering" in properties and after.ordering is not None:
        properties["ordering"] = counts[after.ordering]
    return replace(
        release,
        rows=rows,
        table=pa.table(listed, names=names) if listed else release.table,
        together=together,
        keys=keys,
        counts=counts,
        places=after,
        properties=properties,
        assumed=plan.assumed,
    )
