"""The engine's own words about an error, for the owner alone: they may quote values of rows."""

from __future__ import annotations

import duckdb

_MOST_LINES = 4
_LONGEST = 600
_ADVICE = ("Possible fixes", "Possible solutions", "LINE ")
"""What follows is about options of the engine that dpsql sets, or its statement."""


def engine_words(problem: duckdb.Error) -> str:
    r"""Return what happened in the engine's words, without its advice about options.

    >>> engine_words(duckdb.Error("CSV Error on Line: 59\nOriginal Line: 57,p1,x\nPossible fixes:\n* .."))
    'CSV Error on Line: 59\nOriginal Line: 57,p1,x'
    """
    lines: list[str] = []
    for line in str(problem).strip().split("\n"):
        if line.startswith(_ADVICE) or len(lines) == _MOST_LINES:
            break
        if line.strip():
            lines.append(line.rstrip())
    return "\n".join(lines)[:_LONGEST]
