"""Limits on patterns and search texts, which bound the time that one private value can take.

The length of private values is limited (`[engine] longest_value`). A search can take time proportional to the
product of the lengths of value and search text, and no timeout interrupts an engine within it. With these
limits a search takes about 10 ms for a value of 64 KiB; a regular expression can take up to half a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.typed import Typed
from dpsql.kernel.tree import Apply
from dpsql.kernel.tree.forms import text_up_to
from dpsql.language import Source

_NEEDLE = 200
_PATTERN = 1_000
_WILDCARDS = 200
_RUN = 100
_TRIMMED = 32
_STATES = 200

_NEEDLES = {
    **dict.fromkeys(("contains", "instr", "strpos", "replace", "split_part"), _NEEDLE),
    **dict.fromkeys(("string_split", "str_split", "split", "string_to_array"), _NEEDLE),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _TRIMMED),
    **dict.fromkeys(("LIKE", "ILIKE", "NOT_LIKE", "GLOB"), _RUN),
}
"""The longest second argument of each function, in characters; for a pattern, if it is not a literal."""

_PATTERNS = {"LIKE": "%_", "ILIKE": "%_", "NOT_LIKE": "%_", "GLOB": "*?["}
_REGEX = re.compile(r"regexp_.*|string_split_regex|~")
_TOKENS = re.compile(r"\{[0-9]{1,9}(?:,[0-9]{0,9})?\}|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|.", re.DOTALL)
"""The parts of a regular expression: a repetition, an escape, a class of characters, any other character."""


def bounded(source: Source, name: str, arguments: Sequence[Typed], at: exp.Expr) -> list[Typed]:
    """Return the arguments of a function with the search text within its limit.

    A longer literal is refused; a longer computed text becomes NULL.
    """
    found = list(arguments)
    if len(found) < 2:
        return found
    needle = found[1]
    text = needle.text
    if _REGEX.fullmatch(name) and text is not None:
        check_regex(source, text, at)
    elif name in _PATTERNS and text is not None:
        check_pattern(source, text, at, _PATTERNS[name])
    elif name in _NEEDLES:
        most = _NEEDLES[name]
        if text is None:
            found[1] = within(needle, most)  # its bytes are no fewer than its characters
        elif len(text) > most:
            raise source.refuse(f"the second text of {name} has more than {most} characters", at)
    return found


def within(text: Typed, most: int) -> Typed:
    """Return a text with NULL in the place of one of more than `most` bytes."""
    return replace(text, node=Apply(text_up_to(most), (text.node,)))


def check_pattern(
    source: Source, pattern: str, at: exp.Expr, wildcards: str = "%_", escape: str = ""
) -> None:
    """Refuse a pattern with too many wildcards or with too long a part after one."""
    if len(pattern) > _PATTERN:
        raise source.refuse(f"a pattern has at most {_PATTERN:,} characters", at)
    plain = re.sub(re.escape(escape) + ".", "x", pattern, flags=re.DOTALL) if escape else pattern
    if sum(plain.count(mark) for mark in wildcards) > _WILDCARDS:
        raise source.refuse(f"a pattern has at most {_WILDCARDS} of the characters {' '.join(wildcards)}", at)
    # The part before the first wildcard is tried only at the start of the text.
    _, *floating = plain.split(wildcards[0])
    if any(len(part) > _RUN for part in floating):
        raise source.refuse(
            f"after a {wildcards[0]} a pattern has at most {_RUN} characters up to the next one",
            at,
            "several shorter patterns, joined by AND",
        )


def check_regex(source: Source, pattern: str, at: exp.Expr) -> None:
    """Refuse a regular expression with too many states: each may be tried at each position of a text."""
    if _states(pattern) > _STATES:
        raise source.refuse(
            f"a regular expression has at most {_STATES} characters, each repetition counted", at
        )


def _states(pattern: str) -> int:
    """Estimate the number of states of a regular expression; `*` and `+` count once.

    >>> _states("[0-9]{4}-(a|bc){2,3}")
    17
    """
    totals, last = [0], 0
    for part in _TOKENS.findall(pattern):
        if part == "(":
            totals.append(0)
            last = 0
        elif part == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif part[0] == "{" and len(part) > 1:
            most = max(1, *(int(n) for n in re.findall(r"[0-9]+", part)))
            totals[-1] += (most - 1) * last
            last *= most
        else:
            last = 10 if part[:2] in ("\\p", "\\P") or "[:" in part else 1
            totals[-1] += last
    return sum(totals)
