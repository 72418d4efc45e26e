"""dpsql without any bound by hand: each statement finds what it needs, with a part of its epsilon."""

from __future__ import annotations

from typing import Any

import with_dpsql


def prepared(file: str, given: dict[str, Any]) -> Any:
    """Return the version, and what answers each question."""
    return with_dpsql.prepared(file, given, by_hand=False)
