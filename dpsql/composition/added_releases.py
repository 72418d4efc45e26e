"""`combine = ONLY`: an answer that is added up from numbers of stored releases, and costs nothing.

A number is asked of a cell of rows (`analysis.addable_numbers`). It is the sum of released numbers of
disjoint cells that are this cell together, if there are such: the oldest release of each. Which these are
depends on what was asked and when, never on what was released; and as soon as a number can be told, what is
released later does not change it. So nothing is averaged, and nothing is chosen by noise.

What may enter is a number that is a sum of measured ones, each with noise of its own draw, of the same rows:
of this version of the data, or of parts of units that counted as closed when they were counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsql.analysis import place_columns
from dpsql.analysis.addable_numbers import EACH_ROW, AddableNumbers, read_written
from dpsql.composition.release_words import round_down, words_of_selection
from dpsql.composition.untold_cells import say_cell, write_condition, write_measuring
from dpsql.estimates.number_noises import ReleasedNumber, SumEstimates, is_measured, noises_of_sums
from dpsql.estimates.value_sets import (
    AFTER_ALL,
    BEFORE_ALL,
    EVERY,
    Cell,
    ValueSet,
    compose_cell,
    find_missing,
    join_cells,
    meet,
)
from dpsql.kernel.loss import Charge
from dpsql.kernel.unit_parts import NO_PARTS
from dpsql.language import AllGroups, Scalar
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import left_out_sentences, to_doubles
from dpsql.planning.result_table import order_by_terms
from dpsql.release import COMPUTED, Release, from_bytes, places_of
from dpsql.release.reuse import data_of, find_same_data

if TYPE_CHECKING:
    from dpsql.analysis import Output
    from dpsql.composition.prepared import PreparedPrivate
    from dpsql.errors import QueryRefused
    from dpsql.ledger import Ledger, StoredRelease

_MOST_ROWS = 20_000
"""A release with more groups is left out."""
_LISTED = 12
"""So many numbers of releases are listed."""


def add_up(prepared: PreparedPrivate, ledger: Ledger, analyst: str) -> Release:
    """Compute a statement's answer by adding up an analyst's stored releases; refuse if some lack."""
    return _Adding(prepared, ledger, analyst).answer()


@dataclass(slots=True)
class _Adding:
    prepared: PreparedPrivate
    ledger: Ledger
    analyst: str
    asked: AddableNumbers = field(init=False)
    released: dict[tuple[str, str], list[tuple[Cell, ReleasedNumber]]] = field(
        init=False, default_factory=dict
    )
    """The numbers that may enter, by what is equal of numbers that add up."""
    newest: int = 0
    """The newest release that was looked at."""
    releases: int = 0
    large: list[int] = field(default_factory=list)
    """Releases that were left out, since they have too many groups."""

    def answer(self) -> Release:
        plan, source = self.prepared.plan, self.prepared.query.source
        if not isinstance(plan.selection, Scalar | AllGroups):
            raise source.refuse(
                "groups are not selected from what is added up, but in SQL over it",
                plan.options.at.get("combine"),
                "SELECT * FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) ..) ORDER BY ..",
            )
        if plan.addable is None or self.prepared.values:
            raise source.refuse(
                "the numbers of this statement are no sums over rows that conditions on single columns tell"
                " apart, with declared keys and bounds",
                plan.options.at.get("combine"),
                self._paid(),
            )
        self.asked = plan.addable
        for output, measure in zip(self._outputs(), self.asked.measures, strict=True):
            if measure is None:
                raise source.refuse(
                    f"{output.name} is no sum of released numbers", output.at, "ask for COUNT and SUM"
                )
        self._read_releases()
        keys, rows = self._groups()
        shown = [o.of for o in plan.outputs if o.kind == "key"]
        groups = [keys[of].to_pylist() for of in shown]
        cells = [self._meet(self.asked, [each[row] for each in groups]) for row in range(rows.num_rows)]
        sums = [self._compose(place, cells, rows) for place in range(len(self.asked.measures))]
        return self._release(keys, rows, sums)

    def _outputs(self) -> list[Output]:
        return [output for output in self.prepared.plan.outputs if output.kind == "count"]

    # -- what was released

    def _read_releases(self) -> None:
        plan, counting = self.prepared.plan, self.prepared.counting
        wanted = find_same_data(plan, counting.policy, counting.engines.versions)
        listed = self.ledger.list_until(self.analyst, plan.options.at_release)
        self.newest = max((each.number for _, each in listed), default=0)
        self.releases = len(listed)
        if plan.options.at_release is not None and plan.options.at_release > self.newest:
            raise self.prepared.query.source.refuse(
                f"your newest release is {self.newest}", plan.options.at.get("at_release")
            )
        for key, each in listed:
            if key is not None and data_of(key) in wanted:
                self._read(each)

    def _read(self, kept: StoredRelease) -> None:
        release = from_bytes(kept.payload)
        if release.addable is None or release.noises is None:
            return
        found = read_written(release.addable)
        measures = {*self.asked.measures} & {*found.measures}
        if found.rows != self.asked.rows or not measures:
            return
        if release.table.num_rows > _MOST_ROWS:
            self.large.append(kept.number)
            return
        cells = list(self._cells(found, release))
        for measure, noise in zip(found.measures, release.noises, strict=True):
            if measure not in measures or measure is None or not is_measured(noise):
                continue
            numbers = self.released.setdefault(measure, [])
            for row, cell in enumerate(cells):
                if cell is not None and all(column in self.asked.titles for column in cell):
                    numbers.append((cell, ReleasedNumber(kept.number, noise, row)))

    def _cells(self, found: AddableNumbers, release: Release) -> Iterator[Cell | None]:
        """Yield the cell of each group of a release; None where it is not known, or there can be no row."""
        columns = [release.table.column(place).to_pylist() for place in places_of(release).keys]
        for row in range(release.table.num_rows):
            yield self._meet(found, [column[row] for column in columns])

    def _meet(self, numbers: AddableNumbers, group: Sequence[object]) -> Cell | None:
        """Return the cell of a group, with listed values alone; None: no row can be in it.

        Which dates are cut to NULL is not known, unless none can be: nothing tells of such a group.
        """
        cell: Cell | None = meet(self.asked.complete, numbers.where)
        for key, value in zip(numbers.keys, group, strict=True):
            values = key.values_of(value)
            if cell is not None and values is None and _is_bounded(cell.get(key.column, EVERY)):
                return None
            title = f"{self.asked.titles.get(key.column, key.column)} by {key.period}"
            told = (
                {title: ValueSet.of_values(["NULL" if value is None else str(value)])}
                if values is None
                else {key.column: values}
            )
            cell = None if cell is None else meet(cell, told)
        return cell

    # -- what is asked

    def _groups(self) -> tuple[list[pa.ChunkedArray], pa.Table]:
        """Return the keys of the groups of the answer, and a row for each, in the order of the statement.

        The query that would count them runs over the declared values alone: there it reads no private row.
        """
        plan, database = self.prepared.plan, self.prepared.engines.schema_database
        size = len(plan.key_types)
        rows = database.run(plan.compiled.sql)
        if not size:
            return [], rows.slice(0, 1)
        if plan.outside:
            mark = rows.column(f"o{size}").to_pylist()
            rows = rows.take(pa.array([i for i, outside in enumerate(mark) if not outside], pa.int64()))
        terms = () if plan.compiled.order is None else plan.compiled.order.terms
        names = [*(name for name, _ in terms), *(f"k{place}" for place in range(size))]
        columns = [rows.column(name).combine_chunks() for name in names]
        order = order_by_terms(columns, [(place, down) for place, (_, down) in enumerate(terms)])
        if isinstance(plan.selection, AllGroups) and plan.selection.limit is not None:
            order = order[: plan.selection.limit]
        rows = rows.take(pa.array(order, pa.int64()))
        return [rows.column(f"k{place}") for place in range(size)], rows

    def _compose(
        self, place: int, cells: Sequence[Cell | None], rows: pa.Table
    ) -> list[list[ReleasedNumber]]:
        """Return the sums of one number, for each group; refuse what was not told."""
        measure = self.asked.measures[place]
        assert measure is not None  # noqa: S101  it was refused before
        listed = self.released.get(measure, [])
        free = None if measure[0] == EACH_ROW else self.asked.facts
        inside = _Inside(cells, listed, free)
        found, missing = list[list[ReleasedNumber]](), dict[int, Cell]()
        for row, cell in enumerate(cells):
            if cell is None:  # no row can be there
                found.append([])
                continue
            own = inside.of(row)
            chosen = compose_cell(cell, [listed[each][0] for each in own])
            if chosen is None:
                untold = join_cells(find_missing(cell, [listed[each][0] for each in own]))
                missing[row] = untold[0] if untold else cell
            else:
                found.append([listed[own[each]][1] for each in chosen])
        if missing:
            raise self._refuse_missing(place, missing, rows)
        return found

    def _refuse_missing(self, place: int, missing: Mapping[int, Cell], rows: pa.Table) -> QueryRefused:
        """Return the error that names what was not told, with a statement that asks for it."""
        plan, source = self.prepared.plan, self.prepared.query.source
        keys = {key.column for key in self.asked.keys}
        apart = [{c: v for c, v in cell.items() if c not in keys} for cell in missing.values()]
        first, every = next(iter(missing.values())), len(missing) == rows.num_rows > 1
        alike = every and all(each == apart[0] for each in apart)
        cell = apart[0] if alike else first
        titles = [o.name for o in plan.outputs if o.kind == "key"]
        what = self._outputs()[place].name + (f" by {', '.join(titles)}" if alike else "")
        parts = self.prepared.counting.policy.unit_parts
        said = say_cell(cell, self.asked, None if parts is None or parts.every is None else parts.period)
        large = f"; {_list(self.large)} with more than {_MOST_ROWS:,} groups left out" if self.large else ""
        return source.refuse(
            f"not told by what was released; missing: {what}{said and f' of {said}'}{large}",
            plan.options.at.get("combine"),
            self._paid(write_condition(cell, self.asked)),
        )

    def _paid(self, condition: str = "") -> str | None:
        """Return the statement that measures it, perhaps of some rows only; None if that is not known."""
        options, budget = self.prepared.plan.options, self.prepared.counting.policy.budget
        epsilon = ""
        if "error" not in options.at:
            left = self.ledger.budget(self.analyst, NO_PARTS).remaining.epsilon
            most = [budget.default_epsilon or Fraction(1), left, budget.max_epsilon_per_query or left]
            epsilon = round_down(min(most))
        return write_measuring(self.prepared.text, options.at.get("combine", 0), epsilon, condition)

    # -- the answer

    def _release(
        self, keys: Sequence[pa.ChunkedArray], rows: pa.Table, sums: Sequence[list[list[ReleasedNumber]]]
    ) -> Release:
        plan, options = self.prepared.plan, self.prepared.plan.options
        level = float(options.confidence) if options.confidence is not None else 0.95
        counts = [SumEstimates.of(each, level) for each in sums]
        numbers = rows.num_rows * max(len(sums), 1)
        at_once = (
            [SumEstimates.of(each, 1 - (1 - level) / numbers) for each in sums] if numbers > 1 else counts
        )
        if options.intervals == "SIMULTANEOUS":
            counts = at_once
        self._check_error(counts)
        names, places = place_columns(plan.outputs)
        order = [i for i, o in enumerate(plan.outputs) if o.kind == "count"]
        columns: dict[int, Any] = {}
        ends: dict[int, Any] = {}
        for place, output in enumerate(plan.outputs):
            if output.kind == "key":
                columns[place] = keys[output.of]
                continue
            at = order.index(place) if output.kind == "count" else _number_of(plan.outputs, output)
            columns[place] = to_doubles(counts[at].column(output.kind))
        for at, number in enumerate(places.numbers):
            for to, name in zip(number.details, ("stddev", "low", "high"), strict=True):
                if to is not None:
                    columns.setdefault(to, to_doubles(counts[at].column(name)))
                    if name != "stddev":
                        ends[to] = to_doubles(at_once[at].column(name))
        table = pa.table([columns[place] for place in range(len(names))], names=names)
        used = sorted({number.release for each in sums for one in each for number in one})
        words = self._words(used)
        return Release(
            rows=table.select(list(range(len(plan.outputs)))),
            table=table,
            keys=tuple(o.name for o in plan.outputs if o.kind == "key"),
            counts=tuple(o.name for o in plan.outputs if o.kind == "count"),
            selection=words_of_selection(plan),
            mechanism="sums of released numbers",
            guarantee="it is computed from what was released before, and tells nothing more",
            charge=Charge(),
            scale=0.0,
            statement=self.prepared.text,
            confidence=options.confidence or Fraction(95, 100),
            assumed=plan.assumed,
            places=places,
            together=pa.table(list(ends.values()), names=[str(place) for place in ends]) if ends else None,
            noises=noises_of_sums(sums),
            properties={
                **{name: text for name, text in left_out_sentences(plan).items() if name.startswith("line.")},
                COMPUTED: words,
                "unit": plan.unit,
                "domain": plan.domain,
                "domain_size": str(plan.candidates),
            },
        )

    def _words(self, used: Sequence[int]) -> str:
        what = f"computed from {_list(used)} (of {self.releases}), as of release {self.newest}"
        return f"{what}; costs nothing" if used else "no row can be there; costs nothing"

    def _check_error(self, counts: Iterable[SumEstimates]) -> None:
        """Refuse an answer that is less accurate than the statement asks for."""
        plan, options = self.prepared.plan, self.prepared.plan.options
        if options.error is None or "error" not in options.at:
            return
        widest = max((float(each.half.max()) for each in counts if len(each.half)), default=0.0)
        if widest <= float(options.error):
            return
        cost = self.prepared.method.quote.charge.epsilon
        raise self.prepared.query.source.refuse(
            f"the released numbers tell it within {widest:.4g}, not {float(options.error):g}: to measure it"
            f" anew costs epsilon {float(cost):g}",
            plan.options.at.get("error"),
            self._paid(),
        )


class _Inside:
    """Finds which released numbers are of rows of which group of an answer.

    `facts` are the columns along which numbers add up: in all others a cell has to be equal; None: in none.
    """

    def __init__(
        self,
        cells: Sequence[Cell | None],
        listed: Sequence[tuple[Cell, ReleasedNumber]],
        facts: frozenset[str] | None,
    ) -> None:
        self._own: dict[int, list[int]] = {}
        rows = [(row, cell) for row, cell in enumerate(cells) if cell is not None]
        columns = sorted({column for _, cell in rows for column in cell})
        known: dict[tuple[str, ValueSet], frozenset[int]] = {}
        for place, (cell, _) in enumerate(listed):
            found = frozenset(row for row, _ in rows)
            for column in {*columns, *cell}:
                values = cell.get(column, EVERY)
                if (column, values) not in known:
                    equal = facts is not None and column not in facts
                    known[column, values] = frozenset(
                        row for row, own in rows if _lies_in(values, own.get(column, EVERY), equal=equal)
                    )
                found &= known[column, values]
            for row in found:
                self._own.setdefault(row, []).append(place)

    def of(self, row: int) -> list[int]:
        """Return the places of the stored numbers whose rows lie in an answer's group, the oldest first."""
        return self._own.get(row, [])


def _lies_in(values: ValueSet, own: ValueSet, *, equal: bool) -> bool:
    """Whether values of a column are among others, or are all of them."""
    return values == own if equal else values <= own


def _is_bounded(values: ValueSet) -> bool:
    """Whether values are dates from one to another, and NULL is none of them."""
    cuts = values.cuts()
    return not values.null and BEFORE_ALL not in cuts and AFTER_ALL not in cuts


def _number_of(outputs: Sequence[Output], detail: Output) -> int:
    """Return which of the numbers a column shows something of: an equal one, in the order of the columns."""
    numbers = [output for output in outputs if output.kind == "count"]
    same = ((o.of, o.uses, o.formula) == (detail.of, detail.uses, detail.formula) for o in numbers)
    return next(place for place, found in enumerate(same) if found)


def _list(releases: Sequence[int]) -> str:
    """Name releases by their numbers: all of a few, else the first ones and the last."""
    if len(releases) == 1:
        return f"release {releases[0]}"
    named = ", ".join(map(str, releases[: _LISTED - 1] if len(releases) > _LISTED else releases))
    return f"releases {named}" + (f", .. {releases[-1]}" if len(releases) > _LISTED else "")
