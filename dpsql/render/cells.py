"""Text in the cells of a terminal: its width, truncation and padding, and escapes of control characters."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Zero-width joiners: format characters that scripts need, and that do no harm."""
_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls (escape sequences start with one), text direction, lone surrogates, line separators."""


def escape_controls(text: str, encoding: str = "utf-8") -> str:
    r"""Replace control characters, line breaks and characters that cannot be encoded by escapes.

    >>> print(escape_controls("red\x1b[31m\nnext"))
    red\x1b[31m\nnext
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char, encoding) for char in text)


def _escape(char: str, encoding: str) -> str:
    if unicodedata.category(char) in _UNSAFE and char not in _JOINERS:
        # Escapes even the letters (U+E0041, say) that `unicode_escape` would let through unchanged.
        return char.encode("unicode_escape").decode("ascii")
    return char.encode(encoding, "backslashreplace").decode(encoding)


def width(text: str) -> int:
    """Return how many terminal cells a text takes: two for East Asian wide characters, none for marks.

    >>> width("Ménière"), width("e\u0301"), width("日本")
    (7, 1, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        # Also the vowels and finals of Hangul, which join the consonant before them.
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, cells: int, ellipsis: str = "…") -> str:
    """Truncate a text to at most `cells` cells; an ellipsis marks the truncation.

    >>> cut("Essential hypertension", 10)
    'Essential…'
    """
    if width(text) <= cells:
        return text
    mark = ellipsis if len(ellipsis) < cells else ellipsis[:cells]
    room = cells - len(mark)
    kept: list[str] = []
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + mark


def wrap(text: str, cells: int) -> list[str]:
    """Break a text into lines of at most `cells` cells, at blanks where possible.

    >>> wrap("one of two or three", 8)
    ['one of', 'two or', 'three']
    """
    lines = [""]
    for word in text.split(" "):
        rest = word
        joined = f"{lines[-1]} {rest}" if lines[-1] else rest
        if width(joined) <= cells:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        while width(rest) > cells:
            piece = cut(rest, cells, "") or rest[0]
            lines[-1] = piece
            rest = rest[len(piece) :]
            lines.append("")
        lines[-1] = rest
    return lines


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Pad a text with blanks to `cells` cells; `right` aligns it right."""
    blanks = " " * (cells - width(text))
    return blanks + text if right else text + blanks
