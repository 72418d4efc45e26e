"""What a written text costs an engine: its size once columns are substituted, and the time of one row.

An engine puts the expression of a subquery's column in the place of each name of the column. A text that is
short as it is written can thus become as long as the product of the numbers of names at each level. Both
costs are computed from what is written, before anything is sent: the name of a column counts as much as the
expression that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """The words of a text, its size, and the microseconds that its calls take for the longest text.

    In the size a word counts once more for each subquery around it, and four times for each parameter of a
    function: engines copy what is within, or look through it, at each of them.
    """

    words: int
    size: int
    micros: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.words + other.words, self.size + other.size, self.micros + other.micros)

    def most(self, other: Cost) -> Cost:
        """Return the higher one of each cost."""
        words, size = max(self.words, other.words), max(self.size, other.size)
        return Cost(words, size, max(self.micros, other.micros))


NOTHING = Cost(0, 0)
NAME = Cost(1, 1)
"""The cost of a name that the engine computes once."""

_MAX_SECONDS = 4.0
"""The most seconds that one row of the longest texts may take: an engine hears no cancel in a row."""
READING = 300.0
"""The microseconds that reading the longest text takes at each place where its column is named."""
_SHARE = 0.1
"""The part of the time limit that one row may take."""
_REFERENCE = 65_536
"""The length in bytes of the texts by which the times of calls were measured."""
_TEXT = 256
"""The characters of a literal that count as one word."""

_WORDS = re.compile(
    r"""
    (?P<text>'(?:[^'\\]++|''|\\.)*+')
    |(?P<name>"(?:[^"]|"")*"\."(?:[^"]|"")*"|`(?:[^`]|``)*`\.`(?:[^`]|``)*`)
    |"(?:[^"]|"")*"|`(?:[^`]|``)*`
    |(?P<call>\w+)
    |(?P<bracket>[()])
    |[^\s\w'"`(),]+
    """,
    re.VERBOSE | re.DOTALL,
)


def measure(sql: str, names: Mapping[str, Cost], times: Mapping[str, float]) -> Cost:
    """Return the cost of a text; `names` has the costs of qualified columns, `times` those of words.

    >>> measure("lower(`a`.`b`) = 'x'", {"`a`.`b`": Cost(10, 10)}, {"lower": 5.0})
    Cost(words=13, size=13, micros=5.0)
    >>> measure("(SELECT f((SELECT x)))", {}, {})
    Cost(words=4, size=10, micros=0.0)
    """
    words, size, micros, depth = 0, 0, 0.0, 0
    around: list[int] = []
    """For each open bracket, how often a word within it counts more."""
    last = ""
    for found in _WORDS.finditer(sql):
        text, cost = found[0].lower(), NAME
        match found.lastgroup:
            case "bracket":
                if text == "(":
                    around.append(4 if last == "transform" else 0)
                    depth += around[-1]
                elif around:
                    depth -= around.pop()
                cost = NOTHING
            case "name":
                cost = names.get(found[0], NAME)
            case "call":
                if text == "select" and last == "(":
                    around[-1], depth = 1, depth + 1 - around[-1]
                cost = Cost(1, 1, times.get(text, 0.0))
            case "text":
                cost = Cost(1 + len(text) // _TEXT, 1 + len(text) // _TEXT)
        words += cost.words
        size += cost.size + depth * cost.words
        micros += cost.micros
        last = text
    return Cost(words, size, micros)


def too_slow(cost: Cost, longest: int, timeout: int) -> bool:
    """Whether one row with texts of `longest` bytes could take more than its part of the time limit."""
    return cost.micros / 1e6 * longest / _REFERENCE > min(_MAX_SECONDS, _SHARE * timeout)
