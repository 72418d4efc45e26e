"""The catalogue: every mechanism of dpsql, private ones from the literature, and known mistakes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.audit import (
    subjects_choice,
    subjects_measure,
    subjects_threshold,
    subjects_unknown,
    wrong_choice,
    wrong_threshold,
    wrong_unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.audit.subject import Subject
    from dpsql.audit.verdict import Verdict
    from dpsql.noise import Entropy

__all__ = ["CATALOGUE", "EPSILONS", "Campaign", "Outcome", "campaign"]

CATALOGUE: tuple[Subject, ...] = (
    *subjects_choice.SUBJECTS,
    *subjects_threshold.SUBJECTS,
    *subjects_measure.SUBJECTS,
    *subjects_unknown.SUBJECTS,
    *wrong_choice.SUBJECTS,
    *wrong_threshold.SUBJECTS,
    *wrong_unknown.SUBJECTS,
)
"""All subjects."""

EPSILONS = (Fraction(1, 5), Fraction(7, 10), Fraction(3, 2))
"""What is claimed in the dissertation's experiments."""

_NEAR = 0.75
"""Part of the claim that the lower bound reaches where a mechanism is tight and the search good."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One audit of the catalogue: the subject, the epsilon it was given, and the verdict."""

    subject: Subject
    epsilon: Fraction
    verdict: Verdict

    @property
    def expected(self) -> bool:
        """Whether the verdict is what is known of the subject: accused if its claim is false, else not."""
        return self.verdict.violated == self.subject.wrong(float(self.epsilon))

    @property
    def near(self) -> bool:
        """Whether the lower bound comes within a quarter of the claim, or beyond it."""
        return self.verdict.lower_bound >= _NEAR * self.verdict.epsilon


@dataclass(frozen=True, slots=True)
class Campaign:
    """The audits of several subjects.

    Attributes
    ----------
    outcomes
        By subject, then by epsilon.
    confidence
        Of each verdict; all of them together hold with confidence 1 - `doubt`.
    doubt
        Chance that any correct subject is accused.
    seconds
        Time it took.
    """

    outcomes: tuple[Outcome, ...]
    confidence: float
    doubt: float
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
    doubt: float = 0.01,
    entropy: Entropy | None = None,
    told: Callable[[int, int, Subject, Fraction], None] | None = None,
) -> Campaign:
    """Audit subjects at each of several epsilon.

    Parameters
    ----------
    subjects, epsilons
        What to audit.
    trials
        Runs of each final test on each input.
    doubt
        Chance that any correct subject is accused, over the whole campaign: each verdict gets its part.
    entropy
        As for `detect`.
    told
        Called before each audit with its number, how many there are, the subject and epsilon.
    """
    started = time.perf_counter()
    tasks = [(subject, epsilon) for subject in subjects for epsilon in epsilons]
    confidence = 1 - doubt / max(len(tasks), 1)
    top = 1.6 * float(max(epsilons, default=Fraction(1)))
    grid = [round(top * i / 24, 3) for i in range(1, 25)]
    outcomes = []
    for number, (subject, epsilon) in enumerate(tasks, 1):
        if told is not None:
            told(number, len(tasks), subject, epsilon)
        verdict = subject.audit(epsilon, trials=trials, confidence=confidence, epsilons=grid, entropy=entropy)
        outcomes.append(Outcome(subject, epsilon, verdict))
    return Campaign(tuple(outcomes), confidence, doubt, time.perf_counter() - started)
