"""Parse and check the memory of exact counts that are kept (`[engine] keep`)."""

from __future__ import annotations

import re

from dpsql.policy.names import wrong

KEEP = 256_000_000
"""The default, in bytes."""

_KEY = "engine.keep"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def read_keep(value: object) -> int:
    """Parse a size of memory: a number of bytes, or a text such as "256 MB"; raise `PolicyError` otherwise.

    >>> read_keep("256 MB"), read_keep(0), read_keep("1 GiB")
    (256000000, 0, 1073741824)
    """
    found = re.fullmatch(r"([0-9]{1,15}) ?([KMG]i?B|B|)", value) if isinstance(value, str) else None
    if found is not None:
        return int(found[1]) * _UNITS[found[2]]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise wrong(_KEY, "expected a number of bytes", 'write keep = "256 MB", or keep = 0 to keep no counts')
