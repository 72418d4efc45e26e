"""The noisy counts of a release as estimates: a value and its interval for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.cli.render_values import values
from dpsql.dbapi.figures import Estimate

if TYPE_CHECKING:
    from dpsql.release import Release

__all__ = ["Estimates", "counts", "ordering"]

Estimates = list[Estimate | None]
"""One a released group; None where the count is NULL."""


def counts(release: Release) -> dict[str, Estimates]:
    """Return the estimates of every count in the select list."""
    return {name: _estimates(release, name) for name in release.counts}


def ordering(release: Release) -> Estimates:
    """Return the estimates of the count that orders the groups; none if only keys were asked for."""
    return _estimates(release, release.counts[0]) if release.counts else []


def _estimates(release: Release, name: str) -> Estimates:
    table = release.table

    def bounds(suffix: str) -> list[Any]:
        column = name + suffix
        return values(table.column(column)) if column in table.column_names else [None] * table.num_rows

    triples = zip(values(table.column(name)), bounds("_low"), bounds("_high"), strict=True)
    return [None if value is None else Estimate(float(value), low, high) for value, low, high in triples]
