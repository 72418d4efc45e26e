"""The kernel is as short as is promised, and imports nothing that would have to be read, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpsql import lazy_dataclass
from tests import kernel_lines
from tests.kernel_lines import DECIDES, KERNEL, READING, code_lines, files, lines_of, lines_of_one_answer
from tests.unit.test_imports import imported

MOST, MOST_OF_ONE_ANSWER, MOST_THAT_DECIDE = 17_965, 16_165, 6_620
"""Lines of code; they shall be 8,200, 6,000 and 2,800, the 1,900 of the ledger, 900 for parts, 500 for
streams that last, 180 for reports, 400 for periods, 300 for renewals, and 50 for caps of two policies. The
first two have those of `lazy_dataclass`."""

PACKAGES = {"numpy", "pyarrow", "duckdb"}
OWN = ("dpsql.errors", "dpsql.types", "dpsql.lazy_dataclass", "dpsql.kernel")


def forbidden(source: str, path: Path) -> list[str]:
    """Return what a module imports that the kernel may not."""
    return [name for _, name in imported(source, path) if not _allowed(name)]


def _allowed(name: str) -> bool:
    first = name.partition(".")[0]
    if first == "dpsql":
        return name in OWN or name.startswith(tuple(f"{own}." for own in OWN))
    return first in PACKAGES or first in sys.stdlib_module_names


def test_the_kernel_imports_nothing_that_would_have_to_be_read() -> None:
    paths = sorted(KERNEL.rglob("*.py"))
    assert len(paths) > 20
    found = {path.name: forbidden(path.read_text("utf-8"), path) for path in paths}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from dpsql.policy import Policy",
        "from dpsql import analysis",
        "import dpsql",
        "import sqlglot",
        "from ..analysis import seal",
        "def f():\n    import scipy",
        "from dpsql.errors_of_others import as_json",
        "import importlib\nimportlib.import_module(name)",
    ],
)
def test_what_the_kernel_may_not_import_is_found(source: str) -> None:
    assert forbidden(source, KERNEL / "made.py") != []


def test_the_kernel_has_no_more_lines_than_are_promised() -> None:
    found = files()
    late = code_lines(Path(lazy_dataclass.__file__).read_text("utf-8"))
    assert lines_of(found) + late <= MOST
    assert lines_of_one_answer(found) + late <= MOST_OF_ONE_ANSWER
    assert lines_of(found, DECIDES) <= MOST_THAT_DECIDE
    assert lines_of(found, DECIDES) > 0


def test_every_part_of_the_kernel_has_its_place_in_the_order() -> None:
    assert {file.part for file in files()} <= {"", *READING}
    assert {*DECIDES} <= {*READING}


def test_files_are_listed_behind_those_of_their_part_that_they_import() -> None:
    found = files()
    place = {file.name: i for i, file in enumerate(found)}
    assert {*place} == {".".join(p.relative_to(KERNEL).with_suffix("").parts) for p in KERNEL.rglob("*.py")}
    before = {file.name: name for file in found for name in file.imports if name.startswith(f"{file.part}.")}
    assert before
    for name, needed in before.items():
        assert name.endswith("__init__") or place[needed] < place[name]


MODULE = '''"""About it.

More.
"""

import os  # noqa

X = 1
"""What X is,
in two lines."""


class Y:
    """A class."""

    text = """a
b"""

    def f(self) -> str:
        """Return it."""

        # why
        return (
            "a"

            "b"
        )
'''


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings() -> None:
    assert code_lines(MODULE) == len(["import", "X", "class", "text", "b", "def", "return", "a", "b", ")"])
    assert code_lines("") == 0
    assert code_lines('"only about"\n') == 0
    assert code_lines("x = 1; y = '''\n\n'''\n") == 3


def write(folder: Path, **lines: int) -> None:
    """Write a kernel: files that define a class with so many lines of code."""
    for name, number in lines.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"class {path.stem.upper()}x:\n" + "    x = 1\n" * (number - 1))


def test_an_answer_rests_on_all_but_the_mechanisms_that_it_does_not_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        tree=10,
        mechanisms__base=5,
        mechanisms__a=7,
        mechanisms__b=9,
        mechanisms__c=8,
        mechanisms__d=2,
    )
    path = tmp_path / "mechanisms" / "a.py"
    text = path.read_text("utf-8").replace("Ax:", "Ax(BASEx):")
    unread = "class Other:\n    x = 2\n"
    path.write_text(f"from dpsql.kernel.mechanisms.base import BASEx\n{text}{unread}")
    found = files(tmp_path)
    assert lines_of(found) == 10 + 5 + 8 + 9 + 8 + 2 + 2
    assert lines_of_one_answer(found, tmp_path) == 10 + (5 + 8) + 9 + 8
    assert found[0].name == "tree"


def test_the_command_lists_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    kernel_lines.main()
    shown = capsys.readouterr().out
    for path in KERNEL.rglob("*.py"):
        assert f"dpsql/kernel/{path.relative_to(KERNEL)}" in shown
    assert f"{lines_of(files()):,}  the whole kernel" in shown
