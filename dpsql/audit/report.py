"""Convert a campaign and its verdicts to plain data for `json.dumps`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
    facts = _fields(verdict)
    found = _fields(verdict.counterexample)
    found |= {name: _plain(found[name]) for name in ("first", "second")}
    found["arguments"] = {name: _plain(value) for name, value in found["arguments"].items()}
    found["event"] = verdict.counterexample.event.words()
    return {
        "mechanism": facts.pop("name"),
        **facts,
        "words": verdict.words(),
        "counterexample": {name: value for name, value in found.items() if name not in ("epsilon", "delta")},
        "curve": [_fields(tested) for tested in verdict.curve],
        "seconds": round(verdict.seconds, 3),
    }


def _fields(made: DataclassInstance) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in fields(made)}


def _plain(value: object) -> object:
    """Convert nested tuples to lists, and values that JSON does not support to text."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
