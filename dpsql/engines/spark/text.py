"""Text literals in Spark's SQL."""

from __future__ import annotations

import re

__all__ = ["string_literal"]


def string_literal(value: str) -> str:
    r"""Write a text literal; all but plain characters are UTF-16 escapes, so that none is syntax.

    >>> string_literal("it's 5%"), string_literal("\U0001f600")
    ("'it\\u0027s 5\\u0025'", "'\\uD83D\\uDE00'")
    """
    return "'" + re.sub(r"[^A-Za-z0-9 .,:_-]", lambda m: _units(m[0]), value) + "'"


def _units(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[i]:02X}{data[i + 1]:02X}" for i in range(0, len(data), 2))
