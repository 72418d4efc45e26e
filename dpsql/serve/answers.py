"""What a client is given for a statement, over any protocol; the plans and answers that are kept.

Messages: those of a release tell charge, budget left, precision and numbers of releases. Nothing in them is
absent from the release or the budget, so they tell no more of the data.

What is kept: a plan is analysed and compiled, without rows or prices. Plans and descriptions hold for the
data on which they were made. An answer follows from the statement, from the releases and, where it joins
them, from public tables: it is given again only to the same analyst, on the same data, and while the ledger
has the same releases.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import pyarrow as pa

from dpsql.composition.kept_plans import PlanKey, holds_later
from dpsql.estimates import figure
from dpsql.fair_cache import FairCache
from dpsql.language import copy_parameters
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import shown
from dpsql.release import places_of
from dpsql.render.figures import Estimate
from dpsql.render.readable import sentences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
    from dpsql.database import Engines
    from dpsql.ledger import Budget, Ledger
    from dpsql.policy import View
    from dpsql.release import Release


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column of an answer: its name and its type."""

    name: str
    type: pa.DataType
    oid: int | None = None
    """The type's number in PostgreSQL's catalogue, where the Arrow type does not tell it."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice or a warning that is sent beside the rows of an answer."""

    severity: Literal["NOTICE", "WARNING"]
    text: str
    hint: str | None = None


class Encoded:
    """The rows of an answer as a protocol sends them, kept with the answer up to a number of bytes.

    Only the thread of the event loop uses it. `held` is what the rows themselves take, which takes time to
    find out.
    """

    def __init__(self, most_bytes: int, held: int = 0) -> None:
        self.held = held
        self._left = most_bytes
        self._kept: dict[tuple[object, ...], bytes] = {}

    def get(self, form: tuple[object, ...]) -> bytes | None:
        """Return the rows as they were encoded before for a protocol's format; None if not kept."""
        return self._kept.get(form)

    def put(self, form: tuple[object, ...], rows: bytes) -> None:
        """Keep the encoded rows for a protocol's format, if there is room."""
        if form not in self._kept and len(rows) <= self._left:
            self._kept[form] = rows
            self._left -= len(rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a statement, with the notices and warnings that are sent beside them."""

    columns: tuple[AnswerColumn, ...]
    table: pa.Table
    notices: tuple[Notice, ...] = ()
    release: Release | None = None
    tag: str = "SELECT"
    """The word for what was done; the wire adds the number of rows to SELECT."""
    changes: tuple[tuple[str, str, bool], ...] = ()
    """Settings that the statement changes by `set_config`: name, value, whether for the transaction only."""
    encoded: Encoded | None = field(default=None, compare=False, repr=False)
    """Where its rows are kept as they were sent, if the answer is given again."""


@dataclass(frozen=True, slots=True)
class Described:
    """The parameters and the columns of a statement that was not run."""

    parameters: tuple[pa.DataType, ...]
    columns: tuple[AnswerColumn, ...]
    parameter_oids: tuple[int | None, ...] = ()
    """The catalogue's numbers of the parameters' types, where it has any."""


def columns_of(schema: pa.Schema) -> tuple[AnswerColumn, ...]:
    """Return the columns of a result with this schema."""
    return tuple(AnswerColumn(field.name, field.type) for field in schema)


def empty_answer(schema: pa.Schema, *notices: Notice) -> Answer:
    """Return an answer with these columns and no rows."""
    return Answer(columns_of(schema), schema.empty_table(), notices)


# -- parameters and types that were announced


def put_arrays_back(parameters: Sequence[object] | None, values: tuple[object, ...]) -> tuple[object, ...]:
    """Put the arrays among the parameters back, item by item: the catalogue alone takes arrays."""
    return tuple(
        list(copy_parameters(given) or ()) if isinstance(given, list) else value
        for given, value in zip(parameters or (), values, strict=True)
    )


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast a table to the announced schema, whose types came from dummies for the parameters.

    How many digits a DECIMAL has is not announced.
    """
    if table.schema.types == schema.types or len(table.schema) != len(schema):
        return table
    fields = []
    for own, announced in zip(table.schema, schema, strict=True):
        wanted = announced.type
        if pa.types.is_decimal(wanted):
            wanted = own.type if pa.types.is_decimal(own.type) else pa.decimal128(38, wanted.scale)
        fields.append(own.with_type(wanted))
    try:
        return table.cast(pa.schema(fields, table.schema.metadata))
    except pa.ArrowInvalid:
        return table


# -- messages


RELOADED = Notice("NOTICE", "the policy was read again: what it says now holds from this statement on")


def messages_of(release: Release, budget: Budget | None = None) -> tuple[Notice, ...]:
    """Return the notice of a release, and its warnings; `budget` is what is left if something was charged."""
    parts = release.parts or (release,)
    new = [part for part in parts if part.reused is None]
    said = []
    if new and budget is not None:
        charged = sum((part.charge.epsilon for part in new), Fraction(0))
        left, total = (shown(part.epsilon, up=False) for part in (budget.remaining, budget.total))
        said.append(f"epsilon {shown(charged, up=True)} charged, {left} of {total} left")
    said += _describe_precision(release)
    said += sentences(release)
    said += _list_numbers(new)
    said += [
        f"reused release {old.number} of {old.reused.day} {old.reused:%b}" for old in parts if old.reused
    ]
    if not new:
        said.append("epsilon 0")
    if release.charged_again:
        said.append(release.charged_again)
    warnings = (Notice("WARNING", text) for text in release.warnings)
    return (Notice("NOTICE", "; ".join(said)), *warnings)


def _list_numbers(parts: list[Release]) -> list[str]:
    """Return the numbers of releases in words."""
    numbers = [str(part.number) for part in parts if part.number is not None]
    return [f"release{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []


def _describe_precision(release: Release) -> list[str]:
    """Return how wide the intervals of the first count are, or the ends of a single one."""
    level = f"{float(100 * release.confidence):g}%"
    for number in places_of(release).numbers:
        if number.low is None or number.high is None:
            continue
        name = release.table.column_names[number.place]
        shown = (number.place, number.low, number.high)
        ends = [release.table.column(each).to_pylist() for each in shown]
        found = [Estimate(*row) for row in zip(*ends, strict=True) if row[0] is not None]
        whole = [each for each in found if each.low is not None and each.high is not None]
        if not whole:
            continue
        even = all(each.half is not None for each in whole)
        if len(found) == 1 and not even:
            return [f"{name} {found[0].text()[1].strip('()')} ({level})"]
        reaches = [each.farther for each in whole]
        least, most = figure(min(reaches)), figure(max(reaches))
        span = least if least == most else f"{least} to {most}"
        others = f", {len(found) - len(whole)} of {len(found)} without one" if len(whole) < len(found) else ""
        return [f"{name} {'±' if even else 'off by at most'} {span} ({level}{others})"]
    return []


PLANS, DESCRIPTIONS = 256, 1024
"""The most plans and descriptions that are kept of a policy."""
MOST = 1024
MOST_BYTES = 32 << 20
"""The most answers, and bytes of them, that are kept of a policy."""
SMALL = 1 << 20
"""The most bytes of an answer that is kept among these, with its rows as they were sent."""
LARGE_BYTES = 128 << 20
LARGEST = 64 << 20
"""The most bytes of larger answers together, which displace no small ones, and of each of them."""
_FIXED = 4096
"""Bytes that an answer takes beside its rows."""

_Value = TypeVar("_Value")


@dataclass(eq=False, slots=True)
class Planned:
    """A prepared statement that is kept to be run again, without its price, which may change."""

    prepared: PreparedPrivate | PreparedComposed | PreparedPublic
    names_epsilon: bool | None = None
    """Whether the text itself says what may be charged; None: not known yet."""
    schema: pa.Schema | None = field(default=None, repr=False)
    """The columns of its answers; None: not known yet."""

    @property
    def engines(self) -> Engines:
        """The engines on which the statement was prepared."""
        return self.prepared.engines

    def may_be_kept(self, text: str, views: Mapping[str, View]) -> bool:
        """Return whether the plan stays valid: its text reads no clock, and its files are settled."""
        return holds_later(self.prepared, text, views)


Description = tuple[tuple["pa.DataType", ...], "pa.Schema"]
"""The types of a statement's parameters, and the schema of its answers."""


class DataCache(Generic[_Value]):
    """The values of statements that were used last, each for the data on which it was made."""

    def __init__(self, size: int) -> None:
        self._kept: FairCache[PlanKey, tuple[weakref.ref[Engines], _Value]] = FairCache(size)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: PlanKey) -> bool:
        """Whether a value is kept, perhaps one that was made on other data."""
        return key in self._kept

    def get(self, key: PlanKey, engines: Engines) -> _Value | None:
        """Return the value kept for these engines; forget a value that was made on other engines."""
        found = self._kept.get(key)
        if found is not None and found[0]() is not engines:
            self._kept.forget(key, found)
            return None
        return None if found is None else found[1]

    def put(self, key: PlanKey, engines: Engines, value: _Value, analyst: str) -> None:
        """Keep a value that an analyst has caused to be made."""
        self._kept.put(key, (weakref.ref(engines), value), analyst)


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    answer: Answer
    engines: weakref.ref[Engines]
    """The engines on whose public tables it was computed, which are not kept open for it."""
    keys: tuple[str, ...] = field(repr=False)
    numbers: tuple[int, ...]
    """The keys of its releases and their numbers in the ledger."""


class StoredAnswers:
    """The stored answers of one policy that were given last; any thread may use it."""

    def __init__(self, entries: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._kept: FairCache[PlanKey, _KeptAnswer] = FairCache(entries, most_bytes)
        self._large: FairCache[PlanKey, _KeptAnswer] = FairCache(entries, LARGE_BYTES)

    def __len__(self) -> int:
        return len(self._kept) + len(self._large)

    def get(self, key: PlanKey, analyst: str, engines: Engines, ledger: Ledger) -> Answer | None:
        """Return the answer to a statement; None if it is not kept, or does not hold any more."""
        whole = (*key, analyst)
        kept = self._kept.get(whole) or self._large.get(whole)
        if kept is None:
            return None
        if kept.engines() is engines and ledger.numbers(kept.keys, analyst) == kept.numbers:
            return kept.answer
        self._kept.forget(whole, kept)
        self._large.forget(whole, kept)
        return None

    def put(
        self, key: PlanKey, analyst: str, engines: Engines, keys: tuple[str, ...], answer: Answer
    ) -> Answer:
        """Keep an answer that consists of the releases under these keys; return it as it is kept."""
        release = answer.release
        if release is None:
            return answer
        parts = release.parts or (release,)
        numbers = tuple(part.number for part in parts if part.number is not None and part.reused is not None)
        rows = answer.table.nbytes + release.table.nbytes + sum(part.table.nbytes for part in release.parts)
        size, room = _FIXED + rows, _FIXED + 4 * answer.table.nbytes
        if len(numbers) < len(parts) or len(keys) != len(parts) or size > LARGEST:
            return answer
        if size + room > SMALL:
            entry = _KeptAnswer(answer, weakref.ref(engines), keys, numbers)
            self._large.put((*key, analyst), entry, analyst, size)
            return answer
        kept = replace(answer, encoded=Encoded(room, answer.table.nbytes))
        entry = _KeptAnswer(kept, weakref.ref(engines), keys, numbers)
        self._kept.put((*key, analyst), entry, analyst, size + room)
        return kept
