"""A number as it was released with Laplace noise: what a further release of it goes on from.

The noise of a further level is drawn given that of the level before (`Refinement`). So what was released must
be the same number plus Laplace noise of that scale on that grid, and nothing else; and it must be a release
that was refined by no other one. Nobody states it: the step that measured the number keeps it here, it is
stored with the release that it pays for, and the ledger gives it back. A step compares the query, by its SQL,
and the number's place, scale and grid; the ledger the release that is refined. That the data are the same is
not proved here: where files have another content, the statement has another key and is refused.

*Laplace noise* is that of `Laplace` on one number, of `Refinement`, and of `Box` on one number with at most
one public zero: with the common shift left open, the difference d of the two noises has a probability
proportional to e^(-rate |d|). Cube noise on one number is by definition.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.errors import InternalError
from dpsql.kernel.mechanisms import Box, Laplace, Refinement
from dpsql.kernel.sealed import Sealed, seal, unseal
from dpsql.kernel.tree import duckdb_sql
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.kernel.mechanisms.mechanism import Mechanism
    from dpsql.kernel.tree import Query

_END = b"dpsql level\0"
_EXACT = 1 << 53
"""Grid steps below this are exact in a released DOUBLE."""


class Level(Sealed):
    """A number that was released with Laplace noise; the kernel alone reads it, and makes it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    query: str
    place: int
    scale: str
    resolution: int
    steps: int
    refines: int | None = None
    """The number of the release that this one refines."""
    release: int | None = None
    """Its own number, once the ledger has it."""


def level_of(
    query: Query | None, place: int, mechanism: Mechanism[Any], value: float, before: Level | None = None
) -> Level | None:
    """Keep what a mechanism released of the one number of a query; None if its noise is of another kind."""
    match mechanism:
        case Laplace(total=False) | Refinement():
            bits = mechanism.resolution
            scale = mechanism.scale if isinstance(mechanism, Laplace) else mechanism.scales[-1]
        case Box() if mechanism.size == 1 and mechanism.pads <= 1:
            steps = mechanism.unit // mechanism.bounds[0]
            bits, scale = steps.bit_length() - 1, 1 / (mechanism.rate * steps)
            if steps != 1 << bits:
                return None
        case _:
            return None
    found = value * 2.0**bits
    if query is None or not abs(found) < _EXACT:
        return None
    refines = None if before is None else _kept(before).release
    return seal(Level(), _Kept(_digest(query), place, str(scale), bits, int(found), refines))


def steps_before(level: Level, query: Query | None, place: int, mechanism: Refinement) -> int:
    """Return the value of the level before, in grid steps; refuse a level of another number."""
    kept = _kept(level)
    now = (kept.query, kept.place, Fraction(kept.scale), kept.resolution)
    if query is None or now != (_digest(query), place, mechanism.scales[-2], mechanism.resolution):
        raise InternalError("this is no further level of the number that was released")
    if kept.release is None:
        raise InternalError("the ledger has no such release")
    return kept.steps


def refined_by(level: Level | None) -> int | None:
    """Return the number of the release that a number refines; None: of none."""
    return None if level is None else _kept(level).refines


def with_level(payload: bytes | None, level: Level | None) -> bytes | None:
    """Return a stored release with what a further one goes on from."""
    if payload is None or level is None:
        return payload
    kept = _kept(level)
    text = json.dumps([kept.query, kept.place, kept.scale, kept.resolution, kept.steps]).encode()
    return payload + text + len(text).to_bytes(8, "big") + _END


def split_level(payload: bytes, release: int) -> tuple[bytes, Level | None]:
    """Return a stored release, and what was kept with it, from what the ledger has under a number."""
    if not payload.endswith(_END):
        return payload, None
    end = len(payload) - len(_END) - 8
    start = end - int.from_bytes(payload[end : end + 8], "big")
    query, place, scale, resolution, steps = json.loads(payload[start:end])
    return payload[:start], seal(Level(), _Kept(query, place, scale, resolution, steps, release=release))


def _kept(level: Level) -> _Kept:
    found: _Kept = unseal(level)
    return found


def _digest(query: Query) -> str:
    return hashlib.sha256(duckdb_sql(query).encode()).hexdigest()
