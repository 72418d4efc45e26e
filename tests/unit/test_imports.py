"""The rooms of the house and the doors between them: who may import whom, how long a module may be."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql

PACKAGE = Path(dpsql.__file__).parent
ROOT = "dpsql"
LONGEST = 500

GROUND = {"errors", "charge", "types", "release"}
CORE = (
    GROUND
    | {"policy", "noise", "mechanisms", "estimates", "ledger", "language", "analysis", "engines"}
    | {"answers", "checked", "exclusive", "info", "present", "reuse", "running", "versions"}
)

MAY_IMPORT: dict[str, set[str]] = {
    # The ground floor.
    "errors": set(),
    "charge": {"errors"},
    "order": set(),
    "types": {"errors"},
    "drawing": {"charge"},
    "exclusive": {"errors"},
    "release": {"errors", "charge", "types", "drawing"},
    # The core, each room as the way of a statement goes through it.
    "policy": {"errors", "charge", "types"},
    "language": {"errors", "charge", "types"},
    "analysis": {"errors", "charge", "types", "language", "policy"},
    "engines": {"errors", "exclusive", "order", "types", "policy", "language", "analysis"},
    "noise": {"charge"},
    "mechanisms": {"charge", "noise", "order"},
    "estimates": {"charge"},
    "ledger": {"errors", "charge"},
    "answers": GROUND | {"analysis", "language", "engines", "mechanisms", "estimates"},
    "versions": {"errors", "policy"},
    "reuse": {"policy", "analysis", "versions"},
    "present": {"analysis", "language"},
    "info": GROUND | {"analysis", "answers", "language", "ledger", "policy"},
    "running": {"charge", "engines", "errors", "exclusive", "ledger"},
    "checked": GROUND | {"analysis", "engines", "exclusive", "language", "ledger", "mechanisms", "running"},
    "session": CORE,
    "owner": {"errors", "types", "policy", "analysis", "engines", "reuse", "versions"},
    # The front ends.
    "dbapi": GROUND | {"checked", "drawing", "exclusive", "session", "policy", "language", "ledger"},
    "sqlalchemy": GROUND | {"dbapi"},
    "audit": {"errors", "charge", "noise", "order", "mechanisms"},
    # `import dpsql` is the connector's front door; only the command line goes through it.
    ROOT: GROUND | {"dbapi", "policy", "ledger", "mechanisms", "estimates", "noise"},
    "cli": GROUND | {"drawing", "owner", "session", "dbapi", "policy", "language", "ledger", "audit", ROOT},
}
"""Room -> the other rooms it may import."""

UNKNOWN = "?"
"""An import whose name is computed; front ends import lazily so, the core does not."""

RANDOM_MODULES = {"random", "secrets", "numpy.random"}
DRAWS = {("os", "urandom"), ("os", "getrandom"), ("np", "random"), ("numpy", "random"), ("uuid", "uuid4")}
"""What draws randomness; only `noise` may."""

HEAVY = {"duckdb", "numpy", "pyarrow", "sqlglot", "prompt_toolkit", "pygments", "sqlalchemy"}
"""What `dpsql --help` must not wait for."""


def modules() -> list[Path]:
    """Every module of the package (the wheel's copy of the data is none of it)."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "demo_data" not in path.parts)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return ROOT if first == "__init__" else first


def imported(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and absolute dotted name of everything imported, wherever in the module it stands."""
    package = (ROOT, *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"importlib.import_module", "import_module", "__import__"}
            and node.args
        ):
            target = node.args[0]
            constant = isinstance(target, ast.Constant) and isinstance(target.value, str)
            yield node.lineno, str(target.value) if constant else UNKNOWN  # type: ignore[attr-defined]  # constant says so


def wrong_doors(source: str, path: Path) -> list[str]:
    """Return what a module imports from rooms that are closed to it."""
    room = room_of(path)
    found = []
    for line, name in imported(source, path):
        parts = name.split(".")
        if name == UNKNOWN and room in CORE:
            found.append(f"{name_of(path)}:{line} imports a name that cannot be read here")
        if parts[0] != ROOT:
            continue
        target = parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else ROOT
        if target not in {room, *MAY_IMPORT[room]}:
            found.append(f"{name_of(path)}:{line} imports {name}")
    return found


def draws(source: str, path: Path) -> list[str]:
    """Return where a module outside `noise` takes randomness from anywhere else."""
    if room_of(path) == "noise":
        return []
    found = [
        f"{name_of(path)}:{line} imports {name}"
        for line, name in imported(source, path)
        if any(f"{name}.".startswith(f"{module}.") for module in RANDOM_MODULES)
        or tuple(name.rsplit(".", 1)) in DRAWS
    ]
    return found + [
        f"{name_of(path)}:{node.lineno} uses {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in DRAWS
    ]


def test_every_room_stands_in_the_table() -> None:
    rooms = {room_of(path) for path in modules()}
    assert rooms <= set(MAY_IMPORT), "a new room needs its line in the table"
    assert rooms >= GROUND | {ROOT}


def test_the_table_leads_one_way() -> None:
    order = {room: place for place, room in enumerate(MAY_IMPORT)}
    backwards = [
        (room, target)
        for room, targets in MAY_IMPORT.items()
        for target in targets
        if order[target] > order[room]
    ]
    assert not backwards, "a room may import only rooms above it in the table, so there is no cycle"
    front = {"session", "dbapi", "sqlalchemy", "audit", "cli", ROOT}
    assert not [room for room in CORE if MAY_IMPORT[room] & front]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_from_rooms_open_to_it(path: Path) -> None:
    assert wrong_doors(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_noise_draws_randomness(path: Path) -> None:
    assert draws(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("noise/geometric.py", "from dpsql.errors import Error"),
        ("noise/geometric.py", "from dpsql import policy"),
        ("mechanisms/top_k.py", "from dpsql.language import parse"),
        ("mechanisms/top_k.py", "from ..language import parse"),
        ("mechanisms/top_k.py", "from .. import language"),
        ("estimates/blue.py", "import dpsql.noise.exact"),
        ("ledger/book.py", "def f():\n    from dpsql.session import Session"),
        ("engines/duck.py", "import importlib\nimportlib.import_module('dpsql.dbapi')"),
        ("engines/duck.py", "import importlib\nimportlib.import_module(name)"),
        ("analysis/keys.py", "if TYPE_CHECKING:\n    from dpsql.engines import Engine"),
        ("session.py", "import dpsql"),
        ("session.py", "from dpsql import connect"),
        ("charge.py", "from .types import BIGINT"),
        ("sqlalchemy.py", "from dpsql.session import Session"),
        ("__init__.py", "from dpsql.cli import main"),
    ],
)
def test_a_wrong_door_is_noticed(place: str, source: str) -> None:
    assert wrong_doors(source, PACKAGE / place) != []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("noise/geometric.py", "from dpsql.noise.exact import exp_bounds\nfrom dpsql.charge import exact"),
        ("mechanisms/top_k.py", "from dpsql import noise\nfrom . import grid\nfrom .grid import draw"),
        ("session.py", "from dpsql import ledger\nfrom dpsql.engines.duck import Engine"),
        ("cli/batch.py", "from dpsql.session import Session\nimport numpy as np"),
        ("__init__.py", "from dpsql.dbapi import connect"),
    ],
)
def test_an_open_door_is_not_complained_about(place: str, source: str) -> None:
    assert wrong_doors(source, PACKAGE / place) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from secrets import token_bytes",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.default_rng()",
        "from numpy import random",
        "import os\nos.urandom(8)",
        "from os import urandom",
        "from uuid import uuid4",
    ],
)
def test_randomness_outside_noise_is_noticed(source: str) -> None:
    assert draws(source, PACKAGE / "mechanisms" / "top_k.py") != []
    assert draws(source, PACKAGE / "noise" / "entropy.py") == []


@pytest.mark.parametrize("module", ["dpsql", "dpsql.cli"])
def test_the_command_line_starts_without_heavy_imports(module: str) -> None:
    script = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert module in loaded
    assert loaded & HEAVY == set()
