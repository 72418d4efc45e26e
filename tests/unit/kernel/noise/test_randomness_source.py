"""Randomness is drawn in dpsql/kernel/noise and nowhere else."""

import ast
from pathlib import Path

import pytest

import dpsql

PACKAGE = Path(dpsql.__file__).parent
BANNED_MODULES = {"random", "secrets", "numpy.random"}
BANNED_ATTRIBUTES = {
    ("np", "random"),
    ("numpy", "random"),
    ("os", "urandom"),
    ("os", "getrandom"),
    ("uuid", "uuid1"),
    ("uuid", "uuid4"),
}


KEYS = {"login/__init__.py"}
"""The modules that draw keys, salts, tokens and nonces of logins; none of it reaches an answer."""
FIXED = {"estimates/noise_draws.py"}
"""The modules that know a public law by draws of it from a fixed seed; they give intervals, never numbers."""


def is_banned(module: str) -> bool:
    """Return whether a module, or a package around it, draws randomness."""
    return any(f"{module}.".startswith(f"{banned}.") for banned in BANNED_MODULES)


def offences(source: str) -> list[str]:
    """Name every import or attribute of a module's source that could draw randomness."""
    found: list[str] = []
    if not any(word in source for word in ("random", "secrets", "uuid")):  # of what is banned
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if is_banned(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found += [module] if is_banned(module) else []
            found += [
                f"{module}.{alias.name}"
                for alias in node.names
                if (module, alias.name) in BANNED_ATTRIBUTES or is_banned(f"{module}.{alias.name}")
            ]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found += (
                [f"{node.value.id}.{node.attr}"] if (node.value.id, node.attr) in BANNED_ATTRIBUTES else []
            )
        elif isinstance(node, ast.Constant) and node.value == "/dev/urandom":
            found.append("/dev/urandom")
    return found


def test_only_noise_draws_randomness() -> None:
    modules = [
        path
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "kernel" / "noise" not in path.parents
        and path.relative_to(PACKAGE).as_posix() not in KEYS | FIXED
    ]
    assert len(modules) > 5
    assert {str(path): found for path in modules if (found := offences(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize("name", sorted(FIXED))
def test_draws_of_a_public_law_have_a_fixed_seed(name: str) -> None:
    source = (PACKAGE / name).read_text("utf-8")
    seeds = [
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.random.PCG64")
    ]
    assert seeds == ["[_SEED, *place]"]
    assert len(offences(source)) == 3  # the generator, its type and its seed


def test_within_noise_only_entropy_draws_randomness() -> None:
    drawing = {
        path.name for path in (PACKAGE / "kernel" / "noise").glob("*.py") if offences(path.read_text("utf-8"))
    }
    assert drawing == {"entropy.py"}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy.random as r",
        "import numpy.random.mtrand",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.default_rng()",
        "import secrets",
        "from secrets import token_bytes",
        "import os\nos.urandom(8)",
        "from os import urandom",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "from uuid import UUID, uuid4",
        "open('/dev/urandom')",
    ],
)
def test_each_source_of_randomness_is_found(source: str) -> None:
    assert offences(source)


def test_the_seeded_source_is_out_of_reach() -> None:
    """Only `dpsql.noise` names `SeededEntropy`, which no module imports: no statement can ask for it."""
    naming = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "SeededEntropy" in path.read_text("utf-8")
    }
    assert naming == {"noise.py"}


def test_the_fast_source_is_for_audits() -> None:
    """It predicts itself: no private statement may draw from it."""
    naming = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "SimulationEntropy" in path.read_text("utf-8")
    }
    assert naming == {"kernel/noise/entropy.py", "kernel/noise/__init__.py", "audit/detector.py"}
