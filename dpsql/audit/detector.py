"""Detect counterexamples: search for inputs, arguments and an event, test them on fresh runs (`Verdict`).

A `Subject` is what is audited, such as dpsql's mechanisms (`AUDITED`): a mechanism as the detector calls it,
its claim, and whether that is true.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, fields
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import SELECTION_CASES, Adjacency, AuditCase
from dpsql.audit.cases.measuring import MEASURING_CASES
from dpsql.audit.cases.thresholds import THRESHOLD_CASES
from dpsql.audit.counterexample_search import SMALL_EPSILON, Mechanism, SearchState, SelectedEvent, search
from dpsql.audit.events import OutputEvent
from dpsql.audit.runs import CHARGE, LENGTHS, Pair, pairs
from dpsql.audit.statistics import GroupSequentialTest, draw_strata
from dpsql.errors import ProgrammingError
from dpsql.kernel.loss import Charge, Number, exact
from dpsql.kernel.mechanisms.mechanism import NoiseSource, Result
from dpsql.kernel.noise import Entropy, SimulationEntropy
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PValues:
    """The p-values of an event at one epsilon, in both directions."""

    epsilon: float
    """The hypothesis: probabilities of the event differ by at most a factor e^epsilon (and delta)."""
    forward: float
    """p-value of "no more than e^epsilon times as likely on the first input": small ones refute it."""
    backward: float
    """The same with the inputs exchanged."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two adjacent inputs and the event that distinguishes them; it is likelier on `first`."""

    pattern: str
    """How the inputs differ."""
    first: Any
    second: Any
    arguments: Mapping[str, Any]
    event: OutputEvent
    epsilon: float
    delta: float
    """What is claimed for it."""
    times_first: int
    times_second: int
    """How often it happened in `trials` fresh runs on each."""
    trials: int
    """Runs on each input."""

    def words(self) -> str:
        """Describe the counterexample so that it can be checked by hand."""
        p1, p2 = (_show_percent(times / self.trials) for times in (self.times_first, self.times_second))
        how = "" if not self.arguments else f" ({_show_arguments(self.arguments)})"
        allowed = f"e^{self.epsilon:.4g} = {math.exp(self.epsilon):.4g} times as often"
        allowed += f", and {_show_percent(self.delta)} more" if self.delta else ""
        if self.times_second:
            often = f"{self.times_first / self.times_second:.4g} times as often"
        else:
            often = "and never there"
        return (
            f"D1 = {_show_input(self.first)}, D2 = {_show_input(self.second)}{how}: the event "
            f"'{self.event.words()}' has {p1} on D1 and {p2} on D2, {often}; allowed is {allowed}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of an audit: whether a claim is refuted, and the evidence."""

    name: str
    epsilon: float
    delta: float
    """What is claimed for the event that was tested."""
    violated: bool
    """Whether the claim is refuted, with the confidence below."""
    p_value: float
    """Of the claim, on fresh runs; below 1 - confidence: refuted."""
    lower_bound: float
    """The true epsilon is at least this, with the same confidence (for the given delta)."""
    confidence: float
    """Chance that a correct mechanism is not accused, and that the bound holds."""
    counterexample: Counterexample
    """The tested event and its inputs. If nothing is violated, the event that came closest."""
    curve: tuple[PValues, ...]
    """p-values for a range of epsilon, all from the same fresh runs."""
    trials: int
    """Runs of the last stage of the final test, on each input."""
    runs: int
    """Total number of runs, search included."""
    candidates: int
    """Number of pairs of inputs with arguments that were searched."""
    seconds: float
    """Duration of the audit."""

    def words(self) -> str:
        """Describe the outcome and its evidence."""
        sure = f"with confidence {self.confidence:.6g}"
        claim = f"epsilon {self.epsilon:.4g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        least = f"epsilon is at least {self.lower_bound:.4g} {sure}"
        if self.violated:
            head = f"{self.name} is not private at {claim}: {least}"
        else:
            head = f"{self.name}: no counterexample at {claim}; {least}"
        return f"{head}. {self.counterexample.words()}."


def _show_percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _show_arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in arguments.items())


def _show_input(value: object) -> str:
    if isinstance(value, (tuple, list, np.ndarray)):
        return "[" + ", ".join(str(item) for item in value) + "]"
    return str(value)


_BLOCK = 1 << 16
"""Runs of one call in the final test, chosen so that they fit into the cache."""

_CERTAIN_PART = 4
"""For an event that almost certainly violates the claim, the runs of the final test are divided by this."""

_OPEN, _MORE = 0.5, 4
"""The largest p-value after which a second stage is run, and the runs of that stage as a multiple of the
first's."""


def detect(
    mechanism: Mechanism,
    epsilon: Number,
    *,
    delta: Number = 0,
    adjacency: Adjacency = "general",
    sensitivity: int = 1,
    lengths: Sequence[int] = LENGTHS,
    inputs: Sequence[Pair] | None = None,
    arguments: Mapping[str, Sequence[Any]] | None = None,
    trials: int = 500_000,
    effort: float = 1.0,
    confidence: float = 0.999,
    epsilons: Sequence[float] | None = None,
    name: str = "the mechanism",
    entropy: Entropy | None = None,
    threads: int | None = None,
) -> Verdict:
    """Search for a counterexample to a mechanism's claim of differential privacy.

    Parameters
    ----------
    mechanism
        Called as `mechanism(counts, trials, entropy, **arguments)`: `counts` an int64 array, `trials`
        the number of independent runs it is to make on them, `entropy` a source of randomness it may
        use. What it returns is read by `dpsql.audit.read`: an array, a mapping of arrays, or a
        sequence of outputs.
    epsilon, delta
        The claim. If the mechanism reports its charge, that charge is the claim instead.
    adjacency
        How one unit changes the counts: "general", "monotone" (all the same way) or "one" of them.
    sensitivity
        By how much one unit changes a count.
    lengths
        Numbers of counts to try.
    inputs
        Adjacent inputs instead of generated ones; of any type the mechanism takes (tuples become
        arrays of counts).
    arguments
        For each further argument of the mechanism the values to try; the search selects among them.
    trials
        Runs of the final test on each input, a quarter of them if the event found is a clear violation; the
        search makes about as many, twice as many where epsilon is below 1/2.
    effort
        Runs of the search, relative to its usual number: more for counterexamples that are hard to find.
    confidence
        1 - the chance that a correct mechanism is accused.
    epsilons
        Values of epsilon at which p-values are computed; by default a range around claim and lower bound.
    name
        Name of the mechanism in the verdict.
    entropy
        Source of all randomness; by default a fast generator seeded by the operating system.
    threads
        Number of threads that run the mechanism; by default one a core, at most 4. With a given `entropy` it
        is one: in several threads the order of draws, and so a seeded audit, would not be reproducible.

    Raises
    ------
    ProgrammingError
        If an argument is out of range or the mechanism's output cannot be read.

    Notes
    -----
    Dissertation, Algorithm 1. The search (input generator, arguments, event selector) goes in rounds,
    each with more runs of fewer candidates. It ends with one event on one pair of inputs in one
    direction. That event alone is tested, on fresh runs, so the p-value needs no correction for the search.
    The hypotheses for different epsilon are nested, so all that the curve rejects is rejected
    simultaneously. If the p-value of the first stage is inconclusive but low, a second, longer stage
    follows, and the p-values are corrected for it. A mechanism that passes is not proved private.
    """
    started = time.perf_counter()
    claim, beside = float(exact(epsilon)), float(exact(delta))
    if claim < 0 or not 0 <= beside < 1 or not 0 < confidence < 1 or trials < 100 or effort <= 0:
        raise ProgrammingError("epsilon, delta, confidence, trials or effort is out of range")
    source = SimulationEntropy() if entropy is None else entropy
    known = (
        pairs(adjacency, sensitivity=sensitivity, lengths=lengths, entropy=source)
        if inputs is None
        else list(inputs)
    )
    grid = dict(arguments or {})
    if not known or not all(len(values) for values in grid.values()):
        raise ProgrammingError("there is nothing to try: inputs or arguments are empty")
    several = (threads or min(4, os.cpu_count() or 1)) if entropy is None else 1
    with ThreadPoolExecutor(several) as pool:
        spread = pool.map if several > 1 else map
        state = SearchState(mechanism, claim, beside, known, grid, source, spread)
        best = search(state, round(trials * effort))
        found, pair, chosen = best.event, known[best.point.pair], state.arguments_at(best.point)
        order = (pair.second, pair.first) if found.swapped else (pair.first, pair.second)
        at, alpha = draw_strata(source), 1 - confidence
        # The runs of the search decide how many are made: the test, on other runs, remains valid.
        first = max(trials // _CERTAIN_PART, 1) if best.certain else trials
        counts = [_count_event(state, found, order, chosen, first)]
        test = GroupSequentialTest(tuple(counts), at, found.delta)
        if alpha < test.p_value(found.epsilon) <= _OPEN:
            counts.append(_count_event(state, found, order, chosen, _MORE * trials))
            test = GroupSequentialTest(tuple(counts), at, found.delta)
    least, p = test.lower_bound(alpha), test.p_value(found.epsilon)
    tested = epsilons if epsilons is not None else _epsilon_range(found.epsilon, least)
    return Verdict(
        name=name,
        epsilon=found.epsilon,
        delta=found.delta,
        violated=p <= alpha,
        p_value=p,
        lower_bound=least,
        confidence=confidence,
        counterexample=Counterexample(
            pair.name, *order, chosen, found.event, found.epsilon, found.delta, *counts[-1]
        ),
        curve=tuple(PValues(float(e), test.p_value(float(e)), test.backward(float(e))) for e in tested),
        trials=counts[-1][2],
        runs=state.runs,
        candidates=len(state.seen),
        seconds=time.perf_counter() - started,
    )


def _count_event(
    state: SearchState,
    found: SelectedEvent,
    order: tuple[Any, Any],
    arguments: Mapping[str, Any],
    trials: int,
) -> tuple[int, int, int]:
    """Count the event in fresh runs on each input; return both counts and the number of runs on each."""
    sizes = [min(_BLOCK, trials - start) for start in range(0, trials, _BLOCK)]

    def one(task: tuple[int, int]) -> int:
        return found.event.count(state.run(order[task[0]], arguments, task[1]))

    counts = list(state.map(one, [(side, size) for size in sizes for side in (0, 1)]))
    state.runs += 2 * trials
    return sum(counts[0::2]), sum(counts[1::2]), trials


def _epsilon_range(claim: float, least: float) -> list[float]:
    """Return 24 values of epsilon from near 0 to beyond both the claim and the bound."""
    top = 1.5 * max(claim, min(least, 4 * claim), 0.05)
    step = 10.0 ** math.floor(math.log10(top / 24))
    step *= min(m for m in (1, 2, 2.5, 5, 10) if m * step * 24 >= top)
    return [round(step * i, 12) for i in range(1, 25)]


Kind = Literal["dpsql", "reference", "incorrect", "statement"]
"""A mechanism of dpsql, a private one from the literature, one whose claim is false, or a whole statement."""


@dataclass(frozen=True, eq=False, slots=True)
class Subject:
    """A mechanism to audit, with its claim."""

    name: str
    """Name of the subject."""
    kind: Kind
    """Where the mechanism comes from; decides the expected verdict."""
    about: str
    """What the mechanism does; for an incorrect one, the mistake and its source."""
    mechanism: Callable[..., object]
    """The mechanism, called as `detect` calls it, with `epsilon=` in addition."""
    adjacency: Adjacency = "general"
    """How one unit changes the input."""
    delta: float = 0.0
    """Delta of the claim."""
    arguments: Callable[[Fraction], Mapping[str, Sequence[Any]]] = field(default=lambda _: {})
    """Given epsilon, the values to try for each argument."""
    inputs: Callable[[Fraction], Sequence[Pair]] | None = None
    """Given epsilon, the inputs to try instead of generated counts."""
    tight: bool = True
    """Whether the privacy loss reaches the claim on events that are not rare, so that with enough runs the
    lower bound is close to the claim."""
    effort: float = 1.0
    """Runs of the search, as in `detect`, for small epsilon, where events differ least."""
    wrong_at: float | None = None
    """Epsilon below which the claim of an incorrect one is false; None: for every epsilon."""

    def is_wrong(self, epsilon: float) -> bool:
        """Return whether the claim at this epsilon is false."""
        return self.kind == "incorrect" and (self.wrong_at is None or epsilon < self.wrong_at)

    def audit(
        self,
        epsilon: Fraction,
        *,
        trials: int,
        confidence: float,
        epsilons: Sequence[float] | None = None,
        entropy: Entropy | None = None,
        threads: int | None = None,
    ) -> Verdict:
        """Search for a counterexample to the claim; parameters as in `detect`."""
        return detect(
            partial(self.mechanism, epsilon=epsilon),
            epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            arguments=self.arguments(epsilon),
            inputs=None if self.inputs is None else self.inputs(epsilon),
            trials=trials,
            effort=self.effort if epsilon < SMALL_EPSILON else 1.0,
            confidence=confidence,
            epsilons=epsilons,
            name=self.name,
            entropy=entropy,
            threads=threads,
        )


def repeat_counts(counts: NDArray[np.int64], trials: int) -> NDArray[np.int64]:
    """Return the counts once for each run, as one array (without copying them)."""
    return np.broadcast_to(counts, (trials, *counts.shape))


def outputs_of(result: Result[Any]) -> dict[str, Any]:
    """Return all that a mechanism releases, and its charge: one for all trials, or an epsilon for each."""
    released = {field.name: getattr(result, field.name) for field in fields(result)}
    del released["plan"], released["units"]
    return {**released, CHARGE: _charge_of(result)}


def _charge_of(result: Result[Any]) -> Charge | NDArray[np.float64]:
    if isinstance(result.units, int):
        return result.charge
    distinct, which = np.unique(result.units, return_inverse=True)
    each = [float(result.plan.realised_loss(units).charge.epsilon) for units in distinct.tolist()]
    return np.array(each)[which]


def _run_case(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    *,
    case: AuditCase,
    epsilon: Fraction,
    **arguments: Any,  # noqa: ANN401  handed on to the plan
) -> dict[str, Any]:
    values = counts if case.answer is None else counts[0]
    plan = case.plan(values.shape[-1], epsilon=epsilon, **arguments)
    rows = repeat_counts(values, trials)
    result = case.run(plan, rows, NoiseSource(entropy))
    if case.answer is None:
        return outputs_of(result)
    return {**outputs_of(result), "answer": case.answer(result, counts[1])}


def _make_subject(case: AuditCase) -> Subject:
    def inputs(epsilon: Fraction) -> Sequence[Pair]:
        return [Pair(*each) for each in case.inputs(epsilon)] if case.inputs else []

    return Subject(
        case.name,
        "dpsql",
        case.about,
        partial(_run_case, case=case),
        case.adjacency,
        case.delta,
        case.arguments,
        inputs if case.inputs else None,
        case.tight,
    )


AUDITED: tuple[AuditCase, ...] = (*SELECTION_CASES, *MEASURING_CASES, *THRESHOLD_CASES)
"""The audit cases of all mechanisms of dpsql, in the order of the catalogue."""
SHIPPED = tuple(_make_subject(case) for case in AUDITED)
"""The subjects of these cases, in the same order."""
