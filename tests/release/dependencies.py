"""Lists the packages that an installed dpsql needs, with versions and licences: requirements.lock and a page.

    python -m tests.release.dependencies

The versions are those of this environment. A new package, or another licence, fails
`tests/unit/test_release.py` until this has been run and the difference was read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
PAGE = ROOT / "docs" / "pages" / "reference" / "dependencies.md"
EXTRAS = ("serve", "http", "repl")
"""The extras whose packages are in the lock: what `dpsql serve` and the shell use. Other extras bring
engines and tools."""
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT License",
    "MIT-0", "PSF-2.0", "Zlib",
}  # fmt: skip
"""The licences that dpsql may be shipped beside without a further look."""


class Package(NamedTuple):
    """A package, the version here, its licence in its own words, and who asks for it."""

    name: str
    version: str
    licence: str
    asked_by: str


def find_packages() -> list[Package]:
    """Return all packages of dpsql and of the extras, with what they need in turn, sorted by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [(text, "dpsql") for text in project["dependencies"]]
    wanted += [
        (text, f"dpsql[{extra}]") for extra in EXTRAS for text in project["optional-dependencies"][extra]
    ]
    found: dict[str, Package] = {}
    while wanted:
        text, asked_by = wanted.pop(0)
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name in found or not _applies(requirement):
            continue
        found[name] = Package(name, metadata(name)["Version"], read_licence(name), asked_by)
        wanted += [(each, name) for each in requires(name) or []]
    return sorted(found.values())


def _applies(requirement: Requirement) -> bool:
    """Return whether it is needed here, or by any Python that is supported."""
    marker = requirement.marker
    if marker is None:
        return True
    return any(
        marker.evaluate({"extra": "", "python_version": v, "python_full_version": f"{v}.0"})
        for v in ("3.11", "3.14")
    )


def read_licence(name: str) -> str:
    """Return the licence as the package states it: an expression, else a field of one line, else its
    classifier."""
    told = metadata(name)
    if told["License-Expression"]:
        return str(told["License-Expression"])
    if told["License"] and len(told["License"]) < 40:
        return str(told["License"])
    classifiers = [
        c.rpartition(" :: ")[2] for c in told.get_all("Classifier") or [] if c.startswith("License ::")
    ]
    return " OR ".join(classifiers) or "not stated"


def is_permissive(licence: str) -> bool:
    """Return whether all parts of an expression, or one of its alternatives, are permissive."""
    return any(
        all(part.strip("() ") in PERMISSIVE for part in alternative.split(" AND "))
        for alternative in licence.split(" OR ")
    )


def write_lock(packages: list[Package]) -> str:
    """Return requirements.lock."""
    lines = ["# What dpsql[serve,http,repl] was tested with: python -m tests.release.dependencies"]
    return "\n".join([*lines, *(f"{p.name}=={p.version}" for p in packages)]) + "\n"


def write_page(packages: list[Package]) -> str:
    """Return the page of dependencies."""
    lines = [
        "# Dependencies and licences",
        "",
        "What `pip install dpsql` brings, and with the extras `serve`, `http` and `repl`. dpsql itself is "
        "under Apache-2.0.",
        "`requirements.lock` of the source archive has the versions with which the release was tested:",
        "`pip install -c requirements.lock dpsql`. This page is generated, and a test compares it with the "
        "packages.",
        "",
        "| package | version | licence | needed by |",
        "|---|---|---|---|",
        *(f"| {p.name} | {p.version} | {p.licence} | {p.asked_by} |" for p in packages),
        "",
        "The extras `postgres`, `spark`, `sqlalchemy`, `mcp` and `plot` bring drivers and tools, under "
        "their own licences.",
    ]
    return "\n".join(lines) + "\n"


def read_lock() -> Iterator[tuple[str, str]]:
    """Return the names and versions of requirements.lock."""
    yield from re.findall(r"^([\w.-]+)==(\S+)$", LOCK.read_text("utf-8"), re.M)


def main() -> None:
    """Write both files."""
    try:
        packages = find_packages()
    except PackageNotFoundError as missing:
        raise SystemExit(f"not installed here: {missing}; pip install -e '.[serve,http,repl]'") from None
    LOCK.write_text(write_lock(packages), "utf-8")
    PAGE.write_text(write_page(packages), "utf-8")


if __name__ == "__main__":
    main()
