"""Parse and check the length limit of private values (`[engine] longest_value`)."""

from __future__ import annotations

import re

from dpsql.policy.names import wrong

LONGEST = 64 << 10
"""The default limit, in bytes of UTF-8."""
LARGEST = 256 << 10
"""The largest limit that a policy may set, in bytes.

PostgreSQL holds no row above one gigabyte and no row of more than 1,664 columns. Changing the case of a text
makes it at most half as long again, so that every row of values within this limit fits.
"""

_KEY = "engine.longest_value"
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def read_length(value: object) -> int:
    """Parse a length: a number of bytes, or a text such as "64 KiB"; raise `PolicyError` for other values.

    >>> read_length("64 KiB"), read_length(4096)
    (65536, 4096)
    """
    found = re.fullmatch(r"([0-9]{1,9}) ?(B|KiB|MiB|)", value) if isinstance(value, str) else None
    if found is not None:
        size = int(found[1]) * _UNITS[found[2]]
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise wrong(_KEY, "expected a number of bytes", 'write longest_value = "64 KiB"')
    if not 1 <= size <= LARGEST:
        raise wrong(
            _KEY, f"must lie between 1 byte and {shown_length(LARGEST)}", 'write longest_value = "64 KiB"'
        )
    return size


def shown_length(size: int) -> str:
    """Format a length with its unit.

    >>> shown_length(65536), shown_length(1000)
    ('64 KiB', '1,000 bytes')
    """
    return f"{size >> 10:,} KiB" if size % 1024 == 0 else f"{size:,} bytes"
