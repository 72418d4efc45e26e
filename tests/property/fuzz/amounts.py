"""Random statements of sums, averages and variances over hostile numbers, and the engines that count them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from random import Random

import duckdb

from dpsql.analysis import CompiledQuery, Plan, analyse, complete_options
from dpsql.composition.block import separate
from dpsql.engines.duckdb import duckdb_settings
from dpsql.errors import QueryRefused
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of

__all__ = ["COLUMNS", "Amounts", "analysed", "create", "policy", "statement"]

NUMBERS: dict[str, tuple[str, str]] = {
    "i8": ("TINYINT", "-128, 127, 0, 5"),
    "i16": ("SMALLINT", "-32768, 32767, 0, 300"),
    "i32": ("INTEGER", "-2147483648, 2147483647, 0, 7"),
    "i64": ("BIGINT", "-9223372036854775808, 9223372036854775807, 0, 3, 9007199254740993"),
    "u8": ("UTINYINT", "255, 0, 3"),
    "u32": ("UINTEGER", "4294967295, 0, 3"),
    "u64": ("UBIGINT", "18446744073709551615, 0, 9223372036854775808, 4"),
    "f": (
        "DOUBLE",
        "'nan', 'inf', '-inf', '-0.0', '5e-324', '-5e-324', '2.2250738585072014e-308', "
        "'1.7976931348623157e308', '-1e308', '0.5', '2.5', '3.25', '1e-3', '9007199254740993', '0.1'",
    ),
}


def _decimal(scale: int) -> tuple[str, str]:
    texts = (
        f"{Decimal(n).scaleb(-scale):f}"
        for n in (10**18 - 1, 1 - 10**18, 0, 1, -1, 35 * 10 ** max(scale - 2, 0))
    )
    return f"DECIMAL(18,{scale})", ", ".join(f"'{text}'" for text in texts)


NUMBERS |= {f"d{scale}": _decimal(scale) for scale in range(19)}
NUMBERS["small"] = ("DECIMAL(4,2)", "99.99, -99.99, 0.01, 2.35")
COLUMNS = {
    "user_id": "BIGINT",
    "k": "VARCHAR",
    "b": "BOOLEAN",
    **{c: kind for c, (kind, _) in NUMBERS.items()},
}
GROUPS = ("a", "b", "c", "d")
ENDS = (
    "-9007199254740992",
    "-1000000",
    "-3.5",
    "-1",
    "-0.001",
    "0",
    "0.001",
    "0.5",
    "1",
    "7",
    "100",
    "250.25",
    "1000000",
    "1000000000000",
    "9007199254740992",
)
TABLES = {"many": ("user_id", ""), "one": ("user_id", 'unique = [["user_id"]]'), "apart": ("ROW", "")}


def policy() -> str:
    """Return a policy over the tables; some columns have bounds."""
    columns = ", ".join(f'{name} = "{kind}"' for name, kind in COLUMNS.items())
    text = '[budget]\nepsilon = 1000000\nledger = "ledger.sqlite"\n[defaults]\nrows_per_unit = 3\n'
    for name, (unit, more) in TABLES.items():
        text += f'[tables.{name}]\nsource = "{name}.parquet"\nunit = "{unit}"\n{more}\n'
        text += f"columns = {{ {columns} }}\n"
        text += f"[tables.{name}.domain]\nk = {list(GROUPS)}\n[tables.{name}.bounds]\n"
        text += "i8 = { from = -5, to = 100 }\ni64 = { from = 0, to = 1000 }\nu64 = { from = 0, to = 1000 }\n"
        text += "d2 = { from = 0, to = 500 }\nd9 = { from = -0.1, to = 0.5 }\nf = { from = -3, to = 1000 }\n"
    return text


def create(connection: duckdb.DuckDBPyConnection, rng: Random, rows: int, units: int) -> None:
    """Create the tables; one unit has half of the rows, some rows have no unit, and half of `one` is NULL."""
    for table, (unit, _) in TABLES.items():
        place = (
            "i" if table == "one" else f"CASE WHEN i % 2 = 0 THEN 1 ELSE nullif(hash(i, 1) % {units}, 0) END"
        )
        cells = [
            f"({place})::BIGINT AS user_id",
            f"{_drawn(rng, repr([*GROUPS, 'x'])[1:-1], 'VARCHAR')} AS k",
        ]
        cells.append(f"{_drawn(rng, 'true, false', 'BOOLEAN')} AS b")
        cells += [f"{_drawn(rng, listed, kind)} AS {name}" for name, (kind, listed) in NUMBERS.items()]
        assert unit in ("user_id", "ROW")
        connection.execute(
            f"CREATE TABLE main.{table} AS SELECT {', '.join(cells)} FROM range({rows}) AS r(i)"
        )


def _drawn(rng: Random, listed: str, kind: str) -> str:
    texts = f"[{listed}, NULL]"
    place = f"1 + (hash(i, {rng.randrange(10**9)}) % len({texts}))::INTEGER"
    return f"({texts})[{place}]::{kind}"


def statement(rng: Random) -> str:
    """Draw a statement of one to three aggregates over one table."""
    value = _value(rng, 2 if rng.random() < 0.4 else 0)
    listed = [_aggregate(rng, value) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.3:
        listed.append(rng.choice((f"COUNT({value})", "COUNT(*)")))
    names = ", ".join(f"{text} AS n{i}" for i, text in enumerate(listed))
    where = rng.choice(("", "", "", " WHERE b", f" WHERE {value} > 0"))
    table = rng.choice(tuple(TABLES))
    return (
        f"SELECT k, {names} FROM {table}{where} GROUP BY k"
        if rng.random() < 0.7
        else f"SELECT {names} FROM {table}{where}"
    )


def _aggregate(rng: Random, value: str) -> str:
    name = rng.choice(("SUM", "SUM", "AVG", "AVG", "VAR_POP", "STDDEV"))
    low, high = sorted(rng.sample(ENDS, 2), key=float)
    kinds = ["_per_row", "_per_row", ""] + (["_per_group"] * 2 if name in ("SUM", "AVG") else [])
    kind = rng.choice(kinds)
    bounds = (
        f", contribution_bounds{kind} => ({low}, {high})"
        if kind
        else rng.choice(("", ", contribution_bounds => AUTO"))
    )
    return f"{name}({value}{bounds})" + rng.choice(("", "", "", " FILTER (WHERE b)"))


def _value(rng: Random, depth: int) -> str:
    if not depth or rng.random() < 0.3:
        return rng.choice(tuple(NUMBERS)) if rng.random() < 0.9 else rng.choice(("2", "0.5", "(-1)", "1e300"))
    a, b = _value(rng, depth - 1), _value(rng, depth - 1)
    return rng.choice(
        (
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / {b})",
            f"({a} // {b})",
            f"(-{a})",
            f"abs({a})",
            f"CASE WHEN b THEN {a} ELSE {b} END",
            f"COALESCE({a}, {b})",
            f"LEAST({a}, {b})",
            f"CAST({a} AS DOUBLE)",
            f"TRY_CAST({a} AS BIGINT)",
            f"TRY_CAST({a} AS DECIMAL(18,{rng.randrange(19)}))",
            f"sqrt({a})",
        )
    )


def analysed(session: Session, text: str, places: tuple[int, ...] = (), engine: str = "") -> Plan:
    """Compile a statement; `places` are those of the bounds that were found for it.

    `engine` is the one that it is compiled for, if not that of the session.
    """
    catalog, query = engine_of(session).schema_database, parse(text)
    assert isinstance(query, Query)
    policy = replace(session.policy, engine=engine or session.policy.engine)
    plain, _ = separate(query, policy, catalog)
    return analyse(plain, policy, catalog, complete_options(plain.options, session.defaults), places)


@dataclass
class Amounts:
    """The tables in a session, and in DuckDB with one thread and two, with and without its optimizer."""

    session: Session
    connections: dict[str, duckdb.DuckDBPyConnection]
    accepted: int = 0
    refused: int = 0
    searches: int = 0
    findings: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, rng: Random, rows: int = 240, units: int = 12) -> Iterator[Amounts]:
        """Create the tables and yield; everything is closed afterwards."""
        with duckdb.connect() as connection:
            create(connection, rng, rows, units)
            for table in TABLES:
                connection.execute(f"COPY main.{table} TO '{folder}/{table}.parquet'")
        (folder / "dpsql.toml").write_text(policy(), "utf-8")
        with closing(Session(load(folder / "dpsql.toml"))) as session:
            made = cls(session, {})
            for threads in (1, 2):
                for optimizer in (True, False):
                    made.connections[f"{threads} threads, optimizer {optimizer}"] = made._copy(
                        folder, threads, optimizer
                    )
            yield made
            for each in made.connections.values():
                each.close()

    def _copy(self, folder: Path, threads: int, optimizer: bool) -> duckdb.DuckDBPyConnection:
        connection = duckdb_settings.connect()
        connection.execute(f"SET threads = {threads}")
        for table in TABLES:
            connection.execute(f"CREATE TABLE main.{table} AS FROM '{folder}/{table}.parquet'")
        engine_of(self.session).schema_database.domains.create(connection)
        if not optimizer:
            connection.execute("PRAGMA disable_optimizer")
        return connection

    def compiled(self, rng: Random, text: str) -> list[CompiledQuery]:
        """Compile the counting queries of a statement, and those that search its bounds."""
        plan = analysed(self.session, text)
        if not plan.ladders:
            return [plan.compiled]
        self.searches += 1
        places = tuple(rng.randrange(len(search.ladder.bounds)) for search in plan.ladders)
        return [*(search.compiled for search in plan.ladders), analysed(self.session, text, places).compiled]

    def check(self, rng: Random, text: str) -> None:
        """Count a statement in two of the ways: no error, no NULL, the same numbers."""
        try:
            queries = self.compiled(rng, text)
        except QueryRefused:
            self.refused += 1
            return
        except Exception as problem:  # noqa: BLE001  whatever is no refusal is a finding
            self.findings.append(f"{text}\n{problem!r}")
            return
        self.accepted += 1
        for each in queries:
            names = rng.sample(sorted(self.connections), 2)
            self.findings += [f"{text}\n{problem}\n{each.sql}" for problem in self._wrong(each, names)]

    def _wrong(self, compiled: CompiledQuery, names: Sequence[str]) -> list[str]:
        found, wrong = {}, ["runs with statistics"] if compiled.counts_only and "SUM" in compiled.sql else []
        for name in names:
            connection = self.connections[name]
            try:
                rows = connection.execute(compiled.sql).fetchall()
            except duckdb.Error as problem:
                wrong.append(f"{name}: {problem}")
                continue
            keys = len(compiled.keys)
            numbers = [n for row in rows for n in row[keys : keys + compiled.counts]]
            if not all(type(n) is int and abs(n) < 1 << 63 for n in numbers):
                wrong.append(f"{name}: {numbers}")
            found[name] = sorted(rows, key=repr)
        if len({repr(rows) for rows in found.values()}) > 1:
            wrong.append(f"differ: {found}")
        return wrong
