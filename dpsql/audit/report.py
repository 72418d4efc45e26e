"""Convert a campaign and its verdicts to plain data for `json.dumps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.audit.catalogue import Campaign, Outcome
    from dpsql.audit.verdict import Verdict

__all__ = ["as_data", "verdict_data"]


def as_data(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign as dictionaries and lists of plain values."""
    return {
        "confidence": campaign.confidence,
        "doubt": campaign.error_rate,
        "expected": campaign.expected,
        "seconds": round(campaign.seconds, 3),
        "audits": [_outcome(outcome) for outcome in campaign.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    subject = outcome.subject
    return {
        "kind": subject.kind,
        "about": subject.about,
        "given_epsilon": float(outcome.epsilon),
        "expected": outcome.expected,
        "near": outcome.near,
        **verdict_data(outcome.verdict),
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as dictionaries and lists of plain values."""
    found = verdict.counterexample
    return {
        "mechanism": verdict.name,
        "epsilon": verdict.epsilon,
        "delta": verdict.delta,
        "violated": verdict.violated,
        "p_value": verdict.p_value,
        "lower_bound": verdict.lower_bound,
        "confidence": verdict.confidence,
        "words": verdict.words(),
        "counterexample": {
            "pattern": found.pattern,
            "first": _plain(found.first),
            "second": _plain(found.second),
            "arguments": {name: _plain(value) for name, value in found.arguments.items()},
            "event": found.event.words(),
            "times_first": found.times_first,
            "times_second": found.times_second,
            "trials": found.trials,
        },
        "curve": [
            {"epsilon": tested.epsilon, "forward": tested.forward, "backward": tested.backward}
            for tested in verdict.curve
        ],
        "trials": verdict.trials,
        "runs": verdict.runs,
        "candidates": verdict.candidates,
        "seconds": round(verdict.seconds, 3),
    }


def _plain(value: object) -> object:
    """Convert nested tuples to lists, and values that JSON does not support to text."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
