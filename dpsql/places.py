"""Where the columns of an answer stand: they are addressed by their index, since names may be equal.

A release's table begins with the columns of its rows, under the names that the statement gives them. Behind
them stands what is free beside them, under names of which no two are equal: `gap`, `p_value`, and for a
number `n` the columns `n_stddev`, `n_low`, `n_high`. Of a second number `n` they are `n_1_stddev`, ...
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dpsql.lazy_dataclass import dataclass

DETAILS = ("stddev", "low", "high")
"""What is free beside a number, in the order in which it stands."""
FREE = ("gap", "p_value")
"""What is free beside all numbers of a row."""


def make_distinct(names: Sequence[str], *, fold: bool = False) -> list[str]:
    """Return names of which no two are equal: the names that DuckDB gives to the columns of a subquery.

    With `fold` they differ by more than the case of their letters.

    >>> make_distinct(["n", "n", "n_1"]), make_distinct(["n", "N"]), make_distinct(["n", "N"], fold=True)
    (['n', 'n_1', 'n_1_1'], ['n', 'N'], ['n', 'N_1'])
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        found.append(_free(name, taken, fold=fold))
        taken.add(found[-1].lower() if fold else found[-1])
    return found


def _free(name: str, taken: Collection[str], *, fold: bool = False) -> str:
    made, number = name, 0
    while (made.lower() if fold else made) in taken:
        number += 1
        made = f"{name}_{number}"
    return made


def list_renamed(names: Sequence[str], *, fold: bool = False) -> list[tuple[str, str]]:
    """Return the names that `make_distinct` changes, each with its new name."""
    made = make_distinct(names, fold=fold)
    return [(old, new) for old, new in zip(names, made, strict=True) if old != new]


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Where a noisy number stands in a release's table, and what is free beside it."""

    place: int
    stddev: int | None = None
    low: int | None = None
    high: int | None = None

    @property
    def details(self) -> tuple[int | None, int | None, int | None]:
        """The places of the details, in the order of `DETAILS`."""
        return self.stddev, self.low, self.high


@dataclass(frozen=True, slots=True)
class Places:
    """Where the columns of a release stand in its table."""

    keys: tuple[int, ...]
    numbers: tuple[NumberPlace, ...]
    gap: int | None = None
    p_value: int | None = None
    ordering: int | None = None
    """Which of the numbers orders the groups, from 0; None if it is not shown."""

    def facts(self) -> dict[str, Any]:
        """Return the places as values that JSON has."""
        return {
            "keys": list(self.keys),
            "numbers": [[number.place, *number.details] for number in self.numbers],
            "gap": self.gap,
            "p_value": self.p_value,
            "ordering": self.ordering,
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Places:
        """Make the places from the dict that `facts` has returned."""
        return cls(
            tuple(facts["keys"]),
            tuple(NumberPlace(*each) for each in facts["numbers"]),
            facts["gap"],
            facts["p_value"],
            facts["ordering"],
        )

    @classmethod
    def by_name(
        cls,
        columns: Sequence[str],
        shown: int,
        keys: Sequence[str],
        counts: Sequence[str],
        ordering: str | None,
    ) -> Places:
        """Find the places by names of columns, of which the first `shown` are columns of the rows.

        So stand releases that were stored before they had places. Of equal names the first one counts for
        the first number, and what was left out for its name is not there.
        """

        def place(name: str) -> int | None:
            # What was added stands behind the rows; where a column of the rows shows the same, it was not.
            added = (i for i in range(shown, len(columns)) if columns[i] == name)
            return next(added, columns.index(name) if name in columns else None)

        left = list(range(min(shown, len(columns))))

        def taken(name: str) -> int | None:
            found = next((i for i in left if columns[i] == name), None)
            if found is not None:
                left.remove(found)
            return found

        numbers: list[NumberPlace] = []
        for name in counts:
            at, first = taken(name), name not in counts[: len(numbers)]
            if at is not None:
                own = [place(f"{name}_{kind}") if first else None for kind in DETAILS]
                numbers.append(NumberPlace(at, *own))
        named = [at for name in keys if (at := taken(name)) is not None]
        ordered = counts.index(ordering) if ordering in counts else None
        return cls(tuple(named), tuple(numbers), place("gap"), place("p_value"), ordered)


Own = tuple[int | None, int | None, int | None]
"""For each detail of a number, the column of the rows that shows it under its name; None: it is added."""
_NONE: Own = (None, None, None)


def lay_out(
    names: Sequence[str],
    keys: Sequence[int],
    numbers: Sequence[tuple[int, Own]],
    free: Mapping[str, int | None],
    ordering: int | None = None,
) -> tuple[list[str], Places]:
    """Return the names of a release's table and the places of its columns.

    Parameters
    ----------
    names
        The names of the columns of its rows.
    keys
        The places of the keys among them.
    numbers
        The places of the noisy numbers, each with those of its details that are among the rows.
    free
        Those of `FREE` that there are, each with the place of a column of the rows that shows it.
    ordering
        Which of the numbers orders the groups.
    """
    every = list(names)

    def add(name: str, own: int | None) -> int:
        if own is not None:
            return own
        every.append(_free(name, every))
        return len(every) - 1

    found = {kind: add(kind, free[kind]) for kind in FREE if kind in free}
    base = make_distinct(names)
    made = []
    for place, own in numbers:
        titles = [f"{base[place]}_{kind}" for kind in DETAILS]
        made.append(NumberPlace(place, *(add(t, at) for t, at in zip(titles, own, strict=True))))
    return every, Places(tuple(keys), tuple(made), found.get("gap"), found.get("p_value"), ordering)
