"""Record golden files again: `python -m tests.golden.record`, after a change that is meant.

It prints what changed, by statement. `python -m tests.golden.record NAME ..` records nothing and prints all
that is hashed of these statements: run before and after a change, the difference of the two is what changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "property"))

from tests.golden.answers import answers  # noqa: E402  `fuzz` is found by the line above
from tests.golden.outputs import outputs  # noqa: E402
from tests.golden.texts import COLUMNS, REFUSED, Recorder  # noqa: E402
from tests.golden.worlds import (  # noqa: E402
    Golden,
    answered_statements,
    fixture_statements,
    random_statements,
)

FIXTURES, RANDOM = FOLDER / "fixtures.txt", FOLDER / "random.txt"
ANSWERS, OUTPUTS = FOLDER / "answers.txt", FOLDER / "outputs.txt"

ANSWER = ("rows", "charge")
"""What is recorded of each answer."""

ALL = 2_000
"""Random statements that are recorded."""

Lines = dict[str, list[str]]
"""What is recorded, by the name of a statement or of an output."""


def read(path: Path) -> Lines:
    """Return what a golden file has."""
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    return {name: rest for name, *rest in lines}


def recorded(statements: Iterable[Golden]) -> Lines:
    """Return what there is to record of statements."""
    recorder = Recorder()
    return {golden.name: recorder.hashes(golden) for golden in statements}


def changes(before: Lines, after: Lines) -> Iterator[str]:
    """Say what changed, a line for each statement or output."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield f"{name}: {'new' if old is None else 'gone'}"
        elif old != new:
            yield f"{name}: {', '.join(_changed(old, new))}"


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    columns = {len(each): each for each in (COLUMNS, ANSWER, ("output",))}[len(new)]
    for column, one, other in zip(columns, old, new, strict=True):
        if one != other:
            yield column + (
                " is refused now" if other == REFUSED else " was refused" if one == REFUSED else ""
            )


def write(path: Path, lines: Lines, head: str) -> list[str]:
    """Write a golden file; return what changed."""
    found = list(changes(read(path), lines))
    body = "".join(f"{' '.join([name, *rest])}\n" for name, rest in lines.items())
    path.write_text(f"# {head}\n{body}", "utf-8")
    return found


def main(names: list[str]) -> None:
    """Record all, or show what is hashed of these statements."""
    recorder, found, columns = Recorder(), list[str](), "name " + " ".join(COLUMNS)
    if names:
        with fixture_statements() as fixed, random_statements(range(ALL)) as made:
            for golden in (*fixed, *made):
                if golden.name in names:
                    for column, text in recorder.texts(golden).items():
                        print(f"== {golden.name} {column}\n{text}")
        return
    with fixture_statements() as statements:
        found += write(FIXTURES, recorded(statements), columns)
    with random_statements(range(ALL)) as statements:
        found += write(RANDOM, recorded(statements), columns)
    with answered_statements() as statements:
        found += write(ANSWERS, answers(statements), "name " + " ".join(ANSWER))
    found += write(OUTPUTS, outputs(), "name output")
    print("\n".join(found) or "nothing changed")


if __name__ == "__main__":
    main(sys.argv[1:])
