"""Fit columns of text to a width, and draw them as a box or as Markdown.

Text in the cells of a terminal has its width, truncation and padding, and escapes of control characters. The
statements of a list are shortened: what they have in common is left out, what tells them apart is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    return "".join(_escape_character(char, encoding) for char in text)


def _escape_character(char: str, encoding: str) -> str:
    if unicodedata.category(char) in _UNSAFE and char not in _JOINERS:
        # Escapes even the letters (U+E0041, say) that `unicode_escape` would let through unchanged.
        return char.encode("unicode_escape").decode("ascii")
    return char.encode(encoding, "backslashreplace").decode(encoding)


def width(text: str) -> int:
    """Return how many terminal cells a text takes: two for East Asian wide characters, none for marks.

    >>> width("Ménière"), width("e\u0301"), width("日本")
    (7, 1, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
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
        room -= _cells_of(char)
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


_WORDS = 120
"""Words of a statement that are weighed; of a longer one the middle is left out first."""
_PLAIN = frozenset(
    (
        *("SELECT", "WITH", "DIFFERENTIAL_PRIVACY", "OPTIONS", "(epsilon", "=", "FROM", "WHERE", "GROUP"),
        *("BY", "ORDER", "JOIN", "ON", "AS", "AND"),
    )
)
_PLAIN_WEIGHT = 0.1
"""Weight of words that tell nothing about a statement."""
_LATER = 1e-3
"""Weight that words gain towards the end, which tells more where all else is equal."""


def shorten(statements: Sequence[str], cells: int, ellipsis: str = "…") -> list[str]:
    """Shorten each statement to at most `cells` cells; line breaks become blanks.

    The first word and the last stay. Between them those stay that the fewest statements of the list have.

    >>> texts = [f"SELECT COUNT(*) AS n FROM visits WHERE clinic = '{c}' AND minutes < 60" for c in "AB"]
    >>> for text in shorten(texts, 40): print(text)
    SELECT COUNT(*) … 'A' AND minutes < 60
    SELECT COUNT(*) … 'B' AND minutes < 60
    """
    split = [text.split() for text in statements]
    seen = Counter(word for words in split for word in set(words))
    found = []
    for words in split:
        text = " ".join(words)
        if width(text) > cells:
            text = _find_shortest(_leave_out(words), seen, cells, ellipsis) or cut(text, cells, ellipsis)
        found.append(text)
    return found


def _leave_out(words: list[str]) -> list[str]:
    return words if len(words) <= _WORDS else [*words[: _WORDS // 2], *words[-_WORDS // 2 :]]


def _find_shortest(words: list[str], seen: Counter[str], cells: int, ellipsis: str) -> str | None:
    """Keep the first word, words in the middle and words at the end; None if not even two words fit."""
    sizes = [width(word) + 1 for word in words]
    weights = [
        size * ((_PLAIN_WEIGHT if word in _PLAIN else 1.0) / seen[word] + _LATER * i / len(words))
        for i, (word, size) in enumerate(zip(words, sizes, strict=True))
    ]
    size_to = [0, *accumulate(sizes)]
    weight_to = [0.0, *accumulate(weights)]
    mark, count = width(ellipsis) + 1, len(words)
    best: tuple[float, list[str]] | None = None
    for end in range(count - 1, 0, -1):
        # A blank stands behind each word but the last.
        space = cells + 1 - sizes[0] - mark - (size_to[count] - size_to[end])
        if space < 0:
            break
        kept = weight_to[count] - weight_to[end]
        if best is None or kept > best[0]:
            best = kept, [words[0], ellipsis, *words[end:]]
        for start, stop in _find_windows(size_to, end, space - mark):
            more = kept + weight_to[stop] - weight_to[start]
            if more > best[0]:
                before = [] if start == 1 else [ellipsis]
                best = more, [words[0], *before, *words[start:stop], ellipsis, *words[end:]]
    return None if best is None else " ".join(best[1])


def _find_windows(size_to: Sequence[int], end: int, space: int) -> Iterator[tuple[int, int]]:
    """Yield the longest runs of words before `end` that take at most a given number of cells."""
    stop = 1
    for start in range(1, end):
        stop = max(stop, start)
        while stop < end and size_to[stop + 1] - size_to[start] <= space:
            stop += 1
        if stop > start:
            yield start, stop


Row = TypeVar("Row")

PIPED_WIDTH = 120
"""Cells of a line of a table that is written to no terminal, unless another width is asked for."""
_NARROWEST = 6
"""Cells that a cut column keeps."""
_STATEMENT = 24
"""Cells that a cut column of statements keeps while others can be cut."""
_LINES = 3
"""Lines of a cell at most."""


@dataclass(frozen=True, slots=True)
class Style:
    """What a terminal or file can show."""

    columns: int | None = None
    """Cells in a line; None: as many as it takes."""
    encoding: str = "utf-8"
    """Frames, ±, bars are drawn with ASCII where it lacks them."""
    colour: bool = False
    """Whether escape sequences may be used."""

    @property
    def plain(self) -> bool:
        """Whether only ASCII may be drawn."""
        try:
            "┌─┬┐│├┼┤└┴┘±█▒…·≥≤—".encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return True
        return False

    @property
    def ellipsis(self) -> str:
        """The mark for truncated text."""
        return "..." if self.plain else "…"

    @property
    def pm(self) -> str:
        """The mark before a half-width."""
        return "+/-" if self.plain else "±"

    def paint(self, text: str, code: str) -> str:
        """Colour a text that is padded already, if colours may be used."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text


def style_of(stream: TextIO | None, columns: int | None = None) -> Style:
    """Return the style of a stream; None stands for a file: UTF-8, no colour.

    `columns` is the width that was asked for, 0 for as wide as needed.
    """
    given = os.environ.get("COLUMNS", "")
    if columns is None and given.isdigit() and int(given) > 0:
        columns = int(given)
    encoding = "utf-8" if stream is None else stream.encoding or "utf-8"
    if stream is None or not stream.isatty():
        return Style(PIPED_WIDTH if columns is None else columns or None, encoding)
    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if columns is None:
        columns = shutil.get_terminal_size().columns
    return Style(columns or None, encoding, colour)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column as text; its heading and cells have control characters escaped (`column` does it)."""

    name: str
    cells: list[str]
    right: bool = False
    """Whether it is aligned right, as numbers are."""
    firm: bool = False
    """Whether it may never be cut: a number cut short is another number."""
    nulls: frozenset[int] = field(default_factory=frozenset)
    """Indices of the cells that are NULL, not text that says so."""
    code: str = ""
    """Colour of its cells."""
    statements: bool = False
    """Whether its cells are statements, which keep what tells them apart when they are cut."""
    lines: tuple[tuple[str, str], ...] = ()
    """Each cell in two lines, which are narrower; none if its cells have one only."""
    folded: bool = False
    """Whether cells that are too long have more lines, up to three, before they are truncated."""

    @property
    def width(self) -> int:
        """Width in cells, not truncated."""
        return max(width(line) for text in (self.name, *self.cells) for line in text.split("\n"))

    def cut(self, cells: int, ellipsis: str) -> TextColumn:
        """Return the column with its heading and cells truncated."""
        shorter = ["\n".join(cut(line, cells, ellipsis) for line in cell.split("\n")) for cell in self.cells]
        if self.statements:
            shorter = shorten(self.cells, cells, ellipsis)
        elif self.folded:
            shorter = [_fold(cell, cells, ellipsis) for cell in self.cells]
        return replace(self, name=cut(self.name, cells, ellipsis), cells=shorter)


def _fold(text: str, cells: int, ellipsis: str) -> str:
    """Break a text into at most three lines; the last one is truncated."""
    lines = wrap(text, cells)
    rest = (
        [cut(" ".join(lines[_LINES - 1 :]), cells, ellipsis)] if len(lines) > _LINES else lines[_LINES - 1 :]
    )
    return "\n".join([*lines[: _LINES - 1], *rest])


def column(
    name: str,
    cells: Sequence[str | None],
    style: Style,
    *,
    number: bool = False,
    firm: bool = False,
    statements: bool = False,
) -> TextColumn:
    """Make a column of texts, which are escaped here; None is NULL. Numbers are aligned right, never cut."""
    if statements:
        cells = [None if cell is None else " ".join(cell.split()) for cell in cells]
    texts = ["NULL" if cell is None else escape_controls(cell, style.encoding) for cell in cells]
    nulls = frozenset(i for i, cell in enumerate(cells) if cell is None)
    heading = escape_controls(name, style.encoding)
    return TextColumn(heading, texts, number, number or firm, nulls, statements=statements)


def draw(columns: list[TextColumn], style: Style) -> str:
    """Draw columns as a box table that fits the style's width; ends with a newline."""
    return box(fit(columns, style)[0], style)


Drawn = tuple[str, Callable[[Row], str | None], Literal["", "number", "firm", "statements"]]
"""A column of rows: its heading, its text of a row, and which flag of `column` it has."""


def draw_rows(rows: Sequence[Row], columns: Sequence[Drawn[Row]], style: Style) -> str:
    """Draw rows as a box table that fits the style's width; ends with a newline."""
    return draw(
        [
            column(name, [text(row) for row in rows], style, **({kind: True} if kind else {}))
            for name, text, kind in columns
        ],
        style,
    )


def span(widths: list[int]) -> int:
    """Return the cells a box around columns of these widths takes."""
    return sum(widths) + 3 * len(widths) + 1


def fit(columns: list[TextColumn], style: Style) -> tuple[list[TextColumn], int]:
    """Truncate columns to the style's width; return them and the number of columns left out."""
    if style.columns is None:
        return columns, 0
    left_out, shown = 0, columns
    while len(shown) > 1 and span([_least_width(column) for column in shown]) > style.columns:
        left_out += 1
        hint = TextColumn(style.ellipsis, [style.ellipsis] * len(columns[0].cells), firm=True)
        shown = [*columns[: len(columns) - left_out], hint]
    widths = [column.width for column in shown]
    excess = span(widths) - style.columns
    while excess > 0:
        soft = [i for i, column in enumerate(shown) if widths[i] > _least_width(column, _STATEMENT)]
        soft = soft or [i for i, column in enumerate(shown) if widths[i] > _least_width(column)]
        if not soft:
            break
        # The widest gives one cell at a time, so that columns end up even.
        widest = max(soft, key=lambda i: widths[i])
        widths[widest] -= 1
        excess -= 1
    fitted = [column.cut(cells, style.ellipsis) for column, cells in zip(shown, widths, strict=True)]
    return fitted, left_out


def in_two_lines(columns: Sequence[TextColumn]) -> list[TextColumn]:
    """Return the columns with the second line of a cell below the first, where it has one."""
    return [
        replace(each, cells=["\n".join(filter(None, pair)) for pair in each.lines], lines=())
        if each.lines
        else each
        for each in columns
    ]


def _least_width(column: TextColumn, statement: int = _NARROWEST) -> int:
    """Return the cells that a column keeps, `statement` where it holds statements."""
    return column.width if column.firm else min(column.width, statement if column.statements else _NARROWEST)


def box(columns: list[TextColumn], style: Style) -> str:
    """Draw columns of equal length as a box table; ends with a newline."""
    top, middle, bottom, bar = ("+-++",) * 3 + ("|",) if style.plain else ("┌─┬┐", "├─┼┤", "└─┴┘", "│")
    widths = [column.width for column in columns]
    lines = [_draw_rule(top, widths)]
    heads = [pad(c.name, w, right=c.right) for c, w in zip(columns, widths, strict=True)]
    lines += [_draw_line([style.paint(head, "1") for head in heads], bar), _draw_rule(middle, widths)]
    for row in range(len(columns[0].cells)):
        codes = ["2" if row in column.nulls else column.code for column in columns]
        # A cell has several lines where it was folded, or has its range below.
        for parts in zip_longest(*(column.cells[row].split("\n") for column in columns)):
            cells = [
                style.paint(pad(part or "", w, right=column.right), code if part else "")
                for column, part, w, code in zip(columns, parts, widths, codes, strict=True)
            ]
            lines.append(_draw_line(cells, bar))
    lines.append(_draw_rule(bottom, widths))
    return "\n".join(lines) + "\n"


def _draw_rule(drawn: str, widths: list[int]) -> str:
    return drawn[0] + drawn[2].join(drawn[1] * (cells + 2) for cells in widths) + drawn[3]


def _draw_line(cells: list[str], bar: str) -> str:
    return f"{bar} " + f" {bar} ".join(cells) + f" {bar}"


def markdown(columns: list[TextColumn]) -> str:
    """Draw columns as a Markdown table (GitHub's); ends with a newline."""
    heads = [_escape_markdown(column.name) for column in columns]
    texts = [[_escape_markdown(cell) for cell in column.cells] for column in columns]
    widths = [max(map(width, [head, *cells, "---"])) for head, cells in zip(heads, texts, strict=True)]
    dashes = [
        "-" * (cells - 1) + ":" if c.right else "-" * cells for c, cells in zip(columns, widths, strict=True)
    ]
    rows = [heads, dashes, *(list(row) for row in zip(*texts, strict=True))]
    return "".join(
        _draw_line([pad(t, w, right=c.right) for t, w, c in zip(row, widths, columns, strict=True)], "|")
        + "\n"
        for row in rows
    )


def _escape_markdown(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore inside a word is only an underscore.
    return re.sub(r"[\\`*|~\[\]]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)
