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
    "unit_parts": "parts of units by a date",
    "facts": "what the owner declares",
    "tree": "what is counted",
    "check": "why one unit moves a number by at most so much",
    "exact_bounds": "bounds of e^x in whole numbers",
    "loss": "what an answer, and each of its steps, costs",
    "noise": "exact noise",
    "public_order": "counts in a public order, and of large domains",
    "sealed": "handles of what nobody else reads",
    "changes": "how far one unit changes what a mechanism takes",
    "key_columns": "keys of groups in Arrow, with nothing behind a NULL",
    "counts": "exact counts, which nobody else sees",
    "kept": "copies of counts, which are overwritten",
    "faster": "texts with the same numbers that an engine runs faster",
    "rows_first": "counts of few groups, of which rows are counted first",
    "filled_domains": "counts of ranges, of which an engine has the groups with rows",
    "unweighted": "the same of sums and counts of rows, where few units have many",
    "unit_tables": "the same of searches of bounds and what they bound, by what units have",
    "levels": "numbers that a further release goes on from",
    "release": "the steps that run mechanisms on counts",
    "stable_questions": "answers that no unit could change, and how far they are from that",
    "parted": "steps in each of several partitions, and numbers that follow from a search of bounds",
    "mechanisms": "what is released of counts",
    "ledger": "what was spent",
    "charged_work": "charge, run, settle",
    "threshold_noise": "the noise of a threshold that outlives processes",
}
"""The parts of the kernel in the order to read them, and what they are about; some are there later."""

DECIDES = (
    *("unit_parts", "facts", "check", "exact_bounds", "loss", "public_order"),
    *("sealed", "changes", "counts", "kept", "levels", "release", "parted"),
    "stable_questions",
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
    return len(code_line_numbers(source))


@cache
def code_line_numbers(source: str) -> frozenset[int]:
    """Return the numbers of the lines of code of a module."""
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
    return frozenset(found)


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


def lines_of_one_answer(found: list[File], folder: Path = KERNEL) -> int:
    """Return the most lines that one answer rests on: all but the mechanisms, and those that it names.

    Of a mechanism these are the definitions that its class reads, and those that they read, in these files,
    with the imports of the files: it matters little how mechanisms are divided into them.
    """
    made = _Mechanisms(folder)
    needed, lines = set[_Place](), lines_of(found, {file.part for file in found} - {"mechanisms"})
    rest = [made.reached(place) for place in made.classes()]
    for _ in range(NAMED if rest else 0):
        needed |= max(rest, key=lambda places: made.lines({*places, *needed}))
    return lines + made.lines(needed)


_Place = tuple[str, str]
"""A file of mechanisms, and a name that is defined there."""


class _Mechanisms:
    """What the files of the mechanisms define, and what of that each definition reads."""

    def __init__(self, folder: Path) -> None:
        self._lines: dict[_Place, set[int]] = {}
        self._reads: dict[_Place, set[_Place]] = {}
        self._imports: dict[str, int] = {}
        names: dict[str, dict[str, _Place]] = {}
        trees: dict[str, ast.Module] = {}
        for path in sorted((folder / "mechanisms").glob("*.py")):
            source, name = path.read_text("utf-8"), path.stem
            if name == "__init__":
                continue
            trees[name] = tree = ast.parse(source)
            names[name] = {}
            numbers = code_line_numbers(source)
            for node in tree.body:
                own = set(range(_first_line(node), (node.end_lineno or 0) + 1)) & numbers
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self._imports[name] = self._imports.get(name, 0) + len(own)
                for defined in _defines(node):
                    names[name][defined] = name, defined
                    self._lines[name, defined] = own
        for name, tree in trees.items():
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_MECHANISMS):
                    file = (node.module or "").removeprefix(_MECHANISMS)
                    names[name] |= {each.asname or each.name: (file, each.name) for each in node.names}
        for name, tree in trees.items():
            for node in tree.body:
                read = {
                    names[name][n.id]
                    for n in ast.walk(node)
                    if isinstance(n, ast.Name) and n.id in names[name]
                }
                for defined in _defines(node):
                    self._reads[name, defined] = read

    def classes(self) -> list[_Place]:
        """Return the public classes: the mechanisms are among them."""
        return [place for place in self._lines if place[1][0].isupper() and not place[1].isupper()]

    def reached(self, start: _Place) -> set[_Place]:
        """Return what is read on the way from a definition."""
        found, waiting = set[_Place](), [start]
        while waiting:
            place = waiting.pop()
            if place in self._lines and place not in found:
                found.add(place)
                waiting += self._reads[place]
        return found

    def lines(self, places: set[_Place]) -> int:
        """Add up the lines of definitions, and of the imports of their files."""
        files = {file for file, _ in places}
        own = sum(len(set().union(*(self._lines[p] for p in places if p[0] == file))) for file in files)
        return own + sum(self._imports.get(file, 0) for file in files)


_MECHANISMS = "dpsql.kernel.mechanisms."


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _defines(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


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
