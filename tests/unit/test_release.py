"""A release says what is true: version, dependencies with licences, the container, the table of what is
supported."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from dpsql.kernel.ledger.schema import VERSION as LEDGER
from dpsql.package_version import VERSION
from tests.release.containerfile import FILE, parse_containerfile, run_instructions
from tests.release.dependencies import PAGE, Package, find_packages, is_permissive, read_lock

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSIONS = ROOT / "docs" / "pages" / "owners" / "versions.md"


def test_one_version_everywhere() -> None:
    assert PROJECT["version"] == VERSION
    assert f"\n## {VERSION}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.fixture(scope="module")
def packages() -> list[Package]:
    try:
        return find_packages()
    except PackageNotFoundError as missing:
        pytest.skip(f"not installed: {missing}")


def test_the_lock_and_the_page_name_all_packages(packages: list[Package]) -> None:
    """With their licences; versions here may be others than those that were tested for the release."""
    assert {name for name, _ in read_lock()} == {package.name for package in packages}
    page = PAGE.read_text("utf-8")
    for package in packages:
        assert re.search(rf"^\| {package.name} \| \S+ \| {re.escape(package.licence)} \|", page, re.M), (
            package
        )


def test_licences_are_permissive(packages: list[Package]) -> None:
    assert [package for package in packages if not is_permissive(package.licence)] == []
    assert is_permissive("GPL-3.0-only OR MIT")
    assert not is_permissive("MIT AND GPL-3.0-only")
    assert not is_permissive("not stated")


def test_the_lock_is_within_what_the_project_asks_for() -> None:
    locked = dict(read_lock())
    for text in PROJECT["dependencies"]:
        found = re.match(r"([\w-]+)>?==?([\d.]+)(?:,<(=?)([\d.]+))?", text)
        assert found is not None, text
        name, least, equal, most = found.groups()
        assert _parts(locked[name]) >= _parts(least)
        assert most is None or (
            _parts(locked[name]) <= _parts(most) if equal else _parts(locked[name]) < _parts(most)
        )


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_the_containerfile_is_read() -> None:
    instructions = parse_containerfile(FILE.read_text("utf-8"))
    words = [word for word, _ in instructions]
    assert words[0] == "FROM"
    assert ("ENTRYPOINT", '["dpsql"]') in instructions
    user = next(rest for word, rest in instructions if word == "USER")
    assert not user.startswith(("0", "root"))
    assert all(
        "http" not in rest for word, rest in instructions if word == "RUN" and "--no-index" not in rest
    )


@pytest.mark.parametrize(
    "text",
    [
        'ENTRYPOINT ["dpsql"]\n',
        'FROM x\nENTRYPOINT ["dpsql"]\nINSTALL y\n',
        "FROM x\nENTRYPOINT dpsql\n",
        'FROM x\nENTRYPOINT ["dpsql"]\nRUN a \\\n',
        "FROM x\n",
    ],
)
def test_a_wrong_containerfile_is_noticed(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_containerfile(text)


def test_instructions_run_where_they_say(tmp_path: Path) -> None:
    (tmp_path / "context" / "wheels").mkdir(parents=True)
    (tmp_path / "context" / "wheels" / "a.whl").touch()
    text = (
        "FROM x\nWORKDIR /install\nCOPY wheels wheels\nRUN ls wheels \\\n  >listed\nENV NAME=value\n"
        'WORKDIR /data\nRUN echo $NAME >said\nUSER 5\nENTRYPOINT ["sh", "-c", "touch $0"]\nCMD ["entry"]\n'
    )
    run_instructions(parse_containerfile(text), tmp_path / "context", tmp_path / "none", tmp_path / "root")
    assert (tmp_path / "root/install/listed").read_text() == "a.whl\n"
    assert (tmp_path / "root/data/said").read_text() == "value\n"
    assert (tmp_path / "root/data/entry").exists()


def test_the_table_of_versions_is_that_of_the_code() -> None:
    text = VERSIONS.read_text("utf-8")
    assert f"| Python | {PROJECT['requires-python'].removeprefix('>=')} " in text
    duckdb = next(t for t in PROJECT["dependencies"] if t.startswith("duckdb"))
    least, most = re.findall(r"[\d.]+", duckdb)
    assert f"| DuckDB | {least} to {most} " in text
    assert f"| ledger | 1 to {LEDGER} " in text
    for extra, name in (("spark", "pyspark"), ("postgres", "adbc-driver-postgresql")):
        (need,) = [t for t in PROJECT["optional-dependencies"][extra] if t.startswith(name)]
        assert re.findall(r"[\d.]+", need)[0] in text
