"""Statements whose answers are known: random SELECTs over a small table, with what plain SQL asks instead.

Each unit has one row in the table, all values are within their bounds or are cut in the plain text, too, and
epsilon is a million: what is answered must be what DuckDB answers, up to the noise that the answer states.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import duckdb

EPSILON = 1_000_000
UNITS = 720


POLICY = """
[budget]
epsilon = 1e15
delta = 0.5
default_epsilon = {epsilon}
default_delta = 1e-9
ledger = "ledger.sqlite"

[tables.t]
source = "t.parquet"
unit = "u"
unique = [["u"]]

[tables.t.domain]
g = ["a", "b", "c d"]
b = "BOOLEAN"
k = {{ from = 0, to = 2 }}
d = {{ from = 2024-01-01, to = 2024-01-02 }}
e = ["x", "y"]
m = {{ from = 2024-01-01, to = 2024-01-03 }}

[tables.t.bounds]
x = {{ from = -100, to = 100 }}
y = {{ from = 0, to = 50 }}
z = {{ from = -10, to = 10 }}
i = {{ from = -1000, to = 1000 }}
f = {{ from = -100, to = 100 }}
"""


def write_data(folder: Path, rng: Random, *, sparse: bool) -> None:
    """Write the policy and its table; a sparse one has groups without rows."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SELECT setseed(?)", [rng.random()])
    where = "WHERE n % 7 IN (0, 3)" if sparse else ""
    every = f"""
    SELECT n AS u,
      (CASE WHEN n % 90 = 89 THEN NULL ELSE ['a', 'b', 'c d'][1 + n % 3] END) AS g,
      (n // 3) % 2 = 0 AS b,
      ((n // 6) % 3)::INTEGER AS k,
      DATE '2024-01-01' + ((n // 18) % 2)::INTEGER AS d,
      ['x', 'y'][1 + ((n // 36) % 2)] AS e,
      TIMESTAMP '2024-01-01 00:00:00' + INTERVAL (floor(random() * 2800)::INTEGER) MINUTE AS m,
      TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (floor(random() * 2800)::INTEGER) MINUTE AS p,
      CASE WHEN random() < .1 THEN NULL ELSE round((random() - .5) * 240, 3) END AS x,
      CASE WHEN random() < .1 THEN NULL ELSE floor(random() * 60)::INTEGER END AS y,
      CASE WHEN random() < .1 THEN NULL ELSE round(random() * 24 - 12, 2)::DECIMAL(9, 2) END AS z,
      CASE WHEN random() < .1 THEN NULL WHEN random() < .1 THEN 9223372036854775807
        WHEN random() < .1 THEN (-9223372036854775808)::BIGINT
        ELSE floor(random() * 3000 - 1500)::BIGINT END AS i,
      CASE WHEN random() < .2 THEN 'nan'::DOUBLE WHEN random() < .1 THEN 'inf'::DOUBLE
        WHEN random() < .1 THEN '-inf'::DOUBLE WHEN random() < .1 THEN NULL
        ELSE round((random() - .5) * 240, 2) END AS f,
      CASE WHEN random() < .2 THEN NULL ELSE ['p', 'q', '', 'it''s'][1 + n % 4] END AS w
    FROM range({UNITS}) AS r(n) {where}
    """
    connection.execute(f"COPY ({every}) TO '{folder / 't.parquet'}' (FORMAT parquet)")
    connection.close()
    (folder / "dpsql.toml").write_text(POLICY.format(epsilon=EPSILON))


@dataclass(frozen=True)
class Number:
    """An aggregate as it is asked, as plain SQL asks it, and how far the two may be apart."""

    text: str
    plain: str
    kind: str
    """`count`, `sum`, `ratio` or `quantile`."""
    step: float = 1e-6
    """How far the answer may be off beside its noise: the grid that values are rounded to."""
    low: str = ""
    high: str = ""
    """Of a quantile, the values between which it lies."""


@dataclass(frozen=True)
class Asked:
    """A statement, and the statement with the same answer on plain DuckDB."""

    text: str
    plain: str
    keys: int
    """How many of the first columns are keys."""
    numbers: tuple[Number, ...]
    titles: tuple[str, ...] = ()
    """The names of its columns, where they are known."""
    features: frozenset[str] = field(default_factory=frozenset)
    ends: str = ""
    """Plain SQL for the keys, and for the values between which each quantile lies; empty if there is none."""
    counted: bool = False
    """Whether it is the number of the groups."""


_VALUES = {
    "x": ("-100", "100", 1e-3),
    "y": ("0", "50", 1e-6),
    "z": ("-10", "10", 1e-6),
    "i": ("-1000", "1000", 1e-3),
    "f": ("-100", "100", 1e-3),
}
"""Columns with bounds, and the grid that their sums are rounded to."""
_ALIASES = ["n", "m", "n", "total", "n_low", "gap", "a b", "N", "q1", "n_1", '"', "ä"]
_KEYS = [
    *("g", "b", "k", "d", "e", "g", "b", "k", "d", "e"),
    *("upper(g)", "k + 1", "k % 2", "NOT b", "CASE WHEN k > 1 THEN 'hi' ELSE 'lo' END"),
    *("EXTRACT(day FROM d)", "g || '!'", "e = 'x'", "CAST(k AS VARCHAR)"),
]


_CONDITIONS = [
    *("y > 20", "x < 10", "w IS NOT NULL", "w = 'p'", "z >= 0", "b", "k <> 1", "g IN ('a', 'c d')"),
    *("x IS NULL", "d = DATE '2024-01-01'", "m < TIMESTAMP '2024-01-02 08:00:00'", "i > 0", "w LIKE '%s'"),
    *("i = 9223372036854775807", "i <= -9223372036854775807", "f > 0", "f = f", "isnan(f)"),
    *("i + 1 > 0", "i * 2 < 0", "i - y < 5", "abs(i) > 1500", "-i > 3", "i = -9223372036854775808"),
    *("p < TIMESTAMPTZ '2024-01-02 08:00:00+02'", "p >= '2024-01-01 12:00:00+05:30'"),
    "p BETWEEN '2024-01-01 00:00:00Z' AND TIMESTAMPTZ '2024-01-01 23:59:59-03:30'",
    "p AT TIME ZONE 'Europe/Berlin' < TIMESTAMP '2024-01-02 01:30:00'",
    "EXTRACT(hour FROM p AT TIME ZONE 'Asia/Kolkata') < 9",
    "m AT TIME ZONE 'America/New_York' > p",
]


class Maker:
    """Makes statements from a source of randomness."""

    def __init__(self, rng: Random, *, sparse: bool) -> None:
        self.rng, self.sparse = rng, sparse

    def condition(self) -> str:
        """Make a condition on a row."""
        return self.rng.choice(_CONDITIONS)

    def number(self) -> Number:
        """Make an aggregate."""
        rng = self.rng
        filtered = rng.random() < 0.2
        tail = f" FILTER (WHERE {self.condition()})" if filtered else ""
        column = rng.choice(["x", "y", "z", "i", "f"])
        _, _, step = _VALUES[column]
        cut = _cut(column)
        if column == "f":
            cut = f"CASE WHEN isnan(f) THEN NULL ELSE {cut} END"
        match rng.randrange(14):
            case 0 | 1:
                return _plainly(f"{rng.choice(['COUNT(*)', 'count( * )', 'COUNT()'])}{tail}", "count")
            case 2:
                counted = rng.choice(["x", "y", "w", "g", "u", "i", "f"])
                return _plainly(f"COUNT({counted}){tail}", "count")
            case 3:
                return _plainly(f"COUNT(DISTINCT {rng.choice(['u', 'u', 'g', 'k', 'e'])}){tail}", "count")
            case 4:
                condition = self.condition()
                asked = f"COUNT_IF({condition})"
                return Number(asked, f"COUNT(*) FILTER (WHERE {condition})", "count")
            case 5:
                condition = self.condition()
                asked = f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"
                return Number(asked, f"COUNT(*) FILTER (WHERE {condition})", "count")
            case 6 | 7 | 8:
                return Number(f"SUM({column}){tail}", f"COALESCE(SUM({cut}){tail}, 0)", "sum", step)
            case 9 | 10:
                return Number(f"AVG({column}){tail}", f"AVG({cut}){tail}", "ratio", step)
            case 11:
                name = rng.choice(["VAR_SAMP", "STDDEV", "VAR_POP", "stddev_samp"])
                return Number(f"{name}({column})", f"{name}({cut})", "moment", step)
            case _:
                share = rng.choice(["0.5", "0.25", "0.9"])
                name = rng.choice(["x", "y", "z"])
                inside = _cut(name)
                text = f"PERCENTILE_CONT({name}, {share})" if share != "0.5" else f"MEDIAN({name})"
                ends = [f"quantile_disc({inside}, {each})" for each in _around(share)]
                return Number(text, f"quantile_cont({inside}, {share})", "quantile", 0.1, *ends)

    def keys(self) -> list[str]:
        """Make the keys of GROUP BY; none for one group."""
        rng = self.rng
        if rng.random() < 0.15:
            return []
        found: list[str] = []
        for _ in range(rng.randint(1, 5)):
            key = rng.choice(_KEYS)
            if key not in found:
                found.append(key)
        if rng.random() < 0.3:
            found[0] = "CASE WHEN k > 0 THEN g END"
        return found

    def where(self, keys: int, numbers: list[Number]) -> str:
        """Make a WHERE clause that leaves values in each group of which an average is asked."""
        additive = all(number.kind in ("count", "sum") for number in numbers)
        if self.rng.random() > 0.25 or self.sparse or not (additive or keys <= 1):
            return ""
        condition = self.condition()
        return f" WHERE {condition}" if additive or "NULL" not in condition else ""

    def statement(self) -> Asked:
        """Make a statement."""
        rng, keys = self.rng, self.keys()
        numbers = [self.number() for _ in range(rng.randint(1, 6))]
        if self.sparse and len(keys) > 1:  # averages would be of one value, or of none
            numbers = [n for n in numbers if n.kind in ("count", "sum")] or [_plainly("COUNT(*)", "count")]
        if keys and rng.random() < 0.1:
            numbers[0] = numbers[-1]
        outer = rng.randrange(6) if not self.sparse else 0
        if outer == 5:
            numbers = [numbers[0], *[_plainly("COUNT(*)", "count")] * rng.randint(0, 1)]
        named = outer > 1 or rng.random() < 0.5
        apart = outer >= 3
        aliases: list[str | None] = []
        for place in range(len(keys) + len(numbers)):
            name = f"c{place}" if apart else rng.choice(_ALIASES)
            bare = place < len(keys) and keys[place].isidentifier() and not apart
            aliases.append(None if bare and rng.random() < 0.7 else name if named else None)
        where = self.where(len(keys), numbers) if outer <= 3 else ""
        group = ""
        if keys:
            places = ", ".join(str(i + 1) for i in range(len(keys)))
            group = f" GROUP BY {rng.choice([places, ', '.join(keys)])}"
        order = " ORDER BY 1" if keys and rng.random() < 0.2 else ""
        asked = [*keys, *(number.text for number in numbers)]
        plain = [*keys, *(number.plain for number in numbers)]
        ends = [end for number in numbers for end in (number.low, number.high) if end]
        between = f"SELECT {', '.join([*keys, *ends])} FROM t{where}{group}" if ends and not outer else ""
        text = f"SELECT {_listed(asked, aliases)} FROM t{where}{group}{order}"
        known = f"SELECT {_listed(plain, aliases)} FROM t{where}{group}"
        titles = tuple(
            alias if alias is not None else part for alias, part in zip(aliases, asked, strict=True)
        )
        features = {
            f"keys {len(keys)}",
            f"numbers {len(numbers)}",
            f"outer {outer}",
            *(n.kind for n in numbers),
        }
        if len({*titles}) < len(titles):
            features.add("equal names")
        made = Asked(text, known, len(keys), tuple(numbers), titles, frozenset(features), between)
        return self.around(made, outer) if outer else made

    def around(self, made: Asked, outer: int) -> Asked:
        """Put outer SQL of one of five forms around a statement."""
        rng, size = self.rng, made.keys + len(made.numbers)
        names = [f"c{i}" for i in range(size)]

        def both(form: str, keys: int, numbers: tuple[Number, ...], titles: tuple[str, ...] = ()) -> Asked:
            inner = [made.text, made.plain]
            asked, plain = (form.replace("$", text) for text in inner)
            return Asked(asked, plain, keys, numbers, titles, made.features)

        match outer:
            case 1:
                return both("SELECT * FROM ($) AS s", made.keys, made.numbers)
            case 2:
                return both("WITH q AS ($) SELECT * FROM q ORDER BY 1", made.keys, made.numbers)
            case 3:
                more = rng.choice(["", ", 1 AS one", ", upper('q') AS w"])
                listed = ", ".join(f"s.{name}" for name in names) + more
                ones = (Number("1", "1", "none"),) * bool(more)
                return both(f"SELECT {listed} FROM ($) AS s", made.keys, (*made.numbers, *ones))
            case 4:
                linear = [
                    (i, number) for i, number in enumerate(made.numbers) if number.kind in ("count", "sum")
                ]
                if not linear:
                    return both("SELECT * FROM ($) AS s", made.keys, made.numbers)
                kept = names[: rng.randint(0, made.keys)]
                sums = ", ".join(f"SUM(c{made.keys + i}) AS s{i}" for i, _ in linear)
                group = f" GROUP BY {', '.join(kept)}" if kept else ""
                listed = ", ".join([*kept, sums])
                titles = (*kept, *(f"s{i}" for i, _ in linear))
                return both(
                    f"SELECT {listed} FROM ($){group}", len(kept), tuple(n for _, n in linear), titles
                )
        place = made.keys + rng.randrange(len(made.numbers))
        number = made.numbers[place - made.keys]
        forms = [f"c{place} + 1", f"c{place} - c{place}", f"2 * c{place}", f"SUM(c{place}) OVER ()"]
        forms += [f"c{place} / COUNT(*) OVER ()", f"CASE WHEN c{place} > 3.5 THEN 1 ELSE 0 END"]
        form = rng.choice(forms)
        listed = ", ".join([*names[: made.keys], f"c{place}", f"{form} AS more"])
        titles = (*names[: made.keys], f"c{place}", "more")
        if made.keys and rng.random() < 0.5:
            call = rng.choice(["COUNT(*)", f"AVG(c{place})", f"MIN(c{place})", f"MAX(c{place})"])
            kind = "count" if call == "COUNT(*)" else "quantile" if number.kind == "quantile" else "of groups"
            step = 0.1 if number.kind == "moment" else number.step
            found = both(f"SELECT {call} AS v FROM ($)", 0, (Number(call, call, kind, step),))
            return replace(found, counted=call == "COUNT(*)")
        # A window's number of a group is not 0 where the group's own is.
        whole = replace(number, kind="window") if number.kind in ("count", "sum") else number
        if "COUNT" in form or "CASE" in form:
            whole = replace(number, kind="of groups" if number.kind != "quantile" else "quantile")
        return both(f"SELECT {listed} FROM ($)", made.keys, (number, whole), titles)


def _cut(column: str) -> str:
    """Write a column with its values cut to their bounds, as dpsql cuts them; NULL stays NULL."""
    low, high, _ = _VALUES[column]
    return f"CASE WHEN {column} < {low} THEN {low} WHEN {column} > {high} THEN {high} ELSE {column} END"


def _plainly(text: str, kind: str) -> Number:
    return Number(text, text, kind)


def _around(share: str) -> tuple[str, str]:
    """Return shares around one, by more than the ranks that a choice may be off in a small group."""
    value = float(share)
    return str(max(0.0, value - 0.34)), str(min(1.0, value + 0.34))


def _listed(parts: list[str], aliases: list[str | None]) -> str:
    quoted = ['"' + alias.replace('"', '""') + '"' if alias else "" for alias in aliases]
    return ", ".join(
        f"{part} AS {alias}" if alias else part for part, alias in zip(parts, quoted, strict=True)
    )
