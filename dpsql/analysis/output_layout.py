"""Lay out the columns of a release: its outputs, and behind them what is free beside these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsql.analysis.plan import Output
from dpsql.places import DETAILS, Places, distinct, laid_out


def layout(
    outputs: Sequence[Output], free: Iterable[str] = (), ordering: int | None = None
) -> tuple[list[str], Places]:
    """Return the names of the columns of a release with these outputs, and their places.

    `free` has the kinds of free columns beside all numbers, `ordering` is the place of the count that orders
    the groups. A column that the statement asked for under the name of a detail is that detail, if it shows
    the same.
    """
    base = distinct([output.name for output in outputs])
    numbers = [place for place, output in enumerate(outputs) if output.kind == "count"]

    def own(kind: str, name: str, count: Output | None = None) -> int | None:
        for place, output in enumerate(outputs):
            if output.kind == kind and output.name == name and (count is None or _same(output, count)):
                return place
        return None

    listed = []
    for place in numbers:
        stddev, low, high = (own(kind, f"{base[place]}_{kind}", outputs[place]) for kind in DETAILS)
        listed.append((place, (stddev, low, high)))
    return laid_out(
        [output.name for output in outputs],
        [place for place, output in enumerate(outputs) if output.kind == "key"],
        listed,
        {kind: own(kind, kind) for kind in free},
        next((i for i, place in enumerate(numbers) if outputs[place].of == ordering), None),
    )


def _same(one: Output, other: Output) -> bool:
    """Return whether two outputs are of the same number."""
    return (one.of, one.uses, one.formula) == (other.of, other.uses, other.formula)
