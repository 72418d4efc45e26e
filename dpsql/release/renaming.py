"""Give a stored release the output names of another statement that asks the same question."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.analysis import Output, Plan
    from dpsql.release.release import Release

_OF_RELEASE = ("gap", "p_value")
_OF_COUNT = ("stddev", "low", "high")
"""The details of a release, and those of each count `n`, which are called `n_stddev`, ..."""


def fixed_names(outputs: Sequence[Output]) -> tuple[str, ...]:
    """Return the names of output columns where they are part of the question; else none.

    They are where two columns have one name, or one is called as a detail of another: then a detail is left
    out of the release for its name, so that a release cannot get other names.
    """
    names = [output.name for output in outputs]
    if len({*names}) < len(names) or any(_clashes(output, outputs) for output in outputs):
        return tuple(names)
    return ()


def _clashes(output: Output, outputs: Sequence[Output]) -> bool:
    """Return whether a column is called as a detail, and shows something else."""
    if output.name in _OF_RELEASE:
        return output.kind != output.name
    name, separator, kind = output.name.rpartition("_")
    if not separator or kind not in _OF_COUNT:
        return False
    for count in outputs:
        if count.kind == "count" and count.name == name:
            same = (output.of, output.uses, output.formula) == (count.of, count.uses, count.formula)
            if not (same and output.kind == kind):
                return True
    return False


def ends_of(outputs: Sequence[Output]) -> tuple[str, ...]:
    """Return the names of the columns of a release, with its details, that are ends of intervals."""
    names = [output.name for output in outputs]
    details = [f"{o.name}_{end}" for o in outputs if o.kind == "count" for end in ("low", "high")]
    asked = [output.name for output in outputs if output.kind in ("low", "high")]
    return (*asked, *(name for name in details if name not in names))


def renamed(release: Release, plan: Plan) -> Release:
    """Return a stored release with the names of a statement with the same reuse key; its plan is given."""
    outputs = plan.outputs
    old, new = release.rows.column_names, [output.name for output in outputs]
    if old == new:
        return release
    details = dict(zip(release.table.column_names, release.table.columns, strict=True))
    wanted = [(name, name) for name in _OF_RELEASE]
    for before, output in zip(old, outputs, strict=True):
        if output.kind == "count":
            wanted += [(f"{before}_{kind}", f"{output.name}_{kind}") for kind in _OF_COUNT]
    rows = release.rows.rename_columns(new)
    table = release.table.select(range(len(old))).rename_columns(new)
    for before, after in wanted:
        column = details.get(before)
        if column is None or after in table.column_names:
            continue
        if before not in old or column.null_count < len(column):
            table = table.append_column(after, column)
    together = release.together
    if together is not None:
        ends = {after: before for before, after in [*zip(old, new, strict=True), *wanted]}
        ends = {after: before for after, before in ends.items() if before in together.column_names}
        together = together.select([*ends.values()]).rename_columns([*ends])
    keys, counts = (tuple(o.name for o in outputs if o.kind == kind) for kind in ("key", "count"))
    properties = dict(release.properties)
    if "ordering" in properties:
        properties["ordering"] = counts[release.counts.index(properties["ordering"])]
    return replace(
        release,
        rows=rows,
        table=table,
        together=together,
        keys=keys,
        counts=counts,
        properties=properties,
        assumed=plan.assumed,
    )
