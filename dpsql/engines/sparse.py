"""The counts of a large domain: those of the groups with rows, and the keys of any group by its position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis import DomainPart, SparseDomain
from dpsql.engines.protocol import Counts
from dpsql.errors import OperationalError
from dpsql.kernel.charged_work import FAILED
from dpsql.kernel.order import OrderedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Values = Callable[[DomainPart, NDArray[np.int64]], pa.Table]
    """Returns the keys of a part's candidates at some places, in columns `k0`, .. by the keys' places."""


@dataclass(frozen=True, slots=True)
class ListedCounts(Counts):
    """Exact counts of the groups with rows of a domain, by ascending position; the others have counts of 0.

    They have no keys. A mechanism that takes counts of all groups refuses them, since they are too few.
    """

    domain: SparseDomain = field(kw_only=True)
    positions: NDArray[np.int64] = field(kw_only=True)
    values: Values = field(kw_only=True)

    def sparse(self, place: int) -> SparseCounts:
        """Return one of the counts, for a mechanism that names groups by their positions."""
        return SparseCounts(self.n[place], self.positions, self.domain.size)

    def ordered(self, place: int) -> OrderedCounts:
        """Return the same for a mechanism whose output depends on the order of the groups.

        Positions are public: they follow from the domain and the statement's order, whatever is listed.
        """
        return OrderedCounts(self.sparse(place))

    def at(self, positions: NDArray[np.int64]) -> Counts:
        """Return the counts and keys of the groups at some positions, in their order."""
        n = tuple(self.sparse(place).at(positions) for place in range(len(self.n)))
        columns: dict[str, pa.ChunkedArray] = {}
        left = positions
        for part in reversed(self.domain.parts):
            left, place = np.divmod(left, part.size)
            place = part.size - 1 - place if part.descending else place
            keys = self.values(part, place)
            columns |= zip(keys.column_names, keys.columns, strict=True)
        import pyarrow as pa  # noqa: PLC0415  loaded when rows are

        return Counts(pa.table({f"k{i}": columns[f"k{i}"] for i in range(len(columns))}), n, None)


def listed_counts(domain: SparseDomain, counts: Counts, values: Values) -> ListedCounts:
    """Return the counts of a query that has the numbers of the keys' candidates in its places."""
    positions = _positions(domain, [counts.places[name] for name in domain.columns])
    order = np.argsort(positions)
    positions = positions[order]
    if (np.diff(positions) == 0).any():
        raise OperationalError(FAILED)
    n = tuple(each[order] for each in counts.n)
    return ListedCounts(counts.keys, n, None, domain=domain, positions=positions, values=values)


def _positions(domain: SparseDomain, numbers: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the positions of groups by the numbers of their keys' candidates, the last least significant."""
    found = np.zeros(len(numbers[0]), dtype=np.int64)
    for part, number in zip(domain.parts, numbers, strict=True):
        place = number - part.first
        if len(place) and not 0 <= place.min() <= place.max() < part.size:
            raise OperationalError(FAILED)
        found *= part.size
        found += part.size - 1 - place if part.descending else place
    return found
