"""Every allowed form, over a private table of hostile values, in every place where a statement computes.

What fails here at run time would fail for one unit's row and not for another's: a (form, value) pair is one
form over one row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa

from dpsql.analysis import analyse
from dpsql.engines import open_engine
from dpsql.errors import OperationalError, QueryRefused
from dpsql.kernel.tree import Form
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from fuzz.calls import literals
from fuzz.hostile import call, column_kinds, forms, values, variants

__all__ = ["PLACES", "Hostile", "Place", "syntax", "texts"]

TOML = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[database]
path = "own.duckdb"
[tables.t]
source = "t"
unit = "user_id"
[tables.p]
source = "p"
public = true
"""
PATTERNS = [
    *(r"'\C'", r"'a\C'", r"'\B'", "'x*'", "'(a|é)*'", "'^.{0,100}$'", "'[^a]'", r"'\pL+'", "'(?i)É'", "'.'"),
    *("'(.)(.)?'", "'$'", r"'\\'", "'(?s).*'", r"'\x{1F600}'", "'[[:word:]]+'", r"'\b'", "'a{2}|'", "'%é_'"),
]
MORE = {
    "INTEGER": ["0", "-1", "3", "2147483647", "-2147483647", "-20", "300"],
    "INTERVAL": [
        "INTERVAL 1 DAY",
        "INTERVAL 170000000 YEAR",
        "INTERVAL 999999999 MONTH",
        "INTERVAL 0 SECOND",
    ],
    "SPAN": ["INTERVAL 1 DAY", "INTERVAL 3 MONTH", "INTERVAL 100000 YEAR", "INTERVAL 1 MICROSECOND"],
    "PATH": ["'$.a'", "'$.b[0]'", "'$'", "'$[#-1]'", "'/a/0'", "'é'"],
    "LENGTH": ["0", "3", "1000"],
    "PAD": ["'-'", "'é'"],
    "REWRITE": ["''", "'x'", "'é-'", "'\\0\\0'"],
}
FORMATS = ["'%Y-%m-%d'", "'%A %B %j %U %W %u'", "'%s %f %g %n'", "'%G-%V'", "'%c'", "'é%%'", "'%-d %I %p'"]
RANGES = [(1, 128), (128, 0x250), (0x300, 0x370), (0x590, 0x700), (0x2000, 0x2070), (0x3040, 0x4DB5)]
RANGES += ((0x1F300, 0x1FB00), (0xFE00, 0x10000), (0xE0000, 0x110000), (0, 0xD800))


@dataclass(frozen=True)
class Place:
    """Where expressions stand: how many at once, and the statement around them."""

    name: str
    together: int
    write: Callable[[Sequence[str]], str]


def _listed(pattern: str, texts: Sequence[str], between: str = ", ") -> str:
    return between.join(pattern.format(i=i, e=e) for i, e in enumerate(texts))


def _over(inner: str, texts: Sequence[str], rest: str = "") -> str:
    """Count units of a subquery that selects something of each expression as a0, a1, .."""
    kept = _listed("a{i} IS NOT NULL", texts, " OR ")
    selected = _listed(f"{inner} AS a{{i}}", texts)
    source = f"(SELECT user_id, {selected} FROM t{rest}) AS s"
    return f"SELECT COUNT(DISTINCT user_id) AS n FROM {source} WHERE {kept}"


COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM t"
PLACES = (
    Place("WHERE", 12, lambda e: f"{COUNT} WHERE {_listed('({e}) IS NOT NULL', e, ' OR ')}"),
    Place(
        "FILTER",
        16,
        lambda e: (
            f"SELECT {_listed('COUNT(DISTINCT user_id) FILTER (WHERE ({e}) IS NOT NULL) AS n{i}', e)} FROM t"
        ),
    ),
    Place(
        "key",
        1,
        lambda e: (
            f"SELECT CAST({e[0]} AS VARCHAR) AS k, COUNT(DISTINCT user_id) AS n FROM t WHERE "
            f"CAST({e[0]} AS VARCHAR) IN ('a', '1', 'true', 'é') GROUP BY k ORDER BY n DESC LIMIT 2"
        ),
    ),
    Place("selected", 12, lambda e: _over("{e}", e)),
    Place("aggregate", 4, lambda e: _over("MAX({e})", e, " GROUP BY user_id")),
    Place("aggregate's order", 4, lambda e: _over('FIRST("BIGINT 0" ORDER BY {e})', e, " GROUP BY user_id")),
    Place(
        "aggregate's FILTER",
        4,
        lambda e: _over("COUNT(*) FILTER (WHERE ({e}) IS NULL)", e, " GROUP BY user_id"),
    ),
    Place(
        "HAVING",
        4,
        lambda e: (
            "SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id FROM t GROUP BY user_id HAVING "
            f"{_listed('MIN({e}) IS NOT NULL', e, ' OR ')}) AS s"
        ),
    ),
    Place("window", 3, lambda e: _over("LAG({e}) OVER (PARTITION BY user_id ORDER BY {e})", e)),
    Place("window's parts", 3, lambda e: _over("COUNT(*) OVER (PARTITION BY user_id, {e})", e)),
    Place("join", 1, lambda e: f"{COUNT} JOIN p ON p.k = CAST({e[0]} AS VARCHAR)"),
    Place(
        "shared",
        3,
        lambda e: (
            f"{COUNT} WHERE {_listed('({e}) IS NOT NULL', e, ' OR ')} OR "
            f"{_listed('length(CAST({e} AS VARCHAR)) > 1', e, ' OR ')} OR "
            f"{_listed('upper(CAST({e} AS VARCHAR)) <> lower(CAST({e} AS VARCHAR))', e, ' OR ')}"
        ),
    ),
)


def _choices(form: Form, want: str, place: int) -> list[str]:
    if want.startswith("="):
        return literals(form.name, want, place)
    if want != "#VARCHAR":
        return MORE[want[1:]]
    if form.name in ("strftime", "strptime", "try_strptime"):
        return FORMATS
    return PATTERNS if place == 1 else literals(form.name, want, place)


def texts() -> Iterator[str]:
    """Write each form as an analyst does, with each of its literals, over the table's columns."""
    for form in forms():
        for kinds in variants(form):
            choices = [
                _choices(form, want, place) if want[0] in "=#" else [f'"{want} {place % 3}"']
                for place, want in enumerate(kinds)
            ]
            for i in range(max(map(len, choices))):
                yield call(form, [c[i % len(c)] for c in choices])


def syntax() -> Iterator[str]:
    """Write what has a syntax of its own: elements, casts, choices, lambdas, intervals, nested calls."""
    kinds = column_kinds()
    for a in kinds:
        yield from (f'CAST("{a} 0" AS {b})' for b in kinds if "[" not in b)
        yield f'COALESCE("{a} 0", "{a} 1")'
        yield f'NULLIF("{a} 0", "{a} 1")'
        yield f'CASE WHEN "{a} 0" < "{a} 1" THEN "{a} 2" ELSE "{a} 0" END'
    yield from (f'"VARCHAR 0" SIMILAR TO {p}' for p in PATTERNS)
    yield from (f"\"VARCHAR 0\" LIKE {p} ESCAPE '$'" for p in ("'a$%'", "'é$_%'", "'%%%%'"))
    yield from (f'"VARCHAR 0"[{i}]' for i in ("1", "-3", '"BIGINT 0"', "2:3", "-9:9"))
    yield from (f'"{k}[] 0"[{i}]' for k in ("VARCHAR", "BIGINT") for i in ("1", '"BIGINT 0"', "2:3"))
    yield from (f'"VARCHAR 0" ->> {p}' for p in ("'$.a[0]'", "'b'", "'$.é'"))
    yield from (f'"{k} 0" {op} {n}' for k in ("DATE", "TIMESTAMP") for op in "+-" for n in MORE["INTERVAL"])
    yield 'list_transform("VARCHAR[] 0", lambda p: CAST(p AS BIGINT))'
    yield 'list_filter("BIGINT[] 0", lambda p: p * p > p + 1)'
    yield 'list_transform("BIGINT[] 0", lambda p: p // (p - 1))'
    yield "OVERLAY(\"VARCHAR 0\" PLACING 'é' FROM 3 FOR 900000000)"
    yield 'TRIM(BOTH "VARCHAR 0" FROM "VARCHAR 1")'
    yield 'SUBSTRING("VARCHAR 0" FROM "BIGINT 0" FOR "BIGINT 1")'
    yield 'chr("INTEGER 0") || upper("VARCHAR 0")'
    yield 'date_trunc(\'month\', "DATE 0" + "INTEGER 0") - "DATE 1"'


@dataclass
class Hostile:
    """A private DuckDB table of hostile values, its session's shell and engine, and what ran on it."""

    folder: Path
    rows: int
    seed: int = 1
    pairs: int = 0
    refused: int = 0
    ran: dict[str, int] = field(default_factory=dict)
    """Expressions that ran, by place."""

    def __post_init__(self) -> None:
        rng = Random(self.seed)
        with duckdb.connect(str(self.folder / "own.duckdb")) as made:
            made.execute(f"SELECT setseed({rng.random():.3f})").fetchall()
            made.register("strings", pa.table({"v": [_text(rng) for _ in range(self.rows)]}))
            columns = [
                f'{_column(kind, place)} AS "{kind} {place}"' for kind in column_kinds() for place in range(3)
            ]
            made.execute("CREATE TABLE wild AS SELECT v FROM strings")
            source = f"SELECT i % 7 AS user_id, {', '.join(columns)} FROM range({self.rows}) AS r(i)"
            made.execute(f"CREATE TABLE t AS {source}")
            made.execute("DROP TABLE wild")
            made.execute("CREATE TABLE p AS SELECT unnest(['a', '1', 'é', 'true', '']) AS k")
        (self.folder / "dpsql.toml").write_text(TOML)
        self.policy = load(self.folder / "dpsql.toml")
        self.engine = open_engine(self.policy)
        self.schema_database = self.engine.schema_database

    def close(self) -> None:
        """Let go of the databases."""
        self.engine.close()
        self.schema_database.close()

    def failing(self, expressions: Sequence[str], place: Place) -> list[str]:
        """Run expressions in a place; return those at which the engine fails."""
        found: list[str] = []
        for begin in range(0, len(expressions), place.together):
            found += self._failing(expressions[begin : begin + place.together], place)
        return found

    def _failing(self, expressions: Sequence[str], place: Place) -> list[str]:
        """Run them at once; halve those that fail, or that are refused together with others."""
        failed = False
        try:
            failed = not self.runs(place.write(expressions))
            if not failed:
                self.pairs += self.rows * len(expressions)
                self.ran[place.name] = self.ran.get(place.name, 0) + len(expressions)
                return []
        except QueryRefused:
            self.refused += len(expressions) == 1
        half = len(expressions) // 2
        parts = [expressions[:half], expressions[half:]] if half else []
        found = [failing for part in parts for failing in self._failing(part, place)]
        return found or ([f"{place.name}: {' and '.join(expressions)}"] if failed else [])

    def runs(self, statement: str) -> bool:
        """Compile a statement and count by it; whether the engine gets to the end."""
        query = parse(statement)
        assert isinstance(query, Query)
        plan = analyse(query, self.policy, self.schema_database, Options(epsilon=Fraction(1)))
        try:
            self.engine.count(plan.compiled)
        except OperationalError:
            return False
        return True


def _column(kind: str, place: int) -> str:
    """Pick one of a type's nasty values, or a random one, for each row."""
    listed = f"(SELECT list(v) FROM ({values(kind)}))"
    nasty = f"{listed}[1 + floor(random() * len({listed}))::INTEGER]"
    wild = _WILD.get(kind)
    return f"CASE WHEN random() < 0.5 THEN {wild} ELSE {nasty} END" if wild else nasty


_ANY = "((random() - 0.5) * {}::DOUBLE)"
_STRINGS = "(SELECT list(v) FROM wild)[1 + floor(random() * (SELECT COUNT(*) FROM wild))::INTEGER]"
_WILD = {
    "BIGINT": f"TRY_CAST({_ANY.format('pow(2, floor(random() * 64))')} AS BIGINT)",
    "INTEGER": f"TRY_CAST({_ANY.format('pow(2, floor(random() * 32))')} AS INTEGER)",
    "DOUBLE": f"{_ANY.format('pow(2, floor(random() * 2040) - 1020)')}",
    "DATE": f"DATE '1970-01-01' + {_ANY.format('pow(2, floor(random() * 32))')}::INTEGER",
    "TIMESTAMP": f"make_timestamp({_ANY.format('pow(2, floor(random() * 63))')}::BIGINT)",
    "VARCHAR": _STRINGS,
}


def _text(rng: Random) -> str:
    length = rng.choice((0, 1, 1, 2, 3, 5, 8, 20, 60, 300))
    if rng.random() < 0.3:  # of what formats, paths and patterns are made
        return "".join(rng.choice("0123456789-+.:eE{}[]\",'aAé%_\\$^*() /T\x00") for _ in range(length))
    low, high = rng.choice(RANGES)
    text = "".join(chr(rng.randrange(low, high)) for _ in range(length))
    return text + rng.choice(("", "", "\u0301", "\U0001f600", "\u200d\ufe0f", " ", "a"))
