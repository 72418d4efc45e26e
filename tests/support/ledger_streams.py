"""Streams of a ledger, for tests that have no session: one is opened, and its checks are answered."""

from __future__ import annotations

from fractions import Fraction

from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger.lasting_streams import CheckRequest, StoredStream, StreamTerms
from dpsql.ledger import Ledger

ASKED = CheckRequest("CHECK daily ..", "k", "", 1)
"""A check that could use one miss."""


def open_stream(
    ledger: Ledger,
    first: Fraction = Fraction(1, 20),
    each: Fraction = Fraction(1, 40),
    *,
    facts: Facts | None = None,
    analyst: str = "ann",
) -> StoredStream:
    """Open a stream of two misses, which together cost a tenth."""
    terms = StreamTerms("daily", 2, first, each, "OPEN CHECKS daily ..", {})
    return ledger.streams.open(analyst, terms, lambda *_: "seal", facts)


def answer_check(ledger: Ledger, stream: StoredStream, used: int = 1) -> None:
    """Ask a check of a stream, and store that it has used so many misses."""
    begun = ledger.streams.begin(stream.entry, ASKED, None)
    ledger.streams.finish(begun, used, b"rows")
