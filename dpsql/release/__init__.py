"""What a private statement releases: its stored form and its reuse.

============  ===================================================================================
``release``   the rows of a statement with their price and certainty; as JSON bytes for the ledger
``transfer``  an answer as Arrow streams for a client, with everything that is free beside its rows
``opening``   how a stored answer is opened where something fails after it was paid for
``reuse``     the key of a question: the same key means the same question on the same data; with ``renaming``
              an answer is found again under other names of its columns
============  ===================================================================================
"""

from dpsql.release.release import Release, cell, from_bytes, held_together, places_of, to_bytes
from dpsql.release.reuse import changes, charged_again, question, reuse_key, source_version, tables_read
from dpsql.release.transfer import ends_of, from_arrow, opening, renamed, to_arrow, told

__all__ = [
    "Release",
    "cell",
    "changes",
    "charged_again",
    "ends_of",
    "from_arrow",
    "from_bytes",
    "held_together",
    "opening",
    "places_of",
    "question",
    "renamed",
    "reuse_key",
    "source_version",
    "tables_read",
    "to_arrow",
    "to_bytes",
    "told",
]
