"""The kept ladders of a policy's tables as statements use them: the newest of each measure.

`dpsql bounds` releases a ladder of the data as they are then. It gives bounds for ever, since a bound
promises nothing; what lies beyond a bound it knows of that version of the data alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.analysis import Kept
from dpsql.analysis.bound_ladders import columns_of
from dpsql.estimates import KeptLadder
from dpsql.policy import TableDomain, UnitVia, fold
from dpsql.release.reuse import tables_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpsql.ledger import StoredLadder
    from dpsql.policy import Policy, Table
    from dpsql.release.reuse import Versions


def version_of(policy: Policy, table: Table, versions: Versions, measure: str = "") -> str:
    """Return a hash of whose the rows of a table are, and one of the rows: "" where no change shows.

    The second one also covers where the rows are and how they are read: source, types, time zones. Of a
    measure of groups it covers the declared values of its columns: those outside of them are one group.
    Lookup tables of other columns change nothing that is measured, and are no part of it.
    """
    return _version(policy, table, versions, measure, measured_tables(policy, table, measure))


def known_versions(policy: Policy, table: Table, versions: Versions, measure: str = "") -> tuple[str, ...]:
    """Return the version of a table as it is now, and as it was written before, with all lookup tables."""
    measured, read = measured_tables(policy, table, measure), tables_read(policy, [table.name])
    written = (measured,) if measured == read else (measured, read)
    return tuple(_version(policy, table, versions, measure, each) for each in written)


def measured_tables(policy: Policy, table: Table, measure: str = "") -> tuple[Table, ...]:
    """Return the tables on which a measure depends: its own one, the parents, the lookups of its keys."""
    columns = {fold(column) for column in columns_of(measure)}
    found, above = {table.name: table}, table
    for name, domain in table.domain.items():
        looked_up = policy.table(domain.table) if isinstance(domain, TableDomain) else None
        if looked_up is not None and fold(name) in columns:
            found[looked_up.name] = looked_up
    while isinstance(above.unit, UnitVia):
        parent = policy.table(above.unit.table)
        if parent is None or parent.name in found:
            break
        found[parent.name] = above = parent
    return tuple(sorted(found.values(), key=lambda each: each.name))


def _version(
    policy: Policy, table: Table, versions: Versions, measure: str, tables: tuple[Table, ...]
) -> str:
    columns = {fold(column) for column in columns_of(measure)}
    domain = {name: each for name, each in table.domain.items() if fold(name) in columns}
    units = _hash(repr([(each.name, each.unit) for each in tables]))
    own = [_NOT_READ | ({"domain": domain} if each.name == table.name else {}) for each in tables]
    read = policy.fingerprint(replace(each, **but) for each, but in zip(tables, own, strict=True))
    if policy.data_version is not None:
        return f"{units}.{_hash(f'{read} declared {policy.data_version}')}"
    return f"{units}.{_hash(f'{read} {versions.content(tables)}') if versions.tell(tables) else ''}"


_NOT_READ: dict[str, Any] = {
    "unique": (),
    "domain": {},
    "bounds": {},
    "not_null": (),
    "not_negative": (),
    "same_unit": {},
    "owned": (),
    "covers": {},
    "determines": {},
    "trust_source": False,
    **dict.fromkeys(("units_at_least", "rows_per_unit", "groups", "cut")),
}
"""What a policy says of a table that does not change what is read of it."""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def shows_changes(version: str) -> bool:
    """Return whether a change of the rows shows in a version, as `version_of` returns it."""
    return not version.endswith(".")


def kept_at(ladder: KeptLadder, known: Iterable[str]) -> Kept | None:
    """Return what a ladder is at the versions of its table; None if it measured the parts of other units."""
    units, data = ladder.version.split(".")
    found = [then for own, then in (each.split(".") for each in known) if own == units]
    if not found:
        return None
    told = bool(data and found[0])
    return Kept(ladder, told and data in found, told)


def read_ladders(stored: Iterable[StoredLadder]) -> list[KeptLadder]:
    """Read ladders as a ledger stores them, in its order."""
    return [KeptLadder.from_json(each.payload.decode()) for each in stored]


class LedgerLadders:
    """The kept ladders of a ledger, each with whether it is of the data as they are now."""

    def __init__(self, policy: Policy, versions: Versions, stored: Iterable[StoredLadder]) -> None:
        self._policy, self._versions = policy, versions
        self._stored = tuple(stored)
        self._kept: dict[str, dict[str, KeptLadder]] = {}
        self._current: dict[tuple[str, str], tuple[str, ...]] = {}
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
            self._current[of] = known_versions(self._policy, declared, self._versions, measure)
        return kept_at(ladder, self._current[of])
