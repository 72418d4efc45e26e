"""What a private statement releases: its stored form and its reuse.

===========  ===================================================================================
``release``  the rows of a statement with their price and certainty; as JSON bytes for the ledger
``reuse``    the key of a question: the same key means the same question on the same data
===========  ===================================================================================
"""

from dpsql.release.release import Release, from_bytes, to_bytes
from dpsql.release.reuse import changes, charged_again, question, reuse_key, source_version, tables_read

__all__ = [
    "Release",
    "changes",
    "charged_again",
    "from_bytes",
    "question",
    "reuse_key",
    "source_version",
    "tables_read",
    "to_bytes",
]
