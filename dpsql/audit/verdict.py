"""The result of an audit: a verdict with its p-values, and the counterexample in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsql.audit.events import Event
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
    event: Event
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
        p1, p2 = (_percent(times / self.trials) for times in (self.times_first, self.times_second))
        how = "" if not self.arguments else f" ({_arguments(self.arguments)})"
        allowed = f"e^{self.epsilon:.4g} = {math.exp(self.epsilon):.4g} times as often"
        allowed += f", and {_percent(self.delta)} more" if self.delta else ""
        if self.times_second:
            often = f"{self.times_first / self.times_second:.4g} times as often"
        else:
            often = "and never there"
        return (
            f"D1 = {_input(self.first)}, D2 = {_input(self.second)}{how}: the event "
            f"'{self.event.words()}' has {p1} on D1 and {p2} on D2, {often}; allowed is {allowed}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of an audit."""

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


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in arguments.items())


def _input(value: object) -> str:
    if isinstance(value, (tuple, list, np.ndarray)):
        return "[" + ", ".join(str(item) for item in value) + "]"
    return str(value)
