"""Read `dpsql.toml` into a `Policy`."""

from __future__ import annotations

import os
import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import cast

from dpsql.errors import PolicyError
from dpsql.policy.budget import read_analysts, read_budget, read_groups
from dpsql.policy.files import CsvSource, ParquetSource, files_of
from dpsql.policy.keys import KEYS
from dpsql.policy.load_table import read_table, unit_kinds
from dpsql.policy.model import Policy
from dpsql.policy.names import wrong
from dpsql.policy.parts import Defaults
from dpsql.policy.section import Section
from dpsql.policy.serving import read_serving
from dpsql.policy.table import Table
from dpsql.policy.views import read_views


def load(path: str | os.PathLike[str]) -> Policy:
    """Read the owner's policy file.

    Paths in it are relative to its folder. Numbers are read exactly as written.

    Raises
    ------
    PolicyError
        With the key, what is wrong with it and a hint; for broken TOML, with the line.
    """
    file = Path(path)
    try:
        return _policy(_parse(file), file.resolve())
    except PolicyError as problem:
        raise PolicyError(
            f"{file.name}: {problem.message}",
            hint=problem.hint,
            line=problem.line,
            col=problem.col,
            source=problem.source,
        ) from None


def _parse(file: Path) -> dict[str, object]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise PolicyError("no such file", hint="`dpsql init` writes a policy") from None
    except OSError as problem:
        raise PolicyError(f"cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise PolicyError("is not UTF-8 text") from None
    try:
        return tomllib.loads(text.replace("\r\n", "\n"), parse_float=_decimal)
    except tomllib.TOMLDecodeError as problem:
        raise _syntax_error(str(problem), text) from None
    except (ValueError, RecursionError):
        raise PolicyError("holds a number too long or lists nested too deeply to be read") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _syntax_error(problem: str, text: str) -> PolicyError:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", problem)
    if not found:  # tomllib says "(at end of document)"
        return PolicyError(problem)
    line, col = int(found[1]), int(found[2])
    return PolicyError(
        f"line {line}: {problem[: found.start()]}", line=line, col=col, source=text.splitlines()[line - 1]
    )


def _policy(raw: dict[str, object], file: Path) -> Policy:
    top = Section(raw, (), KEYS["top level"])
    top.require("budget", "write [budget] with epsilon and delta")
    top.require("tables", 'write [tables.NAME] with source = "FILE" and unit = "COLUMN"')
    base = file.parent
    database, engine, defaults = (
        Section(top.get(name, dict, {}), (name,), KEYS[f"[{name}]"])
        for name in ("database", "engine", "defaults")
    )
    read_database = database.values(base)
    database_path = read_database.pop("path", None)
    if database_path is not None:
        _must_exist(database_path, "database.path")
    policy = Policy(
        path=file,
        database=database_path,
        budget=read_budget(top, base),
        tables=_tables(top.raw("tables"), base),
        analysts=read_analysts(top),
        defaults=Defaults(**defaults.values()),
        views=read_views(top.raw("views") or {}, KEYS["[views.NAME]"]),
        groups=read_groups(top),
        serve=read_serving(top, file),
        **read_database,
        **engine.values(),
        **top.values(),
    )
    for table in policy.tables.values():
        if isinstance(table.source, (ParquetSource, CsvSource)):
            if table.source.parts is None:
                _must_exist(table.source.path, table.place("source"))
            elif not files_of(table.source):
                raise wrong(
                    table.place("source"),
                    f"no file matches {table.source.path / table.source.parts}",
                    "paths are relative to the policy's folder",
                )
        elif database_path is None and policy.engine == "duckdb":
            raise wrong(
                table.place("source"),
                "is not a Parquet or CSV file, and no database is named",
                'end it in .parquet or .csv, or in / for a folder, or write [database] with path = "FILE"',
            )
    return policy


def _must_exist(path: Path, key: str) -> None:
    if not path.is_file():
        raise wrong(key, f"no such file: {path}", "paths are relative to the policy's folder")


def _tables(raw: object, base: Path) -> dict[str, Table]:
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise wrong("tables", "expected tables: write [tables.NAME]")
    tables = cast("dict[str, dict[str, object]]", raw)
    kinds = unit_kinds(tables)
    return {name: read_table(name, table, base, kinds) for name, table in tables.items()}
