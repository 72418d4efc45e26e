"""The lines of code of the kernel: `python -m tests.kernel_lines` lists its files in the order to read them.

A line of code is one that is neither blank, nor a comment, nor part of a docstring. A file comes after those
of its part of the kernel that it imports.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dpsql

KERNEL = Path(dpsql.__file__).parent / "kernel"

READING = {
    "facts": "what the owner declares",
    "tree": "what is counted",
    "check": "why one unit moves a number by at most so much",
    "exact_bounds": "bounds of e^x in whole numbers",
    "loss": "what an answer costs",
    "noise": "exact noise",
    "order": "counts in a public order, and of large domains",
    "sealed": "handles of what nobody else reads",
    "changes": "how far one unit changes what a mechanism takes",
    "counts": "exact counts, which nobody else sees",
    "sorting": "their public order",
    "kept": "copies of counts, which are overwritten",
    "step_costs": "what the steps of a release cost",
    "levels": "numbers that a further release goes on from",
    "release": "the steps that run mechanisms on counts",
    "parted": "steps in each of several partitions",
    "figures": "numbers that follow from a search of bounds",
    "mechanisms": "what is released of counts",
    "ledger": "what was spent",
    "charged_work": "charge, run, settle",
    "binder": "what DuckDB understands of a query",
}
"""The parts of the kernel in the order to read them, and what they are about; some are there later."""

DECIDES = (
    *("facts", "check", "exact_bounds", "loss"),
    *("sealed", "changes", "counts", "sorting", "kept", "step_costs", "levels", "release", "parted"),
    "figures",
)
"""The parts that decide what may be released, and what it costs."""

NAMED = 3
"""The most mechanisms that one answer names."""

_SKIPPED = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@dataclass(frozen=True)
class File:
    """A file of the kernel: its dotted name within it, its lines of code, and the files that it imports."""

    name: str
    lines: int
    imports: frozenset[str]

    @property
    def part(self) -> str:
        """The part of the kernel that it belongs to; "" for the kernel's own `__init__`."""
        first = self.name.partition(".")[0]
        return "" if first == "__init__" else first


def code_lines(source: str) -> int:
    """Count the lines of code of a module.

    >>> code_lines('"About."' + chr(10) * 2 + "x = 1  # one" + chr(10) + "# more" + chr(10))
    1
    """
    documented = [
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    found: set[int] = set()
    skipping = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # A docstring may be written in several strings, up to the end of its statement.
        skipping = token.start in documented or (skipping and token.type in (tokenize.STRING, tokenize.NL))
        if not skipping and token.type not in _SKIPPED:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found)


@cache
def files(folder: Path = KERNEL) -> list[File]:
    """Return the files of a kernel in the order to read them."""
    sources = {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}
    names = {".".join(path.relative_to(folder).with_suffix("").parts): path for path in sources}
    made = {
        name: File(name, code_lines(sources[path]), _imports(sources[path], names))
        for name, path in names.items()
    }
    order: list[File] = []
    for part in ["", *READING, *sorted({file.part for file in made.values()} - {"", *READING})]:
        for file in made.values():
            if file.part == part:
                _place(file, made, order)
    return order


def _place(file: File, made: dict[str, File], order: list[File]) -> None:
    """Put a file behind those of its part that it imports; a package's own `__init__` comes first."""
    if file in order:
        return
    if not file.name.endswith("__init__"):
        for name in sorted(file.imports):
            if made[name].part == file.part:
                _place(made[name], made, order)
    if file not in order:
        order.append(file)


def _imports(source: str, names: Iterable[str]) -> frozenset[str]:
    """Return which of these files of the kernel a module imports."""
    known = {name.removesuffix(".__init__"): name for name in names}
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpsql.kernel"):
            module = (node.module or "").removeprefix("dpsql.kernel").removeprefix(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".removeprefix(".")
                found.add(known.get(inner) or known.get(module) or "")
    return frozenset(found - {""})


def lines_of(found: Iterable[File], parts: Iterable[str] | None = None) -> int:
    """Add up the lines of code, of some parts of the kernel."""
    chosen = None if parts is None else set(parts)
    return sum(file.lines for file in found if chosen is None or file.part in chosen)


def lines_of_one_answer(found: list[File]) -> int:
    """Return the most lines that one answer rests on: all but the mechanisms, and those that it names."""
    made = {file.name: file for file in found}
    needed = {file.name for file in found if file.part != "mechanisms"}

    def below(name: str, seen: frozenset[str]) -> frozenset[str]:
        """Return a mechanism with the files of mechanisms that it imports."""
        for inner in made[name].imports:
            if made[inner].part == "mechanisms" and inner not in seen and not inner.endswith("__init__"):
                seen |= below(inner, seen | {inner})
        return seen | {name}

    rest = [file.name for file in found if file.part == "mechanisms" and not file.name.endswith("__init__")]
    for _ in range(NAMED if rest else 0):
        needed |= max((below(name, frozenset()) for name in rest), key=lambda all_: _sum(made, all_ - needed))
    return _sum(made, needed)


def _sum(made: dict[str, File], names: Iterable[str]) -> int:
    return sum(made[name].lines for name in names)


def main() -> None:
    """Print the files in the order to read them, with their lines of code, and the sums."""
    found = files()
    part = None
    for file in found:
        if file.part != part:
            part = file.part
            words = READING.get(part, "")
            print(f"{lines_of(found, [part]):6,}  {part or 'kernel'}{': ' if words else ''}{words}")
        print(f"        {file.lines:6,}  dpsql/kernel/{file.name.replace('.', '/')}.py")
    print(f"{lines_of(found):6,}  the whole kernel, {len(found)} files")
    print(f"{lines_of_one_answer(found):6,}  what one answer rests on, with {NAMED} mechanisms at most")
    there = ", ".join(part for part in DECIDES if lines_of(found, [part]))
    print(f"{lines_of(found, DECIDES):6,}  what decides: {there}")


if __name__ == "__main__":
    main()
