"""The kept ladders of a policy's tables as statements use them: the newest of each measure.

`dpsql bounds` releases a ladder of the data as they are then. It gives bounds for ever, since a bound
promises nothing; what lies beyond a bound it knows of that version of the data alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.analysis import Kept
from dpsql.analysis.kept_bounds import columns_of
from dpsql.estimates import KeptLadder
from dpsql.policy import fold
from dpsql.release import tables_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpsql.ledger import StoredLadder
    from dpsql.policy import Policy, Table
    from dpsql.versions import Versions


def version_of(policy: Policy, table: Table, versions: Versions, measure: str = "") -> str:
    """Return a hash of whose the rows of a table are, and one of the rows: "" where no change shows.

    The second one also covers where the rows are and how they are read: source, types, time zones. Of a
    measure of groups it covers the declared values of its columns: those outside of them are one group.
    """
    columns = {fold(column) for column in columns_of(measure)}
    domain = {name: each for name, each in table.domain.items() if fold(name) in columns}
    tables = tables_read(policy, [table.name])
    units = _hash(repr([(each.name, each.unit) for each in tables]))
    own = [_NOT_READ | ({"domain": domain} if each.name == table.name else {}) for each in tables]
    read = policy.part_fingerprint(replace(each, **but) for each, but in zip(tables, own, strict=True))
    if policy.data_version is not None:
        return f"{units}.{_hash(f'{read} declared {policy.data_version}')}"
    return f"{units}.{_hash(f'{read} {versions.content(tables)}') if versions.tell(tables) else ''}"


_NOT_READ: dict[str, Any] = {
    "unique": (),
    "domain": {},
    "bounds": {},
    "not_null": (),
    "trust_source": False,
    **dict.fromkeys(("units_at_least", "rows_per_unit", "groups", "cut")),
}
"""What a policy says of a table that does not change what is read of it."""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def shows_changes(version: str) -> bool:
    """Return whether a change of the rows shows in a version, as `version_of` returns it."""
    return not version.endswith(".")


def kept_at(ladder: KeptLadder, version: str) -> Kept | None:
    """Return what a ladder is at a version of its table; None if it measured the parts of other units."""
    (units, data), (own, then) = version.split("."), ladder.version.split(".")
    if own != units:
        return None
    told = bool(then and data)
    return Kept(ladder, told and then == data, told)


def read_ladders(stored: Iterable[StoredLadder]) -> list[KeptLadder]:
    """Read ladders as a ledger stores them, in its order."""
    return [KeptLadder.from_json(each.payload.decode()) for each in stored]


class LedgerLadders:
    """The kept ladders of a ledger, each with whether it is of the data as they are now."""

    def __init__(self, policy: Policy, versions: Versions, stored: Iterable[StoredLadder]) -> None:
        self._policy, self._versions = policy, versions
        self._stored = tuple(stored)
        self._kept: dict[str, dict[str, KeptLadder]] = {}
        self._current: dict[tuple[str, str], str] = {}
        for ladder in read_ladders(self._stored):
            self._kept.setdefault(ladder.table, {})[ladder.measure] = ladder

    def earlier(self, tables: Iterable[str]) -> Iterator[LedgerLadders]:
        """Yield the ladders as they were before each newer one of some tables, the last ones first.

        Where no ladder of these tables is left, it ends: no answer was made with one then.
        """
        own = {*tables}
        for place in range(len(self._stored) - 1, 0, -1):
            before = self._stored[:place]
            if self._stored[place].source not in own:
                continue
            if not any(each.source in own for each in before):
                return
            yield LedgerLadders(self._policy, self._versions, before)

    def of(self, table: str) -> tuple[str, ...]:
        """Return the measures of a table of which a ladder is kept."""
        return tuple(self._kept.get(table, ()))

    def find(self, table: str, measure: str) -> Kept | None:
        """Return the newest ladder of a measure of a table; None if there is none.

        A ladder of another declaration of the unit is none: it measured the parts of other units.
        """
        ladder = self._kept.get(table, {}).get(measure)
        declared = self._policy.table(table)
        if ladder is None or declared is None:
            return None
        of = table, measure if columns_of(measure) else ""
        if of not in self._current:
            self._current[of] = version_of(self._policy, declared, self._versions, measure)
        return kept_at(ladder, self._current[of])
