"""What a private statement releases: its stored form, its reuse, and the plain SELECT around it.

===========  ===================================================================================
``release``  the rows of a statement with their price and certainty; as JSON bytes for the ledger
``reuse``    the key of a question: the same key means the same question on the same data
``present``  the columns of a release in the order and under the names of the statement
===========  ===================================================================================
"""

from dpsql.release.present import check_wrapper, present
from dpsql.release.release import Release, from_bytes, to_bytes
from dpsql.release.reuse import changes, charged_again, question, reuse_key, source_version, tables_read

__all__ = [
    "Release",
    "changes",
    "charged_again",
    "check_wrapper",
    "from_bytes",
    "present",
    "question",
    "reuse_key",
    "source_version",
    "tables_read",
    "to_bytes",
]
