"""COUNT(DISTINCT x) of declared values, counted as the numbers of units that have each of the values.

x becomes a last key of the counting query, which the statement does not have: a group of the statement is one
group for each declared value, and what is counted is the units of each. One unit moves each of these numbers
by at most 1, all the same way, as those of any GROUP BY x: that is what the noise is for. How many of the
noisy numbers are large is then computed from the release alone (`answers.different_values`).

NULL is no value of x: it is no candidate, and its rows count nowhere. Rows with a value that is not declared
are `outside`, one more number of the release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.candidates import candidates_of
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.domains import Candidates
from dpsql.analysis.joined import Joined
from dpsql.analysis.plan import ValuesOfGroup
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.counts import DistinctValues, EachValue
from dpsql.analysis.sparse import size_of
from dpsql.analysis.typed import Typed
from dpsql.language import AllGroups, Options, Scalar, Selection
from dpsql.lazy_dataclass import dataclass

MOST = 1_000
"""The most numbers that one noise is for: declared values, times the groups of the statement."""

FEW = 100
"""So many values are always counted by their units; of more, the noise on the units of each is large."""


@dataclass(frozen=True, slots=True)
class UnitsOfEach:
    """What is counted in the place of different values."""

    key: Typed
    """The last key: what the different values are of."""
    domain: Candidates
    units: ReleasedAggregate
    values: ValuesOfGroup


def may_count_units(options: Options) -> bool:
    """Return whether options leave open how different values are counted."""
    bounds = (options.max_groups_contributed, options.max_rows_contributed, options.error, options.noise)
    return options.mechanism in (None, "AUTO") and all(each is None for each in bounds)


def is_known_better(values: int, bound: int, epsilon: Fraction) -> bool:
    """Return whether Laplace noise on a number of different values tells more, by public figures alone.

    Each unit has at most `bound` of them. It does if the values are many, and half the width of its interval
    is less than half of their number.
    """
    return values > FEW and math.log(20) * bound / float(epsilon) < values / 2


def is_alone(parsed: tuple[Selection, list[exp.Expr], list[exp.Expr]] | None, calls: list[exp.Expr]) -> bool:
    """Return whether a statement releases one number, of one group or of all of them."""
    selects = parsed is None or not isinstance(parsed[0], (Scalar, AllGroups))
    return bool(calls) and not selects and all(call == calls[0] for call in calls)


def is_left(counts: Sequence[ReleasedAggregate]) -> bool:
    """Return whether a count of different values was left as it is, without a bound on a unit."""
    return any(_each(count) is not None for count in counts)


def units_of_each(
    catalog: Catalog,
    keys: Sequence[Typed],
    domains: Sequence[Candidates],
    counts: Sequence[ReleasedAggregate],
    known: Joined,
) -> UnitsOfEach | None:
    """Return what is counted in the place of different values of each group; None if that is not possible.

    All keys must be declared, and every group have the same values.
    """
    part = counts[0].parts[0] if counts else None
    each = _each(counts[0]) if counts else None
    if each is None or not isinstance(part, DistinctValues) or any(count != counts[0] for count in counts):
        return None
    found = candidates_of(catalog, [*keys, each.value], known)
    last = len(keys)
    if {key for own in found for key in own.keys} != {*range(last + 1)} or found[-1].keys != (last,):
        return None
    if tuple(found[:-1]) != tuple(domains):
        return None
    own = Candidates((last,), found[-1].domain.without_null())
    size = size_of(catalog, own.domain)
    if not 0 < size * math.prod(size_of(catalog, candidates.domain) for candidates in domains) <= MOST:
        return None
    units = ReleasedAggregate((each.units(single=not part.kept),))
    return UnitsOfEach(each.value, own, units, ValuesOfGroup(each.text, size))


def _each(count: ReleasedAggregate) -> EachValue | None:
    part = count.parts[0]
    return part.each if isinstance(part, DistinctValues) and len(count.parts) == 1 else None
