"""The lines of a policy's file in which its keys stand."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

_HEADER = re.compile(r"\s*\[{1,2}([^\[\]].*?)\]{1,2}\s*(?:#.*)?$")
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")


def line_of(text: str, key: str) -> int | None:
    r"""Return the line of a key path, or of the nearest table around it; None if not even that is there.

    A field of a struct, `domain."address.city"`, may be written as a path as well.

    >>> policy = '[budget]\nepsilon = 1\n[tables.v]\nunit = "u"\n[tables.v.domain]\na.b = [1]\n'
    >>> [line_of(policy, k) for k in ("budget.epsilon", 'tables.v.domain."a.b"', "tables.v.unique[0]", "x")]
    [2, 6, 3, None]
    """
    wanted = _path(re.sub(r"\[\d+\]$", "", key))
    best: tuple[int, int] | None = None
    for number, path in _keys(text):
        if ".".join((*wanted, "")).startswith(".".join((*path, ""))) and (
            best is None or len(path) > best[0]
        ):
            best = len(path), number
    return best[1] if best is not None else None


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the lines that name a table or a key, each with its path."""
    above: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            above = _path(header[1])
            yield number, above
        elif key := _KEY.match(line):
            yield number, above + _path(key[1])


def _path(key: str) -> tuple[str, ...]:
    """Return the names of a key path in TOML syntax; none if it is no such path."""
    try:
        found: object = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ("",)
    names = []
    while isinstance(found, dict):
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names)
