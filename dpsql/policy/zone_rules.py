"""Time zones in a policy, by their names in the pinned database."""

from __future__ import annotations

from dpsql import zones
from dpsql.policy.names import wrong


def checked_zone(name: object, place: str) -> str:
    """Return the name of a time zone as the database writes it; refuse an unknown one at `place`."""
    try:
        return zones.zone(str(name)).name
    except ValueError as problem:
        raise wrong(place, str(problem), 'write a name such as "Europe/Berlin" or "UTC"') from None
