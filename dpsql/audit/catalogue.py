"""The catalogue of audit subjects, and campaigns that audit several of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from typing import Any

from dpsql.audit.mistakes import SUBJECTS as KNOWN
from dpsql.audit.shipped import SHIPPED
from dpsql.audit.subject import Subject
from dpsql.audit.verdict import Verdict
from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

CATALOGUE: tuple[Subject, ...] = (*SHIPPED, *KNOWN)
"""All subjects: every mechanism of dpsql, private ones from the literature, and known mistakes."""

EPSILONS = (Fraction(1, 5), Fraction(7, 10), Fraction(3, 2))
"""The claims tested by default: those of the dissertation's experiments."""

_NEAR = 0.75
"""Share of the claim that the lower bound of a tight mechanism reaches if the search succeeds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One audit of a subject at one epsilon, with its verdict."""

    subject: Subject
    epsilon: Fraction
    verdict: Verdict

    @property
    def expected(self) -> bool:
        """Whether the verdict is the known one: violated exactly if the subject's claim is false."""
        return self.verdict.violated == self.subject.wrong(float(self.epsilon))

    @property
    def near(self) -> bool:
        """Whether the lower bound comes within a quarter of the claim, or beyond it."""
        return self.verdict.lower_bound >= _NEAR * self.verdict.epsilon


@dataclass(frozen=True, slots=True)
class Campaign:
    """The audits of several subjects."""

    outcomes: tuple[Outcome, ...]
    """By subject, then by epsilon."""
    confidence: float
    """Of each verdict; all of them together hold with confidence 1 - `error_rate`."""
    error_rate: float
    """Familywise error rate: the chance that any correct subject is accused."""
    seconds: float

    @property
    def expected(self) -> bool:
        """Whether every verdict is as expected."""
        return all(outcome.expected for outcome in self.outcomes)


def campaign(
    subjects: Sequence[Subject] = CATALOGUE,
    epsilons: Sequence[Fraction] = EPSILONS,
    *,
    trials: int = 500_000,
    error_rate: float = 0.01,
    entropy: Entropy | None = None,
    processes: int = 1,
    on_progress: Callable[[int, int, Subject, Fraction], None] | None = None,
) -> Campaign:
    """Audit subjects at each of several epsilon.

    Parameters
    ----------
    subjects, epsilons
        What to audit.
    trials
        Runs of each final test on each input.
    error_rate
        Chance that any correct subject is accused in the whole campaign; each verdict gets an equal part.
    entropy
        As for `detect`.
    processes
        Number of worker processes. Subjects outside `CATALOGUE`, and all subjects if an `entropy` is given,
        are audited in this process.
    on_progress
        Called before each audit's result is awaited, with its number, the number of audits, the subject and
        epsilon.
    """
    started = time.perf_counter()
    tasks = [(subject, epsilon) for subject in subjects for epsilon in epsilons]
    confidence = 1 - error_rate / max(len(tasks), 1)
    top = 1.6 * float(max(epsilons, default=Fraction(1)))
    grid = [round(top * i / 24, 3) for i in range(1, 25)]
    audit = partial(_audit, trials=trials, confidence=confidence, epsilons=grid)
    verdicts = (
        _spread(tasks, audit, processes)
        if processes > 1 and entropy is None and all(one in CATALOGUE for one, _ in tasks)
        else (audit(subject, epsilon, entropy=entropy) for subject, epsilon in tasks)
    )
    outcomes = []
    for number, (subject, epsilon) in enumerate(tasks, 1):
        if on_progress is not None:
            on_progress(number, len(tasks), subject, epsilon)
        outcomes.append(Outcome(subject, epsilon, next(verdicts)))
    return Campaign(tuple(outcomes), confidence, error_rate, time.perf_counter() - started)


def _audit(subject: Subject | int, epsilon: Fraction, **settings: Any) -> Verdict:  # noqa: ANN401  of `audit`
    """Audit a subject, or one named by its place in the catalogue, since its functions cannot be pickled."""
    chosen = CATALOGUE[subject] if isinstance(subject, int) else subject
    return chosen.audit(epsilon, **settings)


def _spread(
    tasks: Sequence[tuple[Subject, Fraction]], audit: Callable[..., Verdict], processes: int
) -> Iterator[Verdict]:
    """Audit in several processes, for small numpy operations hold the interpreter's lock."""
    pool = ProcessPoolExecutor(min(processes, len(tasks)), get_context("spawn"), _ignore_sigint)
    try:
        places = [(CATALOGUE.index(subject), epsilon) for subject, epsilon in tasks]
        for future in [pool.submit(audit, *place, threads=1) for place in places]:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_sigint() -> None:
    """Ignore SIGINT, which the parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
