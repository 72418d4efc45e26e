"""`Ledger`: the charges of a policy, opened as the policy says, with what is listed, shown and verified.

What is charged is decided in `dpsql.kernel.ledger` (`ChargeLedger`). Here a ledger is opened beside its
mark, and each further method reads the tables in one transaction and charges nothing; only `vet` writes, that
a source was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from fractions import Fraction
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType
from typing import Self

from dpsql.errors import OperationalError
from dpsql.kernel.ledger import ChargeLedger, events, limits, name_of, part_declarations, renewals
from dpsql.kernel.ledger.caps import Caps, GroupCap, PartBudgets, number_values, numbered_values
from dpsql.kernel.ledger.events import Event
from dpsql.kernel.ledger.limits import Limits
from dpsql.kernel.ledger.renewals import RenewalTerms
from dpsql.kernel.ledger.reports import StoredReport
from dpsql.kernel.ledger.scopes import ScopeBudget, all_budgets
from dpsql.kernel.ledger.store import Store, storable
from dpsql.kernel.loss import Charge, Filter, Totals
from dpsql.kernel.unit_parts import ALL_PARTS, Calendar, PartSet
from dpsql.ledger import listing
from dpsql.ledger.budgets import Budget, budget_of
from dpsql.ledger.listing import (
    Entry,
    LadderCharge,
    Lineage,
    ReleaseInfo,
    ReportRelease,
    list_report_releases,
)
from dpsql.ledger.mark import MarkPlace, mark_place
from dpsql.ledger.part_budgets import BorneInYears, ChargedParts, list_borne, list_parts, total_in_sequence
from dpsql.ledger.rollback_guard import MarkGuard
from dpsql.policy import Policy, UnitPeriods, fold


class Opening(Enum):
    """What is done with a ledger that is not as its newest event and its mark tell."""

    USE = "use"
    """It is refused."""
    INSPECT = "inspect"
    """It is opened for `Ledger.check`; no event is written."""
    ACCEPT = "accept"
    """If it is older than its mark, or missing, what the mark tells counts as spent in it from now on."""


class Ledger(ChargeLedger):
    """The ledger of a policy.

    `ChargeLedger` has its charges; here is how it is opened, and what is listed, shown and verified of it.
    """

    def __init__(self, store: Store, caps: Caps, mark: MarkGuard) -> None:
        super().__init__(store, caps, mark)
        self._mark = mark
        self.accepted: Mapping[str, Totals] | None = None
        """What was added to each scope by `Opening.ACCEPT`; None if there was nothing to accept."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        policy_id: str,
        total: Charge,
        per_query: Fraction | None = None,
        analysts: Mapping[str, Charge] = MappingProxyType({}),
        max_failures: int = 3,
        max_failures_total: int | None = None,
        max_cancelled: int | None = None,
        max_cancelled_total: int | None = None,
        groups: Mapping[str, GroupCap] = MappingProxyType({}),
        high_water: str | os.PathLike[str] | bool | None = None,
        filter_of: Callable[[Charge], Filter] = Filter.of,
        parts: PartBudgets | None = None,
        person: Charge | None = None,
        renewal: RenewalTerms | None = None,
        opening: Opening = Opening.USE,
    ) -> Self:
        """Open a policy's ledger, making a new one if there is none.

        Parameters
        ----------
        path
            The file; its folder must exist and be writable.
        policy_id
            Which policy it belongs to; another one's ledger is a `PolicyError`.
        total, per_query, analysts
            The caps, as the policy states them now: in all, on one statement's epsilon, per analyst. If any
            analyst is named, others are refused, unless there is a cap for "*". A cap below what the kept
            ladders cost is a `PolicyError`.
        max_failures, max_cancelled
            How many statements of an analyst may fail or be cancelled. What runs counts towards both.
        max_failures_total, max_cancelled_total
            How many of all analysts together; ten times as many if left out.
        groups
            The caps on what several analysts spend together.
        high_water
            The file of its mark, which is to lie elsewhere than the ledger; None stands for one in the user's
            folder for state, False for no mark.
        filter_of
            What a scope with a budget admits; by default, what its epsilon allows by basic composition.
        parts
            How units are divided into parts, each of which has the whole of every budget; None: not at all.
        person
            What one person may bear of a year, where parts are periods of units; None: it is not limited.
        renewal
            How often the policy's budget starts anew over the same rows; None: never.
        opening
            What to do if it is not as its newest event and its mark tell.
        """
        most = Limits.of(max_failures, max_failures_total, max_cancelled, max_cancelled_total)
        caps = Caps(total, per_query, dict(analysts), most, dict(groups), filter_of, parts, person, renewal)
        file = Path(path).resolve()
        mark = MarkGuard(_place(high_water), file)
        lost = mark.find_lost()
        if opening is not Opening.ACCEPT:
            mark.refuse_missing()
        opened = cls(Store(file, policy_id, _migrate, trusting=opening is Opening.INSPECT), caps, mark)
        try:
            if opening is Opening.ACCEPT:
                opened.accepted = mark.accept(opened._store, lost)
            if opening is not Opening.INSPECT:
                opened.adopt_caps()
                mark.open(opened._store)
        except BaseException:
            opened.close()
            raise
        return opened

    @classmethod
    def of(cls, policy: Policy, opening: Opening = Opening.USE) -> Self:
        """Open the ledger that a policy names, with the policy's caps.

        `opening` says what to do if it is not as its newest event and its mark tell.
        """
        budget = policy.budget
        return cls.open(
            budget.ledger,
            policy_id=policy.id,
            total=budget.total,
            per_query=budget.max_epsilon_per_query,
            analysts={name: analyst.charge for name, analyst in policy.analysts.items()},
            max_failures=budget.max_failures,
            max_failures_total=budget.max_failures_total,
            max_cancelled=budget.max_cancelled,
            max_cancelled_total=budget.max_cancelled_total,
            groups={name: GroupCap(group.members, group.charge) for name, group in policy.groups.items()},
            high_water=budget.high_water,
            filter_of=budget.filter_of,
            parts=_budgets_of_parts(policy),
            person=None if budget.person is None else budget.person.charge,
            renewal=None
            if budget.renewal is None
            else RenewalTerms(budget.renewal.every, budget.renewal.lifetime_epsilon),
            opening=opening,
        )

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages for whoever has opened the ledger, in sentences."""
        new = (f"new ledger {self._store.path}: nothing is spent yet",) if self.is_new else ()
        return (*new, *self._mark.messages)

    @property
    def is_new(self) -> bool:
        """Whether this process has made the file, of which nothing was known before."""
        return self._store.created and not self.accepted

    @property
    def has_mark(self) -> bool:
        """Whether a mark is kept, so that an older copy of the ledger is noticed."""
        return self._mark.is_kept

    def numbers(self, reuse_keys: Sequence[str], analyst: str) -> tuple[int, ...] | None:
        """Return the numbers of the releases that `find` finds; None unless it finds one under each key."""
        name = name_of(analyst)
        with self._store.read() as connection:
            found = [listing.find_release_number(connection, key, name) for key in reuse_keys]
        return None if None in found else tuple(number for number in found if number is not None)

    def is_shareable(self, reuse_key: str) -> bool:
        """Whether any analyst has a release under the key."""
        with self._store.read() as connection:
            return listing.is_shareable(connection, reuse_key)

    def releases(self, analyst: str) -> list[ReleaseInfo]:
        """List an analyst's own releases, oldest first."""
        with self._store.read() as connection:
            return listing.list_releases(connection, name_of(analyst))

    def lineage(self, number: int, analyst: str) -> Lineage | None:
        """Return what refining one of the analyst's own releases needs to know; None if there is none."""
        with self._store.read() as connection:
            return listing.find_lineage(connection, number, name_of(analyst))

    @property
    def facts(self) -> str | None:
        """The hash of the facts of the newest charge; None if none was made under the present caps."""
        return self.recall("facts") or None

    def budget(self, analyst: str | None = None, parts: PartSet | None = None) -> Budget:
        """Return what is spent and what is left, of the policy or of an analyst.

        Where units are in parts, each with the whole budget, it is that of the fullest part, of all or of
        some.

        For an analyst with a cap, total and spent are the analyst's own, and what remains is the smallest of
        what this cap, those of the analyst's groups and the policy leave. An analyst without one has the
        policy's.
        """
        name = None if analyst is None else name_of(analyst)
        with self._store.read() as connection:
            return budget_of(
                connection, self._limits.find(connection), name, ALL_PARTS if parts is None else parts
            )

    @property
    def parts(self) -> PartBudgets | None:
        """How units are divided into parts; None: not at all."""
        return self._caps.parts

    def remember_upload(self, analyst: str, digest: str, value: str, most: int) -> None:
        """Store what an analyst has uploaded under its hash, unless there are already `most` uploads."""
        names = f"upload {events.canonical(name_of(analyst))} "
        with self._store.write() as connection:
            (known,) = connection.execute(
                "SELECT COUNT(*) FROM setting WHERE name >= ? AND name < ? AND name <> ?",
                (names, f"{names[:-1]}!", names + digest),
            ).fetchone()
            if known >= most:
                raise OperationalError(
                    f"you have uploaded {known:,} different tables: the ledger keeps no more of an analyst"
                    "\nHint: one that you had before can be uploaded again; for others the owner raises"
                    " [budget] max_uploads"
                )
            connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (names + digest, value))

    def describe_renewals(self) -> str:
        """Say how often the budget has started anew, for a guarantee; empty if it does not."""
        with self._store.read() as connection:
            return renewals.describe(connection, self._caps.renewal, self._caps.filter)

    def name_parts(self, parts: PartSet) -> str:
        """Return the names of parts of units; "" if units are in none."""
        with self._store.read() as connection:
            found = self._caps.parts
            return "" if found is None else found.number_in(connection).words(parts)

    def has_current_parts(self) -> bool:
        """Whether no other process has declared other parts since this one has read its policy."""
        with self._store.read() as connection:
            return part_declarations.is_current(connection, self._caps, None)

    def number_values(self, values: Iterable[str | bool]) -> tuple[tuple[str | bool, int], ...]:
        """Return all values that have a part, with its number, after giving one to these."""
        assert self._caps.parts is not None  # noqa: S101  values are parts
        declared = self._caps.parts.declared
        with self._store.read() as connection:
            found = numbered_values(connection, declared)
        if not {value for value, _ in found} >= {*values}:
            with self._store.write() as connection:
                number_values(connection, declared, values)
                found = numbered_values(connection, declared)
        return found

    def budget_by_parts(self, analyst: str | None = None) -> list[ChargedParts]:
        """Return what is spent and left of each part of units, in order; equal neighbours are one."""
        name = None if analyst is None else name_of(analyst)
        with self._store.read() as connection:
            return list_parts(connection, self._limits.find(connection), name)

    def borne_by_person(self) -> list[BorneInYears]:
        """Return what one person bears of each year, if a unit is what one did in one period."""
        with self._store.read() as connection:
            return list_borne(connection, self._caps)

    def total_in_sequence(self, analyst: str | None = None) -> Fraction | None:
        """Return what would be spent without parts, in the scope that `budget` shows first."""
        with self._store.read() as connection:
            return total_in_sequence(connection, self._caps, None if analyst is None else name_of(analyst))

    def report_releases(self, report: StoredReport) -> list[ReportRelease]:
        """Return what was released for a report, in order."""
        with self._store.read() as connection:
            return list_report_releases(connection, report.digest, report.analyst)

    def entries(self, analyst: str | None = None, *, limit: int | None = None) -> list[Entry]:
        """List the entries for the owner, newest first; an analyst may not be shown their states."""
        with self._store.read() as connection:
            return listing.list_entries(connection, None if analyst is None else name_of(analyst), limit)

    def count_failures(self, analyst: str) -> int:
        """Return how many of the analyst's statements count as failed, for the owner."""
        with self._store.read() as connection:
            return listing.count_failures(connection, name_of(analyst))

    def count_cancelled(self, analyst: str) -> int:
        """Return how many of the analyst's statements were cancelled, for the owner."""
        with self._store.read() as connection:
            return limits.count_of(connection, "cancelled", name_of(analyst))[0]

    def event(self, n: int) -> Event | None:
        """Return the event of a number; None if there is none."""
        with self._store.read() as connection:
            return events.at(connection, n)

    def draw_key(self) -> str:
        """Return a random key for hashes of units, in hexadecimal digits; it is not kept in the ledger."""
        with self._store.read() as connection:
            (made,) = connection.execute("SELECT lower(hex(randomblob(32)))").fetchone()
        return str(made)

    def is_vetted(self, source: str, version: str) -> bool:
        """Whether this version of a source was read through its declared types before."""
        return self.recall(f"vetted {source}") == version

    def vet(self, source: str, version: str) -> None:
        """Record that this version of a source was read through its declared types."""
        self.remember(f"vetted {source}", version)

    def find_asked(
        self, question: str, statement: str, analyst: str, place: int = 1
    ) -> list[tuple[str, datetime]]:
        """Return reuse keys and times of the analyst's releases of the same question or statement text.

        Keys of the same question begin with `question`; text is compared for recent releases only, at the
        same place among the releases of the statement.
        """
        with self._store.read() as connection:
            return listing.find_asked(connection, question, storable(statement), name_of(analyst), place)

    def check(self) -> list[str]:
        """Verify every invariant; return a sentence for each violation."""
        from dpsql.ledger.verification import find_problems  # noqa: PLC0415  an answer verifies nothing

        with self._store.read() as connection:
            found = find_problems(connection)
        problem = self._mark.find_problem(self._store)
        return found if problem is None else [*found, problem]

    def ladder_scopes(self) -> list[ScopeBudget]:
        """Return the budgets in which a ladder counts: of the policy, of analysts and of groups."""
        with self._store.read() as connection:
            return all_budgets(connection, self._limits.find(connection), shown_now=True)

    def newest_ladder(self) -> int:
        """Return the number of the newest ladder that is kept; 0 if there is none."""
        with self._store.read() as connection:
            row = connection.execute("SELECT max(number) FROM bounds WHERE state = 'settled'").fetchone()
        return int(row[0] or 0)

    def ladder_charges(self) -> list[LadderCharge]:
        """Return what was charged for ladders, with or without a result, for the owner; newest last."""
        with self._store.read() as connection:
            return listing.list_ladder_charges(connection)


def _migrate(connection: Connection, version: int) -> None:
    from dpsql.ledger.migration import bring_up_to_date  # noqa: PLC0415  few ledgers are of older versions

    bring_up_to_date(connection, version)


def _budgets_of_parts(policy: Policy) -> PartBudgets | None:
    """Return how units are divided into parts; None: not at all."""
    found = policy.unit_parts
    if found is None:
        return None
    listed = [fold(found.table), fold(found.column)]
    if isinstance(found, UnitPeriods):
        listed = ["unit_period", *(fold(name) for pair in sorted(found.columns) for name in pair)]
    declared = events.canonical([found.kind, *listed, found.every or "value"])
    if found.every is not None:
        return PartBudgets(found.kind, Calendar(found.period), declared, isinstance(found, UnitPeriods))
    return PartBudgets(found.kind, None, declared, column=found.column)


def _place(high_water: str | os.PathLike[str] | bool | None) -> MarkPlace | None:
    """Return where the mark is kept; None: nowhere."""
    if high_water is False:
        return None
    return mark_place(None if high_water is None or high_water is True else Path(high_water).resolve())
