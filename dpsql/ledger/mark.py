"""The mark of a ledger: its newest event and its totals, kept in a file that does not lie with the ledger.

A ledger that was replaced by an older copy of itself is sound in itself. Only something outside of it tells
that charges are missing. The text of a mark is one line of JSON, and one more line for each newer event, with
the totals that it changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from dpsql.lazy_dataclass import dataclass
from dpsql.ledger.events import Event, Total, canonical


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark says."""

    ledger: str
    """The random identifier of the ledger."""
    path: str
    """Where the ledger was."""
    holder: str
    """The random identifier of this mark: other users of the ledger may have marks of their own."""
    event: Event
    """The ledger's newest event."""
    begun: tuple[Event, ...]
    """The latest events after which another mark than before was kept, the newest last."""
    totals: Mapping[str, Total]
    """The totals of its scopes."""

    @property
    def text(self) -> str:
        """The first line of the file."""
        return canonical({"mark of a dpsql ledger": 1, **asdict(self)}) + "\n"

    def line(self, before: Mark) -> str | None:
        """Return the line that makes this mark of another one; None if more than events and totals differ."""
        kept = replace(before, event=self.event, totals=self.totals)
        if kept != self or not before.totals.keys() <= self.totals.keys():
            return None
        changed = {name: total for name, total in self.totals.items() if before.totals.get(name) != total}
        event = {"n": self.event.n, "hash": self.event.hash}
        return canonical({"event": event, "totals": changed}) + "\n"

    @classmethod
    def read(cls, text: str) -> Mark:
        """Read complete lines of the file; `ValueError` if they are none of a mark."""
        first, *later = text.splitlines() or [""]
        mark = cls._first(first)
        event, totals = mark.event, dict(mark.totals)
        try:
            for line in later:
                found = json.loads(line)
                event = Event(**found["event"])
                totals.update({str(name): _total(total) for name, total in found["totals"].items()})
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError("no mark") from problem
        return replace(mark, event=event, totals=totals)

    @classmethod
    def _first(cls, text: str) -> Mark:
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("mark of a dpsql ledger") != 1:
                raise ValueError("another version")
            totals = {str(name): _total(total) for name, total in found.pop("totals").items()}
            event, begun = Event(**found.pop("event")), tuple(Event(**each) for each in found.pop("begun"))
            return cls(**found, event=event, begun=begun, totals=totals)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError("no mark") from problem


def _total(values: list[str | None]) -> Total:
    epsilon, delta, cost, alpha = values
    if delta is None:
        raise ValueError("a total without a delta")
    return epsilon, delta, cost, alpha
