"""What golden files record of a statement: its SQL for three engines, its price, what EXPLAIN predicts."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from dpsql.analysis import CompiledQuery, compiler
from dpsql.composition.explain import explain
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.engines.postgres import postgres_tables as postgres
from dpsql.engines.postgres.postgres_sql import PostgresDialect
from dpsql.engines.postgres.postgres_tables import CatalogColumn, CatalogTable
from dpsql.engines.spark import spark_tables as spark
from dpsql.engines.spark.spark_sql import SparkDialect
from dpsql.engines.writer import Dialect, PublicRelation, TargetColumn, Untranslatable, translate
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.policy import Policy, Table
from dpsql.session import Session
from dpsql.types import SqlType
from tests.golden.worlds import Golden

COLUMNS = ("text", "duckdb", "postgres", "spark", "price", "explain")
"""What is recorded of each statement; `text` is the statement itself, which a change of its maker changes."""

REFUSED = "refused"

DAY = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)
"""The moment at which statements are compiled."""

VALUES = (0.0, 1.5, -2.0, 3.0, 7.25, None)
"""What stands for numbers of earlier releases."""

DIGITS = 10
"""Significant digits of what is predicted; processors may differ in the last ones of e^x."""


class Recorder:
    """Compiles and quotes the statements of sessions, which it knows by their engines' scans."""

    def __init__(self) -> None:
        self._dialects: dict[int, dict[str, Dialect]] = {}
        self._public: dict[int, dict[str, PublicRelation]] = {}

    def texts(self, golden: Golden) -> dict[str, str]:
        """Return what is recorded of a statement, in full."""
        with compiled_at(DAY):
            return {"text": golden.text, **self._texts(golden)}

    def hashes(self, golden: Golden) -> list[str]:
        """Return the hash of each text of a statement, in the order of `COLUMNS`."""
        texts = self.texts(golden)
        return [_hash(texts[column]) for column in COLUMNS]

    def _texts(self, golden: Golden) -> dict[str, str]:
        session = golden.session
        try:
            with session.statement():
                prepared = session.planner.bound(golden.text, None)  # as `prepare`, without other statements
        except (QueryRefused, QuerySyntaxError):
            return dict.fromkeys(COLUMNS[1:], REFUSED)
        assert isinstance(prepared, PreparedPrivate | PreparedComposed | PreparedPublic)
        explained = explain(prepared, session.budget(), json=True)
        found = {"explain": _predicted(explained.column(0)[0].as_py())}
        if isinstance(prepared, PreparedPublic):
            return {
                **found,
                **dict.fromkeys(("postgres", "spark", "price"), "public"),
                "duckdb": prepared.sql,
            }
        queries = [query for part in prepared.parts for query in _queries(part)]
        found["price"] = "\n".join(map(_price, prepared.parts))
        found["duckdb"] = "\n".join([*map(_compiled, queries), *_around(prepared)])
        for name, dialect in self._dialects_of(session).items():
            found[name] = self._written(queries, dialect, session)
        return found

    def _written(self, queries: list[CompiledQuery], dialect: Dialect, session: Session) -> str:
        catalog = session.database.engines().schema_database
        private = {t.name for t in session.policy.tables.values() if not t.public}
        cache, texts = self._public.setdefault(id(session), {}), []
        try:
            for query in queries:
                made = translate(query, dialect, catalog, private, cache)
                texts += [made.sql, *(f"{each.name} = {each.sql}" for each in made.public)]
        except Untranslatable:
            return REFUSED
        return "\n".join(texts)

    def _dialects_of(self, session: Session) -> dict[str, Dialect]:
        found = self._dialects.get(id(session))
        if found is None:
            postgres_scans, spark_scans = scans(session)
            found = {"postgres": PostgresDialect(postgres_scans), "spark": SparkDialect(spark_scans)}
            self._dialects[id(session)] = found
        return found


def _hash(text: str) -> str:
    return REFUSED if text == REFUSED else hashlib.sha256(text.encode()).hexdigest()[:16]


def _queries(part: PreparedPrivate) -> Iterator[CompiledQuery]:
    """Yield every query of a release: its own, those of its bounds, and those that follow from constants."""
    plan = part.plan
    yield plan.compiled
    yield from (search.compiled for search in plan.ladders)
    if plan.ladders:
        places = tuple(i % 3 for i in range(len(plan.ladders)))
        yield part.counting.with_bounds(places).plan.compiled
    if part.values:
        values = tuple((place, VALUES[place % len(VALUES)]) for place in part.values)
        yield part.counting.with_values(values).plan.compiled


def _compiled(query: CompiledQuery) -> str:
    shape = f"{[*map(str, query.keys)]} {query.counts} {query.places} {query.cells} {query.counts_only}"
    return f"{shape}\n{query.sql}"


def _around(prepared: PreparedPrivate | PreparedComposed) -> list[str]:
    """Return the SQL over released rows, which DuckDB runs whatever counts."""
    if isinstance(prepared, PreparedPrivate):
        return []
    return [prepared.outer, prepared.traced, *(value.sql for value in prepared.values)]


def _price(part: PreparedPrivate) -> str:
    quote = part.method.quote
    return f"{quote.mechanism}; {part.full_price.fractions}; {quote.loss}"


def _predicted(text: str) -> str:
    """Return what EXPLAIN says without SQL, which is recorded apart; floating-point numbers rounded."""
    return json.dumps(rounded(json.loads(text)))


def rounded(value: object) -> object:
    """Return a value of JSON or of rows with floating-point numbers rounded, and without SQL."""
    match value:
        case float():
            return f"{value:.{DIGITS}g}"
        case dict():
            return {name: rounded(each) for name, each in value.items() if name not in _SQL}
        case list() | tuple():
            return [rounded(each) for each in value]
    return value


_SQL = ("compiled_sql", "outer_sql")


@contextmanager
def compiled_at(moment: datetime.datetime) -> Iterator[None]:
    """Compile statements as if it were this moment."""

    class Then(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]  # one moment
            return moment.astimezone(tz)

    with patch.object(compiler, "datetime", Then):
        yield


# -- tables of other engines

_PHYSICAL = {
    "TINYINT": ("int2", "TINYINT"),
    "SMALLINT": ("int2", "SMALLINT"),
    "INTEGER": ("int4", "INTEGER"),
    "BIGINT": ("int8", "BIGINT"),
    "DOUBLE": ("float8", "DOUBLE"),
    "BOOLEAN": ("bool", "BOOLEAN"),
    "VARCHAR": ("text", "VARCHAR"),
    "DATE": ("date", "DATE"),
    "TIMESTAMP": ("timestamp", "TIMESTAMP"),
    "TIMESTAMPTZ": ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
    "TIME": ("time", ""),
    "UUID": ("uuid", ""),
    "UTINYINT": ("int2", "SMALLINT"),
    "USMALLINT": ("int4", "INTEGER"),
    "UINTEGER": ("int8", "BIGINT"),
    "UBIGINT": ("numeric", "DECIMAL(20,0)"),
}
"""How PostgreSQL and Spark store the values of a type; others, and "", are in no table there."""

Scans = dict[str, tuple[str, dict[str, TargetColumn]]]


def scans(session: Session) -> tuple[Scans, Scans]:
    """Return the scans of a session's private tables, as if PostgreSQL had them, and as if Spark had.

    A column that the engine does not read is there by its name and type: what only passes it on is written.
    """
    policy: Policy = session.policy
    catalog = session.database.engines().schema_database
    one: Scans = {}
    other: Scans = {}
    for table in policy.tables.values():
        if not table.public:
            columns = catalog.columns(table.name)
            for scans_of, scan in ((one, _in_postgres), (other, _in_spark)):
                sql, read = scan(table, columns, policy.longest_value)
                rest = {name: TargetColumn(f"y{i}", kind) for i, (name, kind) in enumerate(columns)}
                scans_of[table.name] = sql, {**rest, **read}
    return one, other


def _in_postgres(
    table: Table, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> tuple[str, dict[str, TargetColumn]]:
    stored = [(i, name, *_stored(kind)) for i, (name, kind) in enumerate(columns, 1)]
    found = CatalogTable(
        1,
        f'"public"."{table.name}"',
        "r",
        tuple(CatalogColumn(i, n, of, modifier, True, False) for i, n, of, modifier, _ in stored if of),
        children=False,
        indexes=(),
    )
    there = {column.name for column in found.columns}
    readable = [(n, k) for n, k in columns if n in there and postgres.is_readable_as(found, n, k)]
    return postgres.write_scan(table, found, tuple(readable), longest)


def _in_spark(
    table: Table, columns: tuple[tuple[str, SqlType], ...], longest: int
) -> tuple[str, dict[str, TargetColumn]]:
    physical = [(name, _stored(kind)[2]) for name, kind in columns if _stored(kind)[2]]
    words = dict(physical)
    readable = [(n, k) for n, k in columns if n in words and spark.is_readable_as(n, words[n], k)]
    return spark.write_scan(table, f"`default`.`{table.name}`", physical, tuple(readable), longest)


def _stored(kind: SqlType) -> tuple[str, int, str]:
    """Return the type in PostgreSQL with its modifier, and the type in Spark; "" where there is none."""
    of, word = _PHYSICAL.get(kind.name, ("", ""))
    if kind.name == "DECIMAL":
        of, word = "numeric", str(kind)
    if of == "numeric":
        precision, scale = map(int, re.findall(r"\d+", word))
        return of, ((precision << 16) | scale) + 4, word
    return of, -1, word
