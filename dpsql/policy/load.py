"""Read `dpsql.toml` into a `Policy`."""

from __future__ import annotations

import os
import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import cast

from dpsql.errors import PolicyError
from dpsql.kernel.loss import Accounting
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy
from dpsql.policy.files import CsvSource, ParquetSource, files_of
from dpsql.policy.keep_rules import KEEP, read_keep
from dpsql.policy.keys import KEYS
from dpsql.policy.length_rules import LONGEST, read_length
from dpsql.policy.load_serving import read_groups, read_serving
from dpsql.policy.load_table import read_table, unit_kinds
from dpsql.policy.model import Policy
from dpsql.policy.names import wrong
from dpsql.policy.parts import Defaults
from dpsql.policy.section import Section
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
    database = Section(top.get("database", dict, {}), ("database",), KEYS["[database]"])
    engine = Section(top.get("engine", dict, {}), ("engine",), KEYS["[engine]"])
    database_path = _path(database, "path", base)
    if database_path is not None:
        _must_exist(database_path, "database.path")
    policy = Policy(
        path=file,
        database=database_path,
        engine=database.get("engine", str, "duckdb"),
        budget=_budget(top.raw("budget"), base),
        tables=_tables(top.raw("tables"), base),
        analysts=_analysts(top),
        defaults=Defaults(
            **Section(top.get("defaults", dict, {}), ("defaults",), KEYS["[defaults]"]).simple()
        ),
        views=read_views(top.raw("views") or {}, KEYS["[views.NAME]"]),
        groups=read_groups(top),
        serve=read_serving(top, file),
        longest_value=read_length(engine.raw("longest_value")) if "longest_value" in engine else LONGEST,
        keep=read_keep(engine.raw("keep")) if "keep" in engine else KEEP,
        **database.simple(),
        **top.simple(),
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


def _path(section: Section, name: str, base: Path) -> Path | None:
    text = section.optional(name, str)
    if text is None:
        return None
    if not text or "\0" in text:
        raise wrong(section.place(name), "expected the path of a file")
    return base / text


def _must_exist(path: Path, key: str) -> None:
    if not path.is_file():
        raise wrong(key, f"no such file: {path}", "paths are relative to the policy's folder")


def _budget(raw: object, base: Path) -> BudgetPolicy:
    section = Section(raw, ("budget",), KEYS["[budget]"])
    section.require("epsilon", "write the total that may ever be spent, for instance epsilon = 5.0")
    chosen = section.raw("high_water")
    return BudgetPolicy(
        ledger=_path(section, "ledger", base) or base / "dpsql-ledger.sqlite",
        accounting=cast("Accounting", section.get("accounting", str, "pure")),
        high_water=chosen if isinstance(chosen, bool) else _path(section, "high_water", base),
        **section.simple(),
    )


def _analysts(top: Section) -> dict[str, AnalystPolicy]:
    analysts = {}
    listed = top.optional("analysts", dict)
    if listed == {}:
        raise wrong(
            "analysts",
            "lists no analyst, so no statement could be run",
            'write [analysts.NAME], or [analysts."*"] for everybody',
        )
    for name, raw in (listed or {}).items():
        section = Section(raw, ("analysts", name), KEYS["[analysts.NAME]"])
        section.require("epsilon", "write the most this analyst may spend")
        analysts[name] = AnalystPolicy(name, **section.simple())
    return analysts


def _tables(raw: object, base: Path) -> dict[str, Table]:
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise wrong("tables", "expected tables: write [tables.NAME]")
    tables = cast("dict[str, dict[str, object]]", raw)
    kinds = unit_kinds(tables)
    return {name: read_table(name, table, base, kinds) for name, table in tables.items()}
