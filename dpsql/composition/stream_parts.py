"""Parts of a stream: those of the policy's parts of units that it may ask about, and is charged to.

They are fixed when it is opened: ALL of them, future ones too, or those of the days in `parts`. A unit of
another part changes nothing that such a stream counts, so it costs that unit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.errors import ProgrammingError
from dpsql.kernel.unit_parts import Calendar, PartSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.composition.planned_count import PlannedCount
    from dpsql.language import OpenChecks
    from dpsql.policy import Policy


def parts_of_stream(opened: OpenChecks, policy: Policy) -> PartSet | None:
    """Return the parts of a stream; None: all. Refuse days where the policy has no parts."""
    if opened.parts is None:
        return None
    declared = policy.unit_parts
    if declared is None:
        raise ProgrammingError("the policy has no parts of units, so a stream has none: leave parts out")
    if declared.every is None:
        raise ProgrammingError(
            f"parts of units are values of {declared.column}, and parts = '.. TO ..' names days: leave it out"
        )
    calendar = Calendar(declared.period)
    first, last = (calendar.number(day) for day in opened.parts)
    return PartSet.of((first, last))


def written_parts(opened: OpenChecks, policy: Policy) -> dict[str, Any]:
    """Return the days and parts of a stream as the ledger stores them; empty for all parts."""
    parts, declared = parts_of_stream(opened, policy), policy.unit_parts
    if parts is None or opened.parts is None or declared is None:
        return {}
    days = [day.isoformat() for day in opened.parts]
    return {
        "parts": days,
        "unit_parts": [list(ends) for ends in parts.ranges],
        "parts_by": _list_declaration(policy),
    }


def _list_declaration(policy: Policy) -> list[str]:
    """Return what the policy declares of parts, as the ledger keeps it; empty without parts."""
    found = policy.unit_parts
    return [] if found is None else [found.kind, found.table, found.column, found.every or ""]


def check_stream_parts(options: Mapping[str, Any], opened: OpenChecks, counting: PlannedCount) -> None:
    """Refuse a statement about units of other parts than its stream's, or after these were declared anew."""
    if opened.parts is None:
        return
    if options["parts_by"] != _list_declaration(counting.policy):
        raise ProgrammingError(
            f"the parts of units were declared anew since: CLOSE STREAM {opened.name}, and open another one"
        )
    parts, read = parts_of_stream(opened, counting.policy), counting.plan.unit_parts
    if parts is not None and (read is None or not read <= parts):
        first, last = opened.parts
        raise ProgrammingError(
            f"the stream {opened.name} is of the parts from {first} to {last}, and this reads others: a "
            f"condition on the date of the unit's part in WHERE, or OPEN .. OPTIONS (.., parts = ALL)"
        )
