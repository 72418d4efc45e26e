"""Shortens the statements of a list: leaves out what they have in common, keeps what tells them apart."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from dpsql.render.cells import cut, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
            text = _shortest(_fewer(words), seen, cells, ellipsis) or cut(text, cells, ellipsis)
        found.append(text)
    return found


def _fewer(words: list[str]) -> list[str]:
    return words if len(words) <= _WORDS else [*words[: _WORDS // 2], *words[-_WORDS // 2 :]]


def _shortest(words: list[str], seen: Counter[str], cells: int, ellipsis: str) -> str | None:
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
        for start, stop in _windows(size_to, end, space - mark):
            more = kept + weight_to[stop] - weight_to[start]
            if more > best[0]:
                before = [] if start == 1 else [ellipsis]
                best = more, [words[0], *before, *words[start:stop], ellipsis, *words[end:]]
    return None if best is None else " ".join(best[1])


def _windows(size_to: Sequence[int], end: int, space: int) -> Iterator[tuple[int, int]]:
    """Yield the longest runs of words before `end` that take at most so many cells."""
    stop = 1
    for start in range(1, end):
        stop = max(stop, start)
        while stop < end and size_to[stop + 1] - size_to[start] <= space:
            stop += 1
        if stop > start:
            yield start, stop
