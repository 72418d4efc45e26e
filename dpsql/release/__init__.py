"""What a private statement releases: its stored form and its reuse.

================  ===================================================================================
``release``       the rows of a statement with their price and certainty; as JSON bytes for the ledger
``transfer``      an answer as Arrow streams for a client, with everything that is free beside its rows;
                  how a stored answer is opened where something fails after it was paid for
``reuse``         versions of the data, and the key of a question: the same key means the same question on
                  the same data, so that an answer is found again, under other names of its columns, too
``kept_ladders``  kept bounds of the policy's tables, as statements use them
================  ===================================================================================
"""

from dpsql.release.release import Release, from_bytes, hold_at_once, places_of, to_bytes, write_cell
from dpsql.release.reuse import changes, question, reuse_key, source_version, tables_read, why_charged_again
from dpsql.release.transfer import ends_of, from_arrow, opening, rename_columns, telling_opening, to_arrow

__all__ = [
    "Release",
    "changes",
    "ends_of",
    "from_arrow",
    "from_bytes",
    "hold_at_once",
    "opening",
    "places_of",
    "question",
    "rename_columns",
    "reuse_key",
    "source_version",
    "tables_read",
    "telling_opening",
    "to_arrow",
    "to_bytes",
    "why_charged_again",
    "write_cell",
]
