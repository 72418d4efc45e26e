"""Statements over whole tables, answered many times: a kept ladder of its own for each run, counted once.

What is exact is counted once for each bound, since the engines keep counts; the search, the noise of the bins
and that of the answers are drawn by the product's own functions. Without a ladder each answer searches its
own bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.analysis.bound_ladders import ROWS, Kept, KeptLadders
from dpsql.analysis.table_measures import UnitMeasure, ValueMeasure
from dpsql.composition.running import _run_method
from dpsql.database import Database
from dpsql.estimates import KeptLadder, ValuesBeyond
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms import FULL, Bins, Ladder
from dpsql.kernel.mechanisms.ladder import VALUES_SHARE
from dpsql.owner import ladder_releases
from dpsql.owner.ladder_releases import parse_measure
from dpsql.planning import NoisyResult, build_details, build_rows, widen_by_left_out
from dpsql.policy import load
from dpsql.release import tables_read
from dpsql.session import Session
from tests.kept_ladders import gathered
from tests.narrow import private
from tests.support.exact import every_number, scores_of


class Ladders:
    """The kept ladders of one run, as statements find them."""

    def __init__(self) -> None:
        self.now: dict[tuple[str, str], KeptLadder] = {}

    def of(self, table: str) -> tuple[str, ...]:
        """See `KeptLadders`."""
        return tuple(measure for each, measure in self.now if each == table)

    def earlier(self, tables: Iterable[str]) -> Iterator[KeptLadders]:
        """See `KeptLadders`: there are no others."""
        yield from ()

    def find(self, table: str, measure: str) -> Kept | None:
        """See `KeptLadders`: all are of the data that are read."""
        found = self.now.get((table, measure))
        return None if found is None else Kept(found, current=True)


@dataclass(frozen=True)
class Answered:
    """What many runs of a statement had, against the exact answer on the rows that have a unit."""

    covered: NDArray[np.float64]
    """For each run the share of its numbers that their intervals cover."""
    by_noise: NDArray[np.float64]
    """The same of the intervals of the noise alone."""
    error: float
    """The root of the mean square of the errors, over numbers and runs."""
    width: float
    """The mean width of the intervals."""
    added: float
    """By which part the sum of all numbers is off, in the mean over the runs."""


class Asked:
    """A policy whose statements are answered many times."""

    def __init__(self, policy: Path, measures: tuple[str, ...], epsilon: Fraction, runs: int) -> None:
        self.database = Database(load(policy))
        self.session = Session(self.database, "alice")
        self.runs, self.ladders = runs, Ladders()
        engines = self.database.engines()
        made = [parse_measure(self.database, name) for name in measures]
        self._drawn: dict[tuple[str, str], list[KeptLadder]] = {}
        for each in sorted(made, key=lambda each: each.text != ROWS):
            (beyond,) = ladder_releases.decide_beyond(self.database, [each, *made])[:1]
            part = VALUES_SHARE * epsilon if beyond else Fraction(0)
            drawn = list(self._draw(each, epsilon - part))
            self._drawn[each.table, each.text] = list(self._beyond(each, drawn, part)) if beyond else drawn
        engines.schema_database.kept_ladders = self.ladders

    def close(self) -> None:
        """Close the database."""
        self.session.close()
        self.database.close()

    def _draw(self, measure: UnitMeasure, epsilon: Fraction) -> Iterator[KeptLadder]:
        """Draw a ladder for each run, as `dpsql bounds` does."""
        engines, policy = self.database.engines(), self.database.policy
        reads = tables_read(policy, [measure.table])
        scores = scores_of(engines.count(measure.scores(), reads), len(measure.bounds))
        search = Ladder.plan(len(measure.bounds), epsilon / 2, sensitivity=FULL)
        rungs = search.run(np.tile(scores, (self.runs, 1))).rung[:, 0].tolist()
        top = Bins.plan(2 * measure.bounds[max(rungs)], epsilon / 2)
        above = every_number(engines, measure.above((0, *top.ends)), reads)
        exact = (above - np.append(above[1:], 0)).tolist()
        now = datetime.now(UTC)
        for number, rung in enumerate(rungs, 1):
            most = 2 * measure.bounds[rung]
            bins = Bins.plan(most, epsilon / 2)
            found = tuple(int(n) for n in bins.run(gathered(bins, top.ends, exact)).number)
            yield KeptLadder(
                number, measure.table, measure.text, measure.step, "v", now, epsilon, most, found
            )

    def _beyond(
        self, measure: UnitMeasure, drawn: list[KeptLadder], epsilon: Fraction
    ) -> Iterator[KeptLadder]:
        """Add what values have beyond bounds to each ladder, with as many rows as that run's ladder says."""
        engines, reads = self.database.engines(), tables_read(self.database.policy, [measure.table])
        exact: dict[int, tuple[ValueMeasure, NDArray[np.int64]]] = {}
        for of_rows, ladder in zip(self._drawn[measure.table, ROWS], drawn, strict=True):
            self.ladders.now = {(measure.table, ROWS): of_rows}
            engines.schema_database.kept_ladders = self.ladders
            made = ladder_releases.beyond_measure(self.database, measure, epsilon)
            if made.rows not in exact:
                exact[made.rows] = made, every_number(engines, [made.compiled], reads)
            own, counts = exact[made.rows]
            above, below, left = map(int, ladder_releases.noise_of(own, epsilon).run(counts).value)
            found = (own.low, own.high, own.rows, own.width, own.step, epsilon, above, below, left)
            yield replace(ladder, beyond=ValuesBeyond(*found))

    def once(self, text: str) -> tuple[Plan, pa.Table, pa.Table]:
        """Answer a statement; return its plan, its numbers, and those without what is left out."""
        self.database.plans.clear()  # which are of other ladders
        prepared = private(self.session.prepare(text))
        plan, run, noisy = _run_method(prepared, Spending(prepared.method.quote.loss))

        def shown(answer: NoisyResult) -> pa.Table:
            return build_details(plan, answer, build_rows(plan, answer, run))[0]

        return plan, shown(widen_by_left_out(plan, noisy)), shown(noisy)

    def answered(
        self, text: str, name: str, exact: Mapping[object, float] | float, *, kept: bool = True
    ) -> Answered:
        """Answer a statement once with the ladders of each run, or always without any.

        The exact answer is by group, or a number.
        """
        covered, by_noise, errors, widths, added = [], [], [], [], []
        for run in range(self.runs):
            self.ladders.now = {key: drawn[run] for key, drawn in self._drawn.items()} if kept else {}
            plan, table, noise = self.once(text)
            assert not kept or all(plan.left_out), "no ladder is used"
            keys = table.column(0).to_pylist()
            true = [exact.get(k, 0.0) for k in keys] if isinstance(exact, Mapping) else [exact]
            truth = np.array(true)
            low, high, value = (_numbers(table, name + end) for end in ("_low", "_high", ""))
            least, most = (_numbers(noise, name + end) for end in ("_low", "_high"))
            covered.append(((low <= truth) & (truth <= high)).mean())
            by_noise.append(((least <= truth) & (truth <= most)).mean())
            errors.append(np.square(value - truth).mean())
            widths.append((high - low).mean())
            added.append(abs(value.sum() / truth.sum() - 1))
        return Answered(
            np.array(covered),
            np.array(by_noise),
            float(np.sqrt(np.mean(errors))),
            float(np.mean(widths)),
            float(np.mean(added)),
        )

    def best(self, text: Callable[[int], str], name: str, exact: Mapping[object, float] | float) -> float:
        """Return the least error over constant bounds on rows, of which `text` has one; no ladder is used."""
        self.ladders.now = {}
        found = []
        for bound in np.unique(np.round(2 ** (np.arange(2, 22) / 2))).astype(int).tolist():
            errors = []
            for _ in range(8):
                _, table, _ = self.once(text(bound))
                keys = table.column(0).to_pylist()
                true = [exact.get(k, 0.0) for k in keys] if isinstance(exact, Mapping) else [exact]
                deviation = _numbers(table, name + "_stddev")
                errors.append(np.square(_numbers(table, name) - np.array(true)).mean())
                assert (deviation > 0).all()
            found.append(float(np.sqrt(np.mean(errors))))
        return min(found)


@contextmanager
def asked(policy: Path, measures: tuple[str, ...], epsilon: Fraction, runs: int) -> Iterator[Asked]:
    """Open a policy whose statements are answered many times."""
    with closing(Asked(policy, measures, epsilon, runs)) as made:
        yield made


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.array(table.column(name).to_pylist(), dtype=np.float64)
