"""Say how a stored answer is opened where something fails after it was paid for.

An answer is stored before anybody sees it. What fails behind that (SQL over the released rows, a conversion,
a file that cannot be written) spends nothing twice: whoever is told of the failure is told that, too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.errors import Error, InternalError, PolicyError, QueryRefused, QuerySyntaxError

if TYPE_CHECKING:
    from dpsql.release.release import Release

_HINT = "\nHint: "


def opening(*releases: Release) -> str:
    """Say how stored answers are opened, free; empty if none is stored.

    The statement that does it is answered at every door.
    """
    parts = [part for release in releases for part in release.parts or (release,)]
    numbers = list(dict.fromkeys(str(part.number) for part in parts if part.number is not None))
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"the answer is stored as release {numbers[0]}: SHOW RELEASE {numbers[0]} opens it, free"
    statements = ", ".join(f"SHOW RELEASE {number}" for number in numbers)
    return f"what it is computed from is stored as releases {', '.join(numbers)}: {statements} open it, free"


@contextmanager
def told(*releases: Release | None, passed: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let the errors of a block say how the answers are opened; none of another package leaves it.

    An `OSError` does, an `ImportError`, and those that are `passed`: whoever writes to a file or to a client
    reports them. Of other errors only the type is told.
    """
    known = [release for release in releases if release is not None]
    if not known:
        yield  # nothing was charged
        return
    try:
        yield
    except Error as problem:
        raise with_hint(problem, opening(*known)) from None
    except Exception as problem:
        if isinstance(problem, (OSError, ImportError, *passed)):
            raise
        text = f"internal error ({type(problem).__name__}): this is a bug of dpsql, please report it"
        raise with_hint(InternalError(text), opening(*known)) from None


def with_hint(problem: Error, hint: str) -> Error:
    """Return an error with one more hint; the error itself if it has it already, or if there is none."""
    if not hint or hint in str(problem):
        return problem
    made = copy.copy(problem)
    if isinstance(made, (PolicyError, QueryRefused, QuerySyntaxError)):
        first, *others = made.obstacles
        both = f"{first.hint}; {hint}" if first.hint else hint
        made.obstacles = (replace(first, hint=both), *others)
        return made
    text = str(problem)
    made.args = (text + (f"; {hint}" if _HINT in text else _HINT + hint), *problem.args[1:])
    return made
