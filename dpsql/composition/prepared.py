"""Prepared statements: parsed, analysed and priced, nothing charged, no private row read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa

from dpsql.analysis import Plan
from dpsql.composition.planned_count import PlannedCount, ReleasedValue
from dpsql.database import Engines
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import NO_PARTS, PartSet, either_parts
from dpsql.language import (
    Ask,
    Check,
    Describe,
    ExplainForm,
    OpenChecks,
    Query,
    ReportCommand,
    Set,
    Show,
    StreamCommand,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import RefinementStep
from dpsql.places import Own
from dpsql.planning import WIDE, Method
from dpsql.release import Release
from dpsql.types import SqlType

if TYPE_CHECKING:
    from dpsql.kernel.stable_questions import StableQuestion

TAKEN = "{value}"
"""What stands in a note for the day that was found."""


@dataclass(frozen=True, slots=True)
class PreparedPrivate:
    """A statement that reads private tables: its counts, the mechanism chosen for them, and its price."""

    private: ClassVar[bool] = True
    setting: ClassVar[bool] = False

    text: str
    query: Query
    counting: PlannedCount
    method: Method
    key: str
    """The key under which an equal question on equal data finds its stored release."""
    price: Charge
    """The largest charge; none if the release is stored."""
    refines: RefinementStep | None = None
    """The release that this one refines, for REFINE RELEASE; `query` is then the first statement."""
    note: str = ""
    """What the analyst may have meant otherwise, in words."""
    of_intervals: str = ""
    """What the outer query does to the intervals that are shown, in words."""
    values: tuple[int, ...] = ()
    """The places of the values of earlier releases that it reads (see `PreparedComposed.values`)."""
    added: Release | None = field(default=None, repr=False)
    """What it is added up from, if it combines releases; None until that is known."""
    others: tuple[PlannedCount, ...] = ()
    """What is counted of the further statements of FIRST STABLE, of which one may be answered."""

    @property
    def counts(self) -> tuple[PlannedCount, ...]:
        """All that is counted for the statement."""
        return (self.counting, *self.others)

    @property
    def unit_parts(self) -> PartSet | None:
        """The parts of units on which the statement depends; None: all."""
        none: PartSet | None = NO_PARTS
        return reduce(either_parts, (each.plan.unit_parts for each in self.counts), none)

    @property
    def plan(self) -> Plan:
        """The result of the analysis."""
        return self.counting.plan

    @property
    def combines(self) -> bool:
        """Whether the statement's answer is added up from stored releases, and costs nothing."""
        return self.plan.options.combine == "ONLY"

    @property
    def reusable(self) -> bool:
        """Whether a stored release of the same question answers it."""
        return not self.plan.options.fresh and self.refines is None and not self.combines

    @property
    def full_price(self) -> Charge:
        """The largest charge of the statement if nothing of it is stored."""
        return Charge() if self.combines else self.method.quote.charge

    @property
    def parts(self) -> tuple[PreparedPrivate, ...]:
        """The releases of the statement: this one alone."""
        return (self,)

    @property
    def warned(self) -> tuple[str, ...]:
        """Warnings to read before the statement is charged."""
        return tuple(text for text in self.method.quote.notes if text.startswith(WIDE))

    @property
    def engines(self) -> Engines:
        """The engines on whose data it was prepared."""
        return self.counting.engines


@dataclass(frozen=True, slots=True)
class PreparedComposed:
    """A statement of several releases, or of one, and the query over the released rows."""

    private: ClassVar[bool] = True
    setting: ClassVar[bool] = False

    text: str
    query: Query
    parts: tuple[PreparedPrivate, ...]
    """The distinct releases, in the order in which they were written."""
    relations: tuple[OuterRelation, ...]
    """What the outer query calls the released rows."""
    outer: str
    """The outer query in the SQL of the schema database."""
    traced: str
    """The same with hidden columns behind the others, if there are error bars."""
    columns: tuple[str, ...]
    """The names of the columns of the outer query."""
    keys: tuple[int, ...]
    """The places of those that show a key of a release."""
    bars: tuple[ErrorBar, ...]
    """Those that show a measure of a release."""
    values: tuple[ReleasedValue, ...] = ()
    """The values that releases read of earlier ones."""
    existence: tuple[Existence, ...] = ()
    """What was decided about which groups of releases exist for the outer query."""
    derived: tuple[DerivedColumn, ...] = ()
    """The columns that are computed from released numbers of which the law is followed."""
    numbers: tuple[tuple[int, int], ...] = ()
    """The release and the number in it of each released number that hidden columns name."""
    details: tuple[AskedDetail, ...] = ()
    """The columns that ask for a detail of another column, which is filled in afterwards."""
    whole: bool = False
    """Whether derived columns are of several groups together."""
    chosen: bool = False
    """Whether noise chooses rows of the outer query, beside groups that do not exist."""
    repeated: bool = False
    """Whether each row of derived columns may be made of all released rows."""
    barred: str = ""
    """`traced` without the hidden columns of the derived columns."""
    divisors: tuple[tuple[int, int], ...] = ()
    """The releases and columns of the counts that are divided by: where one rounds to 0, there is NULL."""
    notes: tuple[str, ...] = ()
    """What the answer says of the lists that the outer query makes."""

    @property
    def price(self) -> Charge:
        """The largest charge: the sum of the charges of the releases that are not stored."""
        return sum((part.price for part in self.parts), Charge())

    @property
    def warned(self) -> tuple[str, ...]:
        """Warnings of the parts, each once, to read before the statement is charged."""
        return tuple(dict.fromkeys(text for part in self.parts for text in part.warned))

    @property
    def engines(self) -> Engines:
        """The engines on whose data it was prepared, the same for all releases."""
        return self.parts[0].engines

    @property
    def full_price(self) -> Charge:
        """The largest charge of all releases of the statement if nothing is stored."""
        return sum((part.full_price for part in self.parts), Charge())


@dataclass(frozen=True, slots=True)
class OuterRelation:
    """A relation of the outer query: its name, its release, and the names and types of its columns."""

    name: str
    release: int
    """The place of its release among the parts, from 0."""
    columns: tuple[tuple[str, SqlType], ...]
    constant: bool = False
    """Whether its numbers are constants of the answer, whatever the exact ones are."""


COUNTED = "rows"
"""The name of a number of rows that nothing shows: it is counted to decide which groups exist."""


@dataclass(frozen=True, slots=True)
class Existence:
    """Which groups of a release exist for the SQL over them, where its meaning depends on that."""

    release: int
    """The place of the release among the parts, from 0."""
    columns: tuple[int, ...]
    """Its columns with the number of all rows or units: where all round to 0, a group does not exist.

    There are none if the statement asks for no such number: then every group of a declared domain exists,
    but none of NULL.
    """
    windows: bool = False
    """Whether windows go over the groups, or other sets of GROUP BY have totals: then the columns decide on
    groups of NULL alone."""

    @property
    def criteria(self) -> tuple[int, ...]:
        """The columns by which groups of all keys are left out."""
        return () if self.windows else self.columns

    def write_names(self, plan: Plan) -> str:
        """Return the names of its columns; "number of rows" for what is counted for this alone."""
        names = (plan.outputs[place].name for place in self.columns)
        return " and ".join("number of rows" if name == COUNTED else name for name in names)

    def words(self, plan: Plan, left_out: tuple[int, int, int] | None = None) -> str:
        """Describe which groups without rows are left out of an answer: how many, of how many.

        The third number is that of the others that may have no rows. "" where none was left out and all are
        sure, or nothing decided: groups of undeclared keys are found by their units.
        """
        if self.criteria:
            what, names = "SQL has no groups without rows:", self.write_names(plan)
            if left_out is None:
                return f"{what} those whose {names} rounds to 0 are left out"
            gone, of, unsure = left_out
            words = [f"{gone:,} of {of:,}, whose {names} rounds to 0, left out"] if gone else []
            words += [f"{unsure:,} kept whose {names} is within its error of 0"] if unsure else []
            return f"{what} {'; '.join(words)}" if words else ""
        if plan.candidates is None or self.windows:
            return ""
        size = plan.candidates if left_out is None else left_out[1]
        what = f"SQL has no groups without rows, but each of the {size:,} groups of declared keys counts here"
        return f"{what}: COUNT(*) beside the keys leaves out where it rounds to 0"


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """A column of the outer query that shows a released measure, whose error bar it has."""

    place: int
    """The place of the column, from 0."""
    release: int
    """The place of the release among the parts, from 0."""
    number: int
    """The place of the measure among the numbers of the release, from 0."""
    row: str
    """The hidden column with the number of the released row."""
    own: Own = (None, None, None)
    """The places of the columns that show its standard deviation and interval under their names."""


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column of the outer query that is computed from released numbers."""

    place: int
    """The place of the column, from 0."""
    term: Any
    """What it is made of, in hidden columns (`composition.released_terms`)."""
    own: Own = (None, None, None)
    """The places of the columns that show its standard deviation and interval under their names."""


@dataclass(frozen=True, slots=True)
class AskedDetail:
    """A column that shows a detail of another column of the outer query, such as DP_STDDEV(share)."""

    place: int
    """The place of the column, from 0."""
    kind: str
    """One of `DETAILS`, `left_out` or `bound`."""
    of: int
    """The place of the other column."""


@dataclass(frozen=True, slots=True)
class PreparedPublic:
    """A statement that reads public tables only, and the schema database that answers it."""

    private: ClassVar[bool] = False
    setting: ClassVar[bool] = False
    price: ClassVar[Charge] = Charge()
    full_price: ClassVar[Charge] = Charge()

    text: str
    sql: str
    engines: Engines = field(repr=False)
    views: tuple[str, ...] = ()
    """The policy's views that it reads."""


@dataclass(frozen=True, slots=True)
class Explained:
    """EXPLAIN, with the statement that it explains."""

    prepared: PreparedPrivate | PreparedComposed | PreparedPublic | PreparedCommand
    form: ExplainForm


@dataclass(frozen=True, slots=True)
class PreparedCheck:
    """A check that is analysed; nothing is read, and its stream pays for it."""

    check: Check
    counting: PlannedCount
    """What is counted of it: the number itself, or how far it is off on each side."""
    keys: tuple[str, ...] = ()
    """The names of the columns that have the keys of its groups."""
    table: pa.Table | None = field(default=None, repr=False)
    """The public expectations of groups, if the check names a table of them."""


@dataclass(frozen=True, slots=True)
class PreparedQuestion:
    """A question of a stream of exact answers, analysed; nothing is read, and its stream pays for it."""

    ask: Ask
    counting: PlannedCount
    place: int
    """Of the numbers that decide on the answer."""
    question: StableQuestion


@dataclass(frozen=True, slots=True)
class PreparedReport:
    """A statement of reports, with what `reports` has planned of it."""

    statement: ReportCommand
    planned: Any
    """The registration or the run; None of statements that plan nothing."""


Command: TypeAlias = (
    "Explained | Show | Describe | Set | OpenChecks | StreamCommand | PreparedCheck | PreparedQuestion"
    " | ReportCommand | PreparedReport"
)
"""What a command has that is run; of a check, what is analysed of it; of a report, what is planned of it."""


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """EXPLAIN, SHOW, DESCRIBE or SET; or a statement of a stream of checks, or of reports."""

    text: str
    command: Command
    price: Charge = field(default_factory=Charge)
    """What OPEN CHECKS, REFILL STREAM or a run of a report charges; checks of an open stream cost no more."""

    @property
    def private(self) -> bool:
        """Whether the command charges a budget, or asks something that an open stream has paid for."""
        return isinstance(self.command, (PreparedCheck, PreparedQuestion)) or self.price != Charge()

    @property
    def full_price(self) -> Charge:
        """The price of the statement, of which no part is a stored release."""
        return self.price

    @property
    def setting(self) -> bool:
        """Whether the command is a SET, which may change the price of later statements."""
        return isinstance(self.command, Set)


@dataclass(frozen=True, slots=True)
class PreparedProbe:
    """A statement that a tool sends for columns or values, for which no private row is read."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]), repr=False)
    """The columns of its answer, which has no rows unless there are `values`."""
    values: PreparedPublic | None = None
    """What gives the declared values for which it asks."""
    preview: bool = False
    """Whether it asks for rows of private tables."""


Prepared = PreparedPrivate | PreparedComposed | PreparedPublic | PreparedCommand


def parts_read(prepared: Prepared) -> PartSet | None:
    """Return the parts of units on which any release of a statement depends; None: all."""
    parts = prepared.parts if isinstance(prepared, (PreparedPrivate, PreparedComposed)) else ()
    none: PartSet | None = NO_PARTS
    return reduce(either_parts, (part.unit_parts for part in parts), none)


def question_key(prepared: Prepared) -> str:
    """Return what distinguishes a statement's releases: the questions, the data, how they are asked.

    A confirmation of one statement holds for another with the same key: both are the same releases, and the
    query over them, which is free, is the same.
    """
    if isinstance(prepared, PreparedCommand) and prepared.price != Charge():
        return hashlib.sha256(prepared.text.encode()).hexdigest()
    if not isinstance(prepared, (PreparedPrivate, PreparedComposed)):
        return ""  # it costs nothing
    parts: list[Any] = []
    for part in prepared.parts:
        refined = part.refines and (part.refines.parent, str(part.refines.epsilon))
        parts.append([part.key, refined, bool(part.plan.options.fresh)])
    outer, values = None, []
    if isinstance(prepared, PreparedComposed):  # a key has only the place of a value that is not known yet
        outer, values = prepared.outer, [value.sql for value in prepared.values]
    return hashlib.sha256(json.dumps([parts, outer, values]).encode()).hexdigest()
