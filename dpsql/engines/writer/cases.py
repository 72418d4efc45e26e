"""DuckDB's mapping of letters to lower and upper case, which other engines apply whatever their locale."""

from __future__ import annotations

from functools import cache

import duckdb


@cache
def case_table(function: str) -> tuple[str, str]:
    """Return the characters beyond ASCII that DuckDB's `lower` or `upper` changes, and their results.

    >>> frm, to = case_table("upper")
    >>> to[frm.index("ä")]
    'Ä'
    """
    if function not in ("lower", "upper"):
        raise ValueError(function)
    # Surrogates are no characters; chr raises on them.
    points = "SELECT TRY(chr(i::INTEGER)) AS c FROM range(128, 1114112) AS r(i)"
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            f"SELECT c, {function}(c) AS d FROM ({points}) AS p WHERE {function}(c) <> c ORDER BY c"
        ).fetchall()
    changed = [(c, d) for c, d in rows if len(d) == 1]
    if len(changed) != len(rows):
        raise ValueError("a character has a case mapping of several characters")
    return "".join(c for c, _ in changed), "".join(d for _, d in changed)
