"""Imports between packages and between files, lengths of modules, start-up time."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql

PACKAGE = Path(dpsql.__file__).parent
ROOT = "dpsql"
LONGEST = 451

BASE = {"errors", "places", "kernel.loss", "kernel.unit_parts", "types"}
ANYWHERE = {"lazy_dataclass", "lazy_pattern", "lazy_property", "old_objects", "package_version"}
"""Modules that all packages may import."""

CORE = BASE | {
    "kernel.exact_bounds",
    "kernel.unit_parts",
    "kernel.noise",
    "kernel.public_order",
    "kernel.sealed",
    "kernel.changes",
    "kernel.mechanisms",
    "kernel.tree",
    "kernel.levels",
    "kernel.facts",
    "kernel.ledger",
    "kernel.check",
    "kernel.key_columns",
    "kernel.counts",
    "kernel.kept",
    "kernel.faster",
    "kernel.rows_first",
    "kernel.filled_domains",
    "kernel.unweighted",
    "kernel.unit_tables",
    "kernel.release",
    "kernel.parted",
    "kernel.stable_questions",
    "kernel.charged_work",
    "kernel.threshold_noise",
    "fair_cache",
    "language",
    "policy",
    "estimates",
    "analysis",
    "engines",
    "ledger",
    "planning",
    "release",
    "database",
    "composition",
    "check_streams",
    "checked",
    "uploads",
}

MAY_IMPORT: dict[str, set[str]] = {
    # The base, which every package may use.
    "lazy_dataclass": set(),
    "lazy_pattern": set(),
    "lazy_property": set(),
    "old_objects": set(),
    "package_version": set(),
    "errors": set(),
    "kernel": set(),
    "kernel.exact_bounds": set(),
    "kernel.unit_parts": {"errors"},
    "kernel.loss": {"errors", "kernel.exact_bounds", "kernel.unit_parts"},
    "kernel.noise": {"kernel.exact_bounds"},
    "kernel.public_order": set(),
    "kernel.sealed": {"errors"},
    "kernel.changes": {"errors", "kernel.unit_parts"},
    "kernel.mechanisms": {"kernel.changes", "kernel.loss", "kernel.noise", "kernel.public_order"},
    # Mechanisms and noise by themselves, for research and audits: no statement comes here.
    "mechanisms": {
        "kernel.changes",
        "kernel.loss",
        "kernel.mechanisms",
        "kernel.noise",
        "kernel.public_order",
    },
    "noise": {"kernel.noise"},
    "login": set(),
    "places": set(),
    "types": set(),
    "kernel.tree": {"errors", "types"},
    "kernel.levels": {"errors", "kernel.mechanisms", "kernel.sealed", "kernel.tree"},
    "kernel.facts": {"errors", "kernel.unit_parts", "types"},
    "kernel.ledger": {
        "errors",
        "kernel.exact_bounds",
        "kernel.facts",
        "kernel.levels",
        "kernel.loss",
        "kernel.unit_parts",
    },
    "kernel.check": {"errors", "kernel.facts", "kernel.tree", "kernel.unit_parts", "types"},
    "kernel.key_columns": set(),
    "kernel.counts": {
        "kernel.key_columns",
        "errors",
        "kernel.changes",
        "kernel.check",
        "kernel.public_order",
        "kernel.sealed",
        "kernel.tree",
    },
    "kernel.kept": {"kernel.changes", "kernel.counts", "kernel.sealed"},
    "kernel.faster": {"kernel.sealed", "kernel.tree", "types"},
    "kernel.rows_first": {
        "errors",
        "kernel.check",
        "kernel.counts",
        "kernel.faster",
        "kernel.kept",
        "kernel.public_order",
        "kernel.sealed",
        "kernel.tree",
        "types",
    },
    "kernel.filled_domains": {"kernel.check", "kernel.counts", "kernel.sealed", "kernel.tree", "types"},
    "kernel.unweighted": {"kernel.facts", "kernel.faster", "kernel.sealed", "kernel.tree"},
    "kernel.unit_tables": {"kernel.sealed", "kernel.tree", "kernel.unweighted", "types"},
    "kernel.release": {
        "errors",
        "kernel.changes",
        "kernel.counts",
        "kernel.levels",
        "kernel.loss",
        "kernel.mechanisms",
        "kernel.public_order",
        "kernel.rows_first",
        "kernel.sealed",
    },
    "kernel.stable_questions": {
        "errors",
        "kernel.changes",
        "kernel.counts",
        "kernel.loss",
        "kernel.mechanisms",
        "kernel.noise",
        "kernel.release",
        "kernel.sealed",
    },
    "kernel.parted": {
        "errors",
        "kernel.changes",
        "kernel.counts",
        "kernel.loss",
        "kernel.mechanisms",
        "kernel.noise",
        "kernel.public_order",
        "kernel.release",
        "kernel.sealed",
        "kernel.tree",
        "kernel.unit_parts",
    },
    "kernel.charged_work": {
        "errors",
        "kernel.check",
        "kernel.ledger",
        "kernel.levels",
        "kernel.loss",
        "kernel.unit_parts",
    },
    "kernel.threshold_noise": {"kernel.ledger", "kernel.mechanisms", "kernel.noise"},
    "render": {"errors", "kernel.loss", "places"},
    "fair_cache": set(),
    # The core, in the order in which a statement passes through it.
    "language": BASE,
    "policy": BASE | {"kernel.facts", "language"},
    "estimates": {"kernel.mechanisms"},
    "analysis": BASE
    | {"estimates", "kernel.check", "kernel.facts", "kernel.mechanisms", "kernel.tree", "language", "policy"},
    "engines": BASE
    | {
        "analysis",
        "kernel.charged_work",
        "kernel.check",
        "kernel.key_columns",
        "kernel.counts",
        "kernel.facts",
        "kernel.faster",
        "kernel.filled_domains",
        "kernel.kept",
        "kernel.ledger",
        "kernel.rows_first",
        "kernel.tree",
        "kernel.unit_tables",
        "kernel.unweighted",
        "language",
        "policy",
    },
    "ledger": BASE | {"kernel.ledger", "kernel.levels", "policy"},
    "planning": BASE
    | {
        "analysis",
        "estimates",
        "kernel.counts",
        "kernel.mechanisms",
        "kernel.parted",
        "kernel.public_order",
        "kernel.release",
        "kernel.stable_questions",
        "language",
        "render",
    },
    "release": BASE | {"analysis", "estimates", "ledger", "policy", "render"},
    "database": {
        "analysis",
        "engines",
        "errors",
        "fair_cache",
        "kernel.charged_work",
        "kernel.counts",
        "kernel.facts",
        "kernel.ledger",
        "ledger",
        "policy",
        "release",
    },
    "composition": BASE
    | {
        "analysis",
        "database",
        "engines",
        "estimates",
        "kernel.charged_work",
        "kernel.check",
        "kernel.counts",
        "kernel.ledger",
        "kernel.levels",
        "kernel.mechanisms",
        "kernel.release",
        "kernel.stable_questions",
        "kernel.tree",
        "language",
        "ledger",
        "planning",
        "policy",
        "release",
    },
    "checked": BASE
    | {
        "analysis",
        "composition",
        "database",
        "kernel.charged_work",
        "kernel.facts",
        "kernel.mechanisms",
        "kernel.release",
        "language",
        "ledger",
    },
    "uploads": BASE | {"database", "policy"},
    "session_api": BASE | {"checked", "kernel.ledger", "language", "ledger", "policy", "release"},
    "check_streams": BASE
    | {
        "composition",
        "database",
        "engines",
        "estimates",
        "kernel.charged_work",
        "kernel.facts",
        "kernel.ledger",
        "kernel.mechanisms",
        "kernel.threshold_noise",
        "language",
        "ledger",
        "release",
        "session_api",
    },
    "reports": BASE
    | {
        "analysis",
        "composition",
        "database",
        "estimates",
        "kernel.tree",
        "language",
        "ledger",
        "planning",
        "policy",
        "release",
        "session_api",
    },
    "session": CORE | {"reports", "session_api"},
    # What an owner does with a policy, beside the statements.
    "owner": BASE
    | {
        "analysis",
        "database",
        "engines",
        "estimates",
        "kernel.check",
        "kernel.facts",
        "kernel.mechanisms",
        "kernel.parted",
        "kernel.release",
        "ledger",
        "policy",
        "release",
    },
    # The front ends.
    "remote": BASE | {"language", "ledger", "login", "release", "session_api", "uploads"},
    "dbapi": BASE
    | {
        "checked",
        "database",
        "language",
        "ledger",
        "policy",
        "release",
        "remote",
        "render",
        "session",
        "session_api",
        "uploads",
    },
    "sqlalchemy": {"dbapi", "types"},
    "notebook": {"dbapi", "errors"},
    "audit": BASE
    | {"estimates", "kernel.mechanisms", "kernel.noise", "kernel.public_order", "mechanisms", "render"},
    # Whole statements; the rest of the package audits mechanisms and loads without sessions and engines.
    "audit.end_to_end": CORE | {"audit", "session", "session_api"},
    # `import dpsql` gives the connector; within the product only the front ends import it.
    ROOT: BASE | {"database", "dbapi", "ledger", "notebook", "policy", "release"},
    # The server; only the command line imports it, when it is started.
    # It asks sessions alone, so that what is below them can change.
    "serve": BASE
    | {
        ROOT,
        "composition",
        "database",
        "engines",
        "estimates",
        "fair_cache",
        "kernel.tree",
        "language",
        "ledger",
        "login",
        "policy",
        "release",
        "remote",
        "render",
        "session",
        "session_api",
        "uploads",
    },
    "cli": BASE
    | {
        ROOT,
        "audit",
        "audit.end_to_end",
        "check_streams",
        "language",
        "ledger",
        "login",
        "owner",
        "policy",
        "release",
        "remote",
        "render",
        "serve",
        "session",
        "session_api",
    },
    "__main__": {"cli"},
}
"""Package (or top module) -> the other packages that it may import."""

UNKNOWN = "?"
"""An import whose name is computed; only front ends may import so, to start quickly."""

READERS = {"tests": "*.py", "examples": "*.py", "docs": "*.md"}
"""The folders beside the package that name what it has, and their files."""

HEAVY = {"duckdb", "numpy", "pyarrow", "sqlglot", "prompt_toolkit", "pygments", "sqlalchemy"}
"""Packages that `dpsql --help` must not load."""


def modules() -> list[Path]:
    """Return the path of every module; the wheel's copy of the data is not part of the package."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "demo_data" not in path.parts)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def package_of(path: Path) -> str:
    """Return the entry of `MAY_IMPORT` that a module belongs to."""
    first, *rest = path.relative_to(PACKAGE).with_suffix("").parts
    return ROOT if first == "__init__" else listed((first, *rest))


def listed(parts: Sequence[str]) -> str:
    """Return the package, or the folder in it that has an entry of its own, of a module's name in dpsql."""
    folder = ".".join(parts[:2])
    return folder if folder in MAY_IMPORT else parts[0]


LOADERS = {"import_module", "__import__"}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a module, also within others: no import is in an expression."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt | ast.excepthandler | ast.match_case):
            yield part
            yield from statements(part)


@cache
def imported(source: str, path: Path) -> tuple[tuple[int, str], ...]:
    """Return line and absolute dotted name of every import, also in functions and for types alone."""
    return tuple(_imported(source, path))


def _imported(source: str, path: Path) -> Iterator[tuple[int, str]]:
    package = (ROOT, *path.relative_to(PACKAGE).parts[:-1])
    tree = ast.parse(source)
    computes = any(name in source for name in LOADERS)
    for node in ast.walk(tree) if computes else statements(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.func, ast.Name | ast.Attribute)
            and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in LOADERS
            and ast.unparse(node.func) in {"importlib.import_module", "import_module", "__import__"}
        ):
            target = node.args[0]
            constant = isinstance(target, ast.Constant) and isinstance(target.value, str)
            yield node.lineno, str(target.value) if constant else UNKNOWN  # type: ignore[attr-defined]  # constant says so


def file_imports(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the files that each file imports, by dotted name; `sources` holds the text of each path."""
    names = {path: name_of(PACKAGE / path) for path in sources}
    known = {name.removesuffix(".__init__"): name for name in names.values()}
    found: dict[str, set[str]] = {}
    for path, source in sources.items():
        found[names[path]] = set()
        for _, name in imported(source, PACKAGE / path):
            module = name.removeprefix(f"{ROOT}.")
            # `from package import name`: the name is a module, or the package's own.
            target = known.get(module) or known.get(module.rpartition(".")[0])
            if name.startswith(f"{ROOT}.") and target not in {None, names[path]}:
                found[names[path]].add(str(target))
    return found


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of files that import each other, directly or through other files."""

    def reached(start: str) -> set[str]:
        waiting, found = [*imports[start]], set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += imports[name]
        return found

    reach = {name: reached(name) for name in imports}
    return {
        frozenset(other for other in found if name in reach[other])
        for name, found in reach.items()
        if name in found
    }


def forbidden_imports(source: str, path: Path) -> list[str]:
    """Return the imports of a module that `MAY_IMPORT` does not allow."""
    package = package_of(path)
    found = []
    for line, name in imported(source, path):
        parts = name.split(".")
        if name == UNKNOWN and package in CORE:
            found.append(f"{name_of(path)}:{line} imports a name that cannot be read here")
        if parts[0] != ROOT:
            continue
        target = listed(parts[1:]) if len(parts) > 1 and parts[1] in MAY_IMPORT else ROOT
        if target not in {package, *ANYWHERE, *MAY_IMPORT[package]}:
            found.append(f"{name_of(path)}:{line} imports {name}")
    return found


def test_every_package_is_in_the_table() -> None:
    packages = {package_of(path) for path in modules()}
    assert packages <= set(MAY_IMPORT), "a new package needs an entry in MAY_IMPORT"
    assert packages >= BASE | {ROOT}


def test_the_table_has_no_circle() -> None:
    order = {package: place for place, package in enumerate(MAY_IMPORT)}
    backwards = [
        (package, target)
        for package, targets in MAY_IMPORT.items()
        for target in targets
        if order[target] > order[package]
    ]
    assert not backwards, "a package may import only packages above it in the table, so there is no circle"
    front = {"session", "dbapi", "sqlalchemy", "audit", "audit.end_to_end", "serve", "cli", ROOT}
    assert not [package for package in CORE if MAY_IMPORT[package] & front]


def test_a_module_imports_only_allowed_packages() -> None:
    assert [
        found for path in modules() for found in forbidden_imports(path.read_text(encoding="utf-8"), path)
    ] == []


def test_files_have_no_circle() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in modules()}
    assert [sorted(circle) for circle in circles(file_imports(sources))] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from dpsql.kernel.noise.b import f", "from dpsql.kernel.noise.a import g"),
        ("from dpsql.kernel.noise.b import f", "from dpsql.kernel.noise import a"),
        ("from .b import f", "def h():\n    from . import a"),
        ("import dpsql.kernel.noise.b", "if TYPE_CHECKING:\n    from dpsql.kernel.noise.a import G"),
        ("from dpsql.kernel.noise.b import f", "from dpsql.kernel.noise import x"),
    ],
)
def test_a_circle_of_files_is_found(one: str, other: str) -> None:
    sources = {
        "kernel/noise/__init__.py": "from dpsql.kernel.noise.a import x",
        "kernel/noise/a.py": one,
        "kernel/noise/b.py": other,
    }
    assert circles(file_imports(sources))
    assert not circles(file_imports({**sources, "kernel/noise/b.py": "from dpsql.kernel.loss import exact"}))


def unused_names(sources: dict[str, str], others: str) -> list[str]:
    """Return the names that a package's `__init__` imports, and that neither it nor anybody else reads.

    `sources` are those of dpsql, by path; `others` is the text of tests, examples and documents. Of names in
    `__all__`, which the documents show, users read any.
    """
    taken = {name for path, source in sources.items() for _, name in imported(source, PACKAGE / path)}
    found = []
    for path, source in sources.items():
        module = ".".join((ROOT, *Path(path).parts[:-1]))
        if not path.endswith("__init__.py") or "__all__ = " in source:
            continue
        tree = ast.parse(source)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        own = [each for each in tree.body if isinstance(each, ast.ImportFrom) and each.module != "__future__"]
        names = [alias.asname or alias.name for each in own for alias in each.names]
        found += [
            f"{module}.{name}"
            for name in names
            if name not in read and f"{module}.{name}" not in taken and not re.search(rf"\b{name}\b", others)
        ]
    return found


def test_what_a_package_imports_is_read() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in modules()}
    folders = [(PACKAGE.parent / name, kind) for name, kind in READERS.items()]
    others = "".join(path.read_text("utf-8") for folder, kind in folders for path in folder.rglob(kind))
    assert unused_names(sources, others) == []


def test_a_name_that_nobody_reads_is_found() -> None:
    sources = {"kernel/__init__.py": "from dpsql.kernel.loss import exact, settle", "a.py": ""}
    assert unused_names(sources, "exact") == ["dpsql.kernel.settle"]
    assert unused_names({**sources, "a.py": "from dpsql.kernel import settle"}, "exact") == []
    assert unused_names({"kernel/__init__.py": f"{sources['kernel/__init__.py']}\nsettle(1)"}, "exact") == []


def test_a_module_compiles_no_pattern_when_it_is_imported() -> None:
    """But for the kernel, which imports nothing that would have to be read with it."""
    found = []
    for path in modules():
        if "kernel" in path.parts:
            continue
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
                found += [
                    f"{name_of(path)}:{call.lineno}" for call in calls if ast.unparse(call) == "re.compile"
                ]
    assert found == []


def test_a_module_is_short() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert len(lengths) > 300
    assert {name: length for name, length in lengths.items() if length >= LONGEST} == {}


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("kernel/noise/geometric_noise.py", "from dpsql.errors import Error"),
        ("kernel/noise/geometric_noise.py", "from dpsql import policy"),
        ("kernel/mechanisms/top_k.py", "from dpsql.language import parse"),
        ("kernel/mechanisms/top_k.py", "from ..language import parse"),
        ("kernel/mechanisms/top_k.py", "from .. import language"),
        ("estimates/linear_estimates.py", "import dpsql.kernel.noise.entropy"),
        ("ledger/book.py", "def f():\n    from dpsql.session import Session"),
        ("engines/duck.py", "import importlib\nimportlib.import_module('dpsql.dbapi')"),
        ("engines/duck.py", "import importlib\nimportlib.import_module(name)"),
        ("analysis/keys.py", "if TYPE_CHECKING:\n    from dpsql.engines import Engine"),
        ("session.py", "import dpsql"),
        ("session.py", "from dpsql import connect"),
        ("kernel/public_order.py", "from ..types import BIGINT"),
        ("sqlalchemy.py", "from dpsql.session import Session"),
        ("audit/__init__.py", "from dpsql.session import Session"),
        ("session.py", "from dpsql.serve import accounts"),
        ("audit/subjects/choice.py", "from dpsql.audit.end_to_end import neighbour"),
        ("__init__.py", "from dpsql.cli import main"),
    ],
)
def test_a_forbidden_import_is_found(place: str, source: str) -> None:
    assert forbidden_imports(source, PACKAGE / place) != []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        (
            "kernel/noise/geometric_noise.py",
            "from dpsql.kernel.noise import entropy\nfrom dpsql.kernel.exact_bounds import exp_bounds",
        ),
        (
            "kernel/mechanisms/top_k.py",
            "from dpsql.kernel import noise\nfrom . import grid\nfrom .grid import draw",
        ),
        ("session.py", "from dpsql import ledger\nfrom dpsql.engines.duck import Engine"),
        ("cli/batch.py", "from dpsql.session import Session\nimport numpy as np"),
        ("audit/end_to_end.py", "from dpsql.session import Session"),
        ("__init__.py", "from dpsql.dbapi import connect"),
    ],
)
def test_an_allowed_import_is_accepted(place: str, source: str) -> None:
    assert forbidden_imports(source, PACKAGE / place) == []


@pytest.mark.parametrize("module", ["dpsql", "dpsql.cli"])
def test_the_command_line_starts_without_heavy_imports(module: str) -> None:
    script = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert module in loaded
    assert loaded & HEAVY == set()


NOT_FOR_AN_ANSWER = {
    *(
        "sqlglot.dialects.duckdb",
        "sqlglot.generators.duckdb",
        "sqlglot.executor",
        "sqlglot.optimizer.optimizer",
    ),
    *(
        "pyarrow.compute",
        "pyarrow.parquet",
        "pyarrow.fs",
        "pyarrow.dataset",
        "numpy.random",
        "numpy.ma.mrecords",
    ),
    *("pandas", "asyncio", "concurrent.futures", "http.client", "ssl", "unittest", "xml", "zoneinfo"),
    *("dpsql.analysis.advice", "dpsql.audit", "dpsql.owner", "dpsql.remote", "dpsql.reports", "dpsql.serve"),
    *("dpsql.engines.postgres", "dpsql.engines.spark", "dpsql.engines.writer", "dpsql.check_streams"),
    *(
        "dpsql.cli",
        "dpsql.render.table",
        "dpsql.render.plots",
        "dpsql.login",
        "dpsql.uploads",
        "dpsql.notebook",
        "dpsql.sqlalchemy",
    ),
}
"""What a program that asks a first statement must not load."""
COMMANDS = {
    "bounds",
    "budget",
    "check_and_audit",
    "checks",
    "demo",
    "init",
    "repl",
    "report",
    "serve",
    "user",
}
ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT u) AS n FROM t"
PROGRAMS = {
    "dpsql": f"import dpsql\ndpsql.connect('t.toml').execute({ASKED!r}).fetchall()\n",
    "dpsql.cli": "import sys\nfrom dpsql.cli.__main__ import _WithoutPandas, main\n"
    f"sys.meta_path.insert(0, _WithoutPandas())\nassert main(['-p', 't.toml', '-c', {ASKED!r}]) == 0\n",
}
MOST_LOADED = {"dpsql": 290, "dpsql.cli": 295}
"""The most modules of dpsql that an answer may load: what it did, with a reserve of 2."""


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_first_answer_loads_few_modules(module: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"u": [1, 2, 3]}), tmp_path / "t.parquet")
    table = '[tables.t]\nsource = "t.parquet"\nunit = "u"\ntrust_source = true\n'
    (tmp_path / "t.toml").write_text(f'[budget]\nepsilon = 9\nledger = "t.sqlite"\n{table}', "utf-8")
    script = f"{PROGRAMS[module]}import json, sys\nprint()\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    unwanted = NOT_FOR_AN_ANSWER if module == "dpsql" else {f"dpsql.cli.{name}" for name in COMMANDS}
    assert loaded & unwanted == set()
    assert len([name for name in loaded if name.startswith(f"{ROOT}.")]) <= MOST_LOADED[module]
