"""Read `dpsql.toml` into a `Policy`.

`load` reads the file; each `_read_..` reads the value of one key that has a form of its own. All others are
read by their kinds in `policy_keys`. What is checked here is the file; `Policy` checks its own fields.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import cast

from dpsql.errors import PolicyError
from dpsql.kernel.facts import fold
from dpsql.policy.budget import read_analysts, read_budget, read_groups
from dpsql.policy.column_values import ColumnBounds
from dpsql.policy.model import Policy, read_models
from dpsql.policy.names import key_path, wrong
from dpsql.policy.part_declarations import UnitPeriod, read_parts
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.references import read_views
from dpsql.policy.serving import read_serving
from dpsql.policy.table import Table
from dpsql.policy.table_parts import (
    BooleanDomain,
    CsvFormat,
    CsvSource,
    DatabaseSource,
    Defaults,
    Domain,
    EnumDomain,
    ParquetSource,
    RangeDomain,
    Source,
    TableDomain,
    Unit,
    UnitColumn,
    UnitRow,
    UnitVia,
    Value,
    ValuesDomain,
    ViewSource,
    files_of,
    split_pattern,
)
from dpsql.policy.toml_values import Section, describe
from dpsql.types import SqlType, column_type

_IDENTIFIER = r'(?:"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_]*))'


def find_unit_kinds(tables: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the unit kind of each table by its folded name: as declared, its parent's, or the default."""
    named = {fold(name): raw for name, raw in tables.items()}
    return {name: _find_kind(named, name) for name in named}


def _find_kind(tables: Mapping[str, Mapping[str, object]], name: str) -> str:
    """Return the unit kind of a table, following its path as far as it leads."""
    seen: set[str] = set()
    while name in tables and name not in seen:
        seen.add(name)
        raw = tables[name]
        unit = raw.get("unit")
        if "unit_kind" in raw or not isinstance(unit, dict):
            return str(raw.get("unit_kind", "row" if unit == "ROW" else "unit"))
        name = fold(str(unit.get("table", "")))
    return "unit"


def read_table(name: str, raw: object, base: Path, kinds: Mapping[str, str]) -> Table:
    """Read a table; `kinds` are the unit kinds of all tables, which child tables inherit."""
    section = Section(raw, ("tables", name), KEYS["[tables.NAME]"])
    simple = section.values()
    kind, stable = simple.pop("unit_kind", None), simple.pop("stable", False)
    simple.pop("stands_for", None)
    simple.pop("model", None)  # `read_models` has them
    same = {column: _split_column(text) for column, text in simple.pop("same_unit", {}).items()}
    if simple.get("public") and kind is not None:
        raise wrong(section.place("unit_kind"), "a public table has no privacy unit")
    return Table(
        name=name,
        source=_make_view_source(section, _read_source(section, base))
        if stable
        else _read_source(section, base),
        unit=_read_unit(section, kind, kinds),
        columns=_read_columns(section),
        domain=_read_domains(section),
        bounds=_read_bounds(section),
        zone=_read_zones(section),
        same_unit=same,
        **simple,
    )


def _split_column(text: str) -> tuple[str, str]:
    """Return the table and the column that `TABLE.COLUMN` names; a column's name may have a dot."""
    table, _, column = text.partition(".")
    return table, column


def _read_source(section: Section, base: Path) -> Source:
    section.require("source", 'write source = "visits.parquet", a CSV file, or a table of the database')
    text = section.get("source", str, "")
    if text.endswith("/"):
        text += _find_pattern(base / text)
    lowered = text.lower()
    if lowered.endswith((".parquet", ".pq")):
        return ParquetSource(*split_pattern(text, base))
    if lowered.endswith((".csv", ".csv.gz")):
        return CsvSource(*split_pattern(text, base), _read_csv_format(section))
    named = re.fullmatch(rf"\s*(?:{_IDENTIFIER}\s*\.\s*)?{_IDENTIFIER}\s*", text)
    if named and not lowered.endswith((".json", ".tsv", ".txt")):
        schema, table = (
            (quoted or "").replace('""', '"') or plain
            for quoted, plain in ((named[1], named[2]), (named[3], named[4]))
        )
        return DatabaseSource(schema or None, table)
    raise wrong(
        section.place("source"),
        f"{text[:80]!r} is neither a Parquet file, a CSV file nor a table of the database",
        "end it in .parquet or .csv, or write a table's name; convert other files to Parquet",
    )


def _make_view_source(section: Section, source: Source) -> ViewSource:
    """Return the source of a table that the owner calls a stable view."""
    if not isinstance(source, DatabaseSource):
        raise wrong(section.place("stable"), "is for views of PostgreSQL or Spark", "leave it out")
    return ViewSource(source.schema, source.table)


def _find_pattern(folder: Path) -> str:
    """Return the pattern of all data files of a folder: CSV if it holds such files and no Parquet."""
    kinds = ("**/*.parquet", "**/*.csv")
    return next((kind for kind in kinds if files_of(ParquetSource(folder, kind))), kinds[0])


def _read_csv_format(section: Section) -> CsvFormat:
    if "csv" not in section:
        return CsvFormat()
    return CsvFormat(**Section(section.raw("csv"), (*section.key, "csv"), KEYS["[tables.NAME.csv]"]).values())


def _read_unit(section: Section, stated: str | None, kinds: Mapping[str, str]) -> Unit | None:
    raw = section.raw("unit")
    if section.raw("unit_period") is not None and (not isinstance(raw, str) or raw == "ROW"):
        raise wrong(
            section.place("unit_period"),
            "is for tables with the unit in a column of their own",
            'write unit = "patient_id", or leave it out',
        )
    if raw is None:
        return None
    if raw == "ROW":
        return UnitRow(stated or "row")
    if isinstance(raw, str):
        return _read_period(section, raw, stated or "unit")
    if not isinstance(raw, dict):
        raise wrong(
            section.place("unit"),
            f"expected the name of a column, found {describe(raw)}",
            'write "user_id", "ROW", or { via = "order_id", table = "orders", column = "order_id" }',
        )
    hint = 'write unit = { via = "order_id", table = "orders", column = "order_id" }'
    names = ("via", "table", "column")
    via, table, column = _read_texts(Section(raw, (*section.key, "unit"), dict.fromkeys(names)), names, hint)
    return UnitVia(via, table, column, stated or kinds.get(fold(table), "unit"))


def _read_period(section: Section, column: str, kind: str) -> UnitColumn:
    """Return the unit that a column names, or what it did in one period (`unit_period`)."""
    found = section.raw("unit_period")
    if found is None:
        return UnitColumn(column, kind)
    if not isinstance(found, dict):
        raise wrong(section.place("unit_period"), f"expected a table, found {describe(found)}", _PERIOD)
    own = Section(found, (*section.key, "unit_period"), KEYS["[tables.NAME.unit_period]"])
    for name in ("column", "every"):
        own.require(name, _PERIOD)
    values = own.values()
    return UnitPeriod(column, kind, values.pop("column"), **values)


_PERIOD = 'write unit_period = { column = "visit_date", every = "week" }'


def _read_texts(section: Section, names: tuple[str, ...], hint: str) -> list[str]:
    """Return the values of keys that are all required texts."""
    for name in names:
        section.require(name, hint)
    return [section.get(name, str, "") for name in names]


def _read_columns(section: Section) -> dict[str, SqlType] | None:
    if "columns" not in section:
        return None
    columns = {}
    for name, text in _flatten(section.get("columns", dict, {}), lambda _: True):
        place = section.place("columns", name)
        if not isinstance(text, str):
            raise wrong(place, f"expected a type in quotes, found {describe(text)}", 'for instance "BIGINT"')
        try:
            columns[name] = column_type(text)
        except ValueError as problem:
            raise wrong(place, str(problem)) from None
    return columns


def _flatten(
    raw: Mapping[str, object], nested: Callable[[dict[str, object]], bool], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield the keys of columns with their values; TOML reads `address.city = ..` as a table in a table."""
    for name, value in raw.items():
        if isinstance(value, dict) and nested(value):
            yield from _flatten(value, nested, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _holds_columns(raw: dict[str, object]) -> bool:
    """Whether a table has columns as keys, not the keys of a domain or of bounds."""
    return not {"from", "to", "step", "table", "column", "values"} & set(raw) and bool(raw)


def _read_domains(section: Section) -> dict[str, Domain]:
    raw = section.get("domain", dict, {})
    key = (*section.key, "domain")
    return {column: _read_domain(value, (*key, column)) for column, value in _flatten(raw, _holds_columns)}


def _read_domain(raw: object, key: tuple[str, ...]) -> Domain:
    if isinstance(raw, list):
        seen: dict[object, list[object]] = {}
        for position, value in enumerate(raw):
            if isinstance(value, (list, dict)):
                raise wrong(f"{key_path(*key)}[{position}]", f"expected a value, found {describe(value)}")
            if any(type(value) is type(other) and value == other for other in seen.get(value, ())):
                raise wrong(f"{key_path(*key)}[{position}]", f"{str(value)[:60]!r} is listed twice")
            seen.setdefault(value, []).append(value)
        return ValuesDomain(tuple(cast("list[Value]", raw)))
    if isinstance(raw, str) and raw.upper() in ("BOOLEAN", "BOOL"):
        return BooleanDomain()
    if isinstance(raw, str) and raw.upper() == "ENUM":
        return EnumDomain()
    if isinstance(raw, dict) and "values" in raw:
        section = Section(raw, key, dict.fromkeys(("values", "complete")))
        listed = _read_domain(section.get("values", list, []), (*key, "values"))
        return replace(cast("ValuesDomain", listed), complete=section.get("complete", bool, False))
    if isinstance(raw, dict) and ("from" in raw or "to" in raw):
        section = Section(raw, key, dict.fromkeys(("from", "to", "complete")))
        for end in ("from", "to"):
            section.require(end, "write { from = 0, to = 23 }; both ends are included")
        start, stop = section.raw("from"), section.raw("to")
        for end, value in (("from", start), ("to", stop)):
            if isinstance(value, (bool, Decimal)) or not isinstance(value, (int, date)):
                raise wrong(section.place(end), f"expected an integer or a date, found {describe(value)}")
        complete = section.get("complete", bool, False)
        return RangeDomain(cast("int | date", start), cast("int | date", stop), complete)
    if isinstance(raw, dict):
        section = Section(raw, key, dict.fromkeys(("table", "column", "complete", "from", "to", "values")))
        table, column = _read_texts(
            section, ("table", "column"), 'write { table = "pages", column = "page" }'
        )
        return TableDomain(table, column, section.get("complete", bool, False))
    raise wrong(
        key_path(*key),
        f"expected a domain, found {describe(raw)}",
        'write a list of values, { from = 0, to = 23 }, { table = "pages", column = "page" }, '
        '"BOOLEAN" or "ENUM"',
    )


def _read_zones(section: Section) -> dict[str, str]:
    raw = section.get("zone", dict, {})
    for name, zone in _flatten(raw, lambda _: True):
        if not isinstance(zone, str):
            raise wrong(
                section.place("zone", name), f"expected a time zone in quotes, found {describe(zone)}"
            )
    return {name: str(zone) for name, zone in _flatten(raw, lambda _: True)}


def _read_bounds(section: Section) -> dict[str, ColumnBounds]:
    raw = section.get("bounds", dict, {})
    key = (*section.key, "bounds")
    return {column: _read_interval(value, (*key, column)) for column, value in _flatten(raw, _holds_columns)}


def _read_interval(raw: object, key: tuple[str, ...]) -> ColumnBounds:
    hint = "write { from = 0, to = 500 }"
    if not isinstance(raw, dict):
        raise wrong(key_path(*key), f"expected bounds, found {describe(raw)}", hint)
    section = Section(raw, key, dict.fromkeys(("from", "to", "step")))
    for end in ("from", "to"):
        section.require(end, hint)
    low, high = (cast("Value", section.raw(end)) for end in ("from", "to"))
    return ColumnBounds(low, high, section.optional("step", Decimal))


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
        return _read_policy(_parse(file), file.resolve())
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
        return tomllib.loads(text.replace("\r\n", "\n"), parse_float=_parse_decimal)
    except tomllib.TOMLDecodeError as problem:
        raise _syntax_error(str(problem), text) from None
    except (ValueError, RecursionError):
        raise PolicyError("holds a number too long or lists nested too deeply to be read") from None


def _parse_decimal(text: str) -> Decimal:
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


def _read_policy(raw: dict[str, object], file: Path) -> Policy:
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
        _check_exists(database_path, "database.path")
    chosen = Defaults(**defaults.values())
    policy = Policy(
        path=file,
        database=database_path,
        budget=read_budget(top, base),
        tables=_read_tables(top.raw("tables"), base),
        analysts=read_analysts(top),
        defaults=chosen,
        views=read_views(top.raw("views") or {}, KEYS["[views.NAME]"], chosen.dialect),
        groups=read_groups(top),
        parts=read_parts(top),
        models=read_models(top.get("tables", dict, {})),
        serve=read_serving(top, file),
        **read_database,
        **engine.values(),
        **top.values(),
    )
    for table in policy.tables.values():
        if isinstance(table.source, (ParquetSource, CsvSource)):
            if table.source.parts is None:
                _check_exists(table.source.path, table.place("source"))
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


def _check_exists(path: Path, key: str) -> None:
    if not path.is_file():
        raise wrong(key, f"no such file: {path}", "paths are relative to the policy's folder")


def _read_tables(raw: object, base: Path) -> dict[str, Table]:
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise wrong("tables", "expected tables: write [tables.NAME]")
    tables = cast("dict[str, dict[str, object]]", raw)
    kinds = find_unit_kinds(tables)
    return {name: read_table(name, table, base, kinds) for name, table in tables.items()}
