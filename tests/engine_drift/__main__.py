"""What another version of a package does otherwise than the versions that dpsql was tested with.

    python -m tests.engine_drift 2.0.1                    DuckDB 2.0.1 beside the newest tested version
    python -m tests.engine_drift 2.0.1 --against 2.0.0    beside another one
    python -m tests.engine_drift sqlglot==30.30.0         sqlglot, or pyarrow, numpy, click
    python -m tests.engine_drift --write                  the facts of the tested versions, anew
    python -m tests.engine_drift --write 2.0.1            and those of a version that becomes a tested one

Each version is installed in a fresh environment, which takes about a minute. Lines that begin with `!` are
about what the guarantee reads; with one of them the command ends with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.engine_drift.compare import differences
from tests.engine_drift.data import tested, write
from tests.engine_drift.environments import collected


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences, or write the facts; return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.engine_drift", description=__doc__.partition("\n")[0])
    parser.add_argument("version", nargs="?", help="a version of DuckDB, or PACKAGE==VERSION")
    parser.add_argument(
        "--against", metavar="VERSION", help="the version to compare with [the newest tested]"
    )
    parser.add_argument("--write", action="store_true", help="write the facts of the tested versions as data")
    parser.add_argument("--rows", type=int, default=3, help="how many rows of a changed result are shown")
    given = parser.parse_args(arguments)
    versions = tested()
    if given.write:
        for version in dict.fromkeys((*versions, *filter(None, (given.version,)))):
            print(write(version, collected({"duckdb": version})))
        return 0
    if given.version is None:
        parser.error("which version?")
    package, _, version = given.version.rpartition("==")
    package = package or "duckdb"
    base = {"duckdb": versions[-1]}
    if given.against:
        base[package] = given.against
    before, after = collected(base), collected({**base, package: version})
    lines = differences(before, after, given.rows)
    print(f"{package} {before['versions'][package]} -> {after['versions'][package]}")
    print("with", ", ".join(f"{k} {v}" for k, v in after["versions"].items() if k != package))
    for line in lines:
        print(line)
    read = sum(line.startswith("!") for line in lines)
    print(f"{len(lines)} differences, {read} of them in what the guarantee reads")
    return 1 if read else 0


if __name__ == "__main__":
    sys.exit(main())
