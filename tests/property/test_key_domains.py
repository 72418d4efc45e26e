"""No group is lost: whatever a key computes from values inside declared domains is among its candidates.

Random declared domains, random rows inside them, random key expressions. The counts of all candidates,
before any noise, add up to the number of rows, those whose key is NULL among them. A value outside the
candidates would be missing from the sum. A key may be refused for want of a domain; how many must not be is
stated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.engines.duckdb.duckdb_owner import Inspector
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import private
from tests.support.world import write_world

WORDS = ("a", "B", "é", "É", "ß", " a ", "", "10", "x_y", "İ", "ǆ")
PARTS = ("year", "month", "day", "week", "quarter", "hour", "minute", "second")
OPTIONS = "OPTIONS (epsilon = 1)"


@dataclass
class World:
    """One policy, its rows, and what is asked of them."""

    session: Session
    inspector: Inspector
    plain: duckdb.DuckDBPyConnection

    def lost(self, key: str, source: str = "e") -> int | None:
        """How many rows are in no candidate's count, NULL among the candidates; None if it is refused."""
        selected = f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} {key} AS k, COUNT(*) AS n"
        sql = f"{selected} FROM {source} GROUP BY {key}"
        try:
            plan = private(self.session.prepare(sql))
        except QueryRefused:
            return None
        counts = self.inspector._connection(counts_only=False).execute(plan.plan.compiled.sql).fetchall()
        counts = [row for row in counts if not (plan.plan.outside and row[2])]
        keys = [row[0] for row in counts]
        assert len(set(keys)) == len(keys)
        (expected,) = self.plain.execute(f"SELECT COUNT(*) FROM {source}").fetchone() or (0,)
        return int(expected) - sum(row[1] for row in counts)


def make(folder: Path, rng: Random) -> World:
    """Draw domains of all kinds, and rows inside them, some of them NULL."""
    first = date(*rng.choice([(1969, 12, 30), (1899, 12, 31), (2024, 2, 27), (2023, 12, 30), (4, 1, 1)]))
    last = first + timedelta(days=rng.choice([0, 1, 8, 40]))
    days = f"{{ from = {first}, to = {last} }}"
    low = rng.choice([-5, 0, 7])
    words = rng.sample(WORDS, 5)
    plain = duckdb.connect()
    plain.execute("CREATE TABLE e (ts TIMESTAMP, ts2 TIMESTAMP, day DATE, n INTEGER, word VARCHAR, f DOUBLE)")
    micros = ((last - first).days + 1) * 86_400_000_000
    edges = [0, 1, micros - 1, micros // 2, 86_399_999_999, 3_600_000_000 - 1, 59_999_999, 999_999]
    rows = []
    for i in range(300):
        at = [edges[(i + j) % len(edges)] if i < 40 else rng.randrange(micros) for j in range(2)]
        row: list[object] = [f"{first}", *at, rng.randrange((last - first).days + 1), low + rng.randrange(12)]
        row += [rng.choice(words), rng.choice([0.5, -0.0, 2.0])]
        rows.append(row)
    plain.executemany(
        "INSERT INTO e SELECT CAST($1 AS TIMESTAMP) + to_microseconds($2), CAST($1 AS TIMESTAMP) "
        "+ to_microseconds($3), CAST($1 AS DATE) + CAST($4 AS INTEGER), $5, $6, $7",
        rows,
    )
    for column in ("ts", "ts2", "day", "n", "word", "f"):
        plain.execute(f"UPDATE e SET {column} = NULL WHERE rowid % 13 = {rng.randrange(13)}")
    plain.execute(f"COPY e TO '{folder / 'e.parquet'}' (FORMAT parquet)")
    listed = ", ".join(f'"{word}"' for word in words)
    (folder / "dpsql.toml").write_text(
        "[budget]\nepsilon = 1\ndelta = 1e-3\n[tables.e]\nsource = 'e.parquet'\nunit = 'ROW'\n"
        f"[tables.e.domain]\nts = {days}\nts2 = {days}\nday = {days}\n"
        f"n = {{ from = {low}, to = {low + 11} }}\nword = [{listed}]\nf = [0.5, 0.0, 2.0]\n",
        "utf-8",
    )
    policy = load(folder / "dpsql.toml")
    return World(Session(policy), Inspector(policy), plain)


class Keys:
    """Random key expressions over the columns of `e`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def part(self) -> str:
        return self.rng.choice(PARTS)

    def moment(self) -> str:
        pick = self.rng.choice
        column = pick(["ts", "ts", "ts2", "day"])
        return pick(
            [
                f"date_trunc('{self.part()}', {column})",
                f"date_trunc('{self.part()}', date_trunc('{self.part()}', {column}))",
                f"time_bucket(INTERVAL {pick([1, 7, 15, 36, 90])} {pick(PARTS)}, {column})",
                f"date_trunc('{self.part()}', {column}) + INTERVAL '{pick([1, -3, 40])}' {pick(PARTS)}",
                f"date_trunc('{self.part()}', {column} + INTERVAL {pick([1, 30])} {pick(PARTS)})",
                f"CAST({column} AS DATE)",
                f"last_day({column})",
                column,
            ]
        )

    def number(self, depth: int = 0) -> str:
        pick = self.rng.choice
        options = [
            f"date_part('{pick([*PARTS, 'dow', 'doy', 'isodow', 'epoch', 'millisecond', 'isoyear'])}', "
            f"{self.moment()})",
            f"{pick(['hour', 'minute', 'second', 'dayofyear', 'isodow'])}({pick(['ts', 'ts2'])})",
            f"date_diff('{self.part()}', ts, {pick(['ts2', 'TIMESTAMP 2000', 'CAST(ts AS DATE)'])})".replace(
                "TIMESTAMP 2000", "TIMESTAMP '2000-02-29 23:59:59'"
            ),
            f"length({self.text(depth + 1)})",
            f"n * {pick([2, -1, 7])}",
            f"n // {pick([2, 5])}",
            f"n % {pick([3, 4])}",
            "n",
            "f * 2",
            f"floor(n / {pick([2, 3])})",
            f"round(f + {pick([0, 1])})",
        ]
        if depth < 2:
            options.append(f"{self.number(depth + 1)} + {self.number(depth + 1)}")
            options.append(f"CASE WHEN {self.condition(depth + 1)} THEN {self.number(depth + 1)} ELSE n END")
        return pick(options)

    def condition(self, depth: int = 0) -> str:
        pick = self.rng.choice
        return pick(
            [
                f"{self.number(depth + 1)} > {pick([0, 3, 12])}",
                f"word {pick(['=', '<', '<>'])} '{pick(['a', 'B', 'é'])}'",
                "ts < TIMESTAMP '2024-02-28 12:00:00'",
                "CAST(ts AS DATE) = day",
                "ts IS NULL",
            ]
        )

    def text(self, depth: int = 0) -> str:
        pick = self.rng.choice
        codes = [
            pick(["%Y", "%m", "%d", "%H", "%I", "%p", "%M", "%S", "%j", "%a", "%b", "%U", "%W", "%V", "%G"])
        ]
        codes += pick([[], ["-%d"], [" %H:%M"], ["%%"], ["%-H"], ["%f"], ["%c"], ["%x"], ["%X"], ["%n"]])
        options = [
            f"strftime({self.moment()}, '{''.join(codes)}')",
            f"{pick(['upper', 'lower', 'trim', 'reverse', 'dayname', 'md5'])}(word)".replace(
                "dayname(word)", "dayname(ts)"
            ),
            f"substr(word, 1, {pick([0, 1, 2])})",
            f"CAST({self.moment()} AS VARCHAR)",
            f"COALESCE(word, '{pick(['none', 'a'])}')",
            "NULLIF(word, 'a')",
        ]
        if depth < 2:
            options.append(f"{self.text(depth + 1)} || {self.text(depth + 1)}")
            options.append(f"COALESCE({self.text(depth + 1)}, 'none')")
            options.append(f"CAST({self.number(depth + 1)} AS VARCHAR)")
            options.append(f"CASE WHEN {self.condition(depth + 1)} THEN {self.text(depth + 1)} END")
        return pick(options)

    def any(self) -> str:
        return self.rng.choice([self.moment, self.number, self.text, self.condition])()


SOURCES = (
    *("e", "e", "e", "(SELECT * FROM e) AS e"),
    "(SELECT ts, date_trunc('hour', ts2) AS ts2, day, n + 1 AS n, upper(word) AS word, f FROM e) AS e",
    "(SELECT ts, CAST(day AS TIMESTAMP) AS ts2, CAST(ts AS DATE) AS day, hour(ts) AS n, word, f FROM e) AS e",
)
"""What the keys are computed over: the columns are those of `e`, or have domains computed from theirs."""

SURE = (
    *(f"date_trunc('{part}', {column})" for part in PARTS[:6] for column in ("ts", "day") if part != "hour"),
    "date_trunc('hour', ts)",
    "date_trunc('minute', ts)",
    "CAST(ts AS DATE)",
    "year(ts)",
    "strftime(ts, '%Y-%m-%d %H')",
    "time_bucket(INTERVAL 15 MINUTE, ts)",
    "hour(ts) // 6",
    "date_diff('day', ts, TIMESTAMP '2024-01-01')",
    "CASE WHEN hour(ts) < 12 THEN word ELSE dayname(ts2) END",
    "COALESCE(strftime(ts, '%H'), word)",
    "date_trunc('month', date_trunc('hour', ts))",
    "CASE WHEN ts < TIMESTAMP '2024-01-01' THEN word END",
)
"""These have a public domain of their own."""

WHOLE = (
    "ts",
    "CAST(ts AS VARCHAR)",
    "epoch(ts)",
    "date_part('millisecond', ts)",
    "ts + INTERVAL 30 MINUTE",
    "date_trunc('hour', ts + INTERVAL 30 MINUTE)",
    "time_bucket(INTERVAL 90 MILLISECOND, ts)",
    "strftime(ts, '%f')",
    "date_sub('day', ts, TIMESTAMP '2024-01-01')",
)
"""These see more of a TIMESTAMP than can be listed."""


def test_no_group_is_lost(tmp_path: Path) -> None:
    campaign(1, tmp_path, keys=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_no_group_is_lost_in_a_long_campaign(seed: int, tmp_path: Path) -> None:
    campaign(seed, tmp_path, keys=300)


def campaign(seed: int, folder: Path, keys: int) -> None:
    rng = Random(seed)
    world = make(folder, rng)
    for key in SURE:
        assert world.lost(key) == 0, key
    for key in WHOLE:
        assert world.lost(key) is None, key
    draw, answered = Keys(rng), 0
    for _ in range(keys):
        key = draw.any()
        source = rng.choice(SOURCES)
        lost = world.lost(key, source)
        assert not lost, (key, source)
        answered += lost == 0
    assert answered > keys // 4


def test_a_time_of_day_may_be_the_24th_hour(tmp_path: Path) -> None:
    write_world(
        tmp_path,
        "[budget]\nepsilon = 1\n[tables.e]\nsource = 'e.parquet'\nunit = 'ROW'\n",
        e="SELECT i AS u, TIME '24:00:00' AS t FROM range(9) AS r(i)",
    )
    policy = load(tmp_path / "dpsql.toml")
    plain = duckdb.connect()
    plain.execute(f"CREATE TABLE e AS FROM '{tmp_path}/e.parquet'")
    assert World(Session(policy), Inspector(policy), plain).lost("date_part('hour', t)") == 0


def test_the_last_day_counts_until_midnight_and_no_longer(tmp_path: Path) -> None:
    write_world(
        tmp_path,
        "[budget]\nepsilon = 1\n[tables.e]\nsource = 'e.parquet'\nunit = 'ROW'\n"
        "[tables.e.domain]\nts = { from = 2024-01-01, to = 2024-01-31 }\n",
        e="SELECT unnest([TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-31 23:59:59.999999', "
        "TIMESTAMP '2024-02-01', TIMESTAMP '2023-12-31 23:59:59.999999', NULL]) AS ts",
    )
    policy = load(tmp_path / "dpsql.toml")
    assert Inspector(policy).count_outside("e", "ts") == (2, 2, 1)
    plain = duckdb.connect()
    plain.execute(
        f"CREATE TABLE e AS FROM '{tmp_path}/e.parquet' WHERE ts IS NULL OR year(ts) = 2024 AND month(ts) = 1"
    )
    whole = World(Session(policy), Inspector(policy), plain)
    for key in ("CAST(ts AS DATE)", "date_trunc('minute', ts)", "strftime(ts, '%H:%M')"):
        # The two rows outside are in no group where the group itself is outside.
        assert whole.lost(key) == (0 if "H" not in key else -2), key


def test_a_key_that_sees_too_much_of_time_is_refused_with_one_that_does_not(tmp_path: Path) -> None:
    session = make(tmp_path, Random(3)).session
    asked = f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} ts AS k, COUNT(*) AS n FROM e GROUP BY ts"
    with pytest.raises(
        QueryRefused, match="ts has a declared range of days, and k has too many values in it"
    ) as refused:
        session.prepare(asked)
    assert refused.value.hint == "GROUP BY date_trunc('day', ts)"
    assert (refused.value.line, asked[(refused.value.col or 0) - 1 :]) == (1, "ts")
    assert private(
        session.prepare(asked.replace("ts AS k", "date_trunc('day', ts) AS k").replace("BY ts", "BY k"))
    ).plan


@pytest.mark.parametrize(
    ("kind", "domain", "words"),
    [
        ("DOUBLE", "{ from = 0, to = 9 }", "a range of integers does not fit a column of DOUBLE"),
        ("VARCHAR", "{ from = 2024-01-01, to = 2024-01-31 }", "a range of dates does not fit"),
        ("VARCHAR", '"ENUM"', "is VARCHAR, not ENUM"),
        ("INTEGER", '"BOOLEAN"', "is INTEGER, not BOOLEAN"),
        ("TIMESTAMP", "[2024-01-01, 2024-01-02]", "a date without a time is not a TIMESTAMP"),
        ("TIMESTAMP", '["2024-01-01"]', "a date without a time is not a TIMESTAMP"),
        ("TIMESTAMP", "{ from = 0, to = 9 }", "a range of integers does not fit a column of TIMESTAMP"),
    ],
)
def test_a_domain_of_another_type_is_refused_where_the_source_says_the_type(
    kind: str, domain: str, words: str, tmp_path: Path
) -> None:
    write_world(
        tmp_path,
        "[budget]\nepsilon = 1\n[tables.e]\nsource = 'e.parquet'\nunit = 'u'\n"
        f"[tables.e.domain]\nx = {domain}\n",
        e=f"SELECT 1 AS u, CAST(NULL AS {kind}) AS x",
    )
    with pytest.raises(Exception, match=re.escape(words)):
        Inspector(load(tmp_path / "dpsql.toml"))
