"""Random statements and databases in which NULL, outside values, paths, instants and existence meet.

The tables are those of a path of three foreign keys; keys have values that no domain lists, and NULL;
instants lie around a change of the clocks, one of the times is of a declared zone, and texts carry offsets.
Each statement is asked in two forms: with bounds that cut, for the removals, and with none that does, for
what plain DuckDB answers over the rows that have a unit, joined by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

__all__ = [
    "COLUMNS",
    "DATABASES",
    "POLICY",
    "PUBLIC",
    "TABLES",
    "ZONE",
    "Asked",
    "Rows",
    "asked",
    "draw",
    "owned",
]

TABLES = ("encounters", "orders", "results", "notes")
COLUMNS = {
    "encounters": {
        "encounter_id": "BIGINT",
        "patient_id": "BIGINT",
        "d": "INTEGER",
        "k": "VARCHAR",
        "x": "BIGINT",
    },
    "orders": {
        "order_id": "BIGINT",
        "encounter_id": "INTEGER",
        "d": "INTEGER",
        "k": "VARCHAR",
        "x": "BIGINT",
        "sure": "VARCHAR",
    },
    "results": {
        "result_id": "BIGINT",
        "order_id": "BIGINT",
        "d": "INTEGER",
        "k": "VARCHAR",
        "x": "BIGINT",
        "seen": "TIMESTAMPTZ",
        "here": "TIMESTAMPTZ",
        "w": "VARCHAR",
    },
    "notes": {
        "result_id": "BIGINT",
        "d": "INTEGER",
        "k": "VARCHAR",
        "x": "BIGINT",
        "seen": "TIMESTAMPTZ",
        "w": "VARCHAR",
    },
}
"""The columns as analysts see them; `here` is stored as the time of Kathmandu."""
DATABASES = 20
"""So many databases lie in the tables, each with a number `d` and with units and keys of its own."""
HOPS = {"orders": "encounter_id", "results": "order_id", "notes": "result_id"}
"""The column by which each table finds its unit, in the table before it."""
PUBLIC = "VALUES ('a', 'one', 0), ('b', NULL, 1), ('z', 'two', 2), (NULL, 'three', 3), ('q', 'one', NULL)"
"""The rows of the public table `p`, with the columns `a`, `b` and `c`."""
ZONE = "Asia/Kathmandu"


def _policy() -> str:
    text = '[budget]\nepsilon = 1\ndelta = 0.1\nledger = "l.sqlite"\n[defaults]\nrows_per_unit = 3\n'
    days = "{ from = 2024-03-30, to = 2024-04-01 }"
    for before, (table, columns) in zip((None, *TABLES), COLUMNS.items(), strict=False):
        first = next(iter(columns))
        unit, domain = '"patient_id"\nunit_kind = "patient"', 'k = ["a", "b", "c"]\n'
        if before is not None:
            unit = f'{{ via = "{HOPS[table]}", table = "{before}", column = "{HOPS[table]}" }}'
        more = f'unique = [["{first}"]]\n' if table != TABLES[-1] else ""
        more += 'not_null = ["d", "sure"]\n' if "sure" in columns else 'not_null = ["d"]\n'
        listed = ", ".join(f'{name} = "{kind}"' for name, kind in columns.items())
        more += f"columns = {{ {listed} }}\n"
        more += f'zone = {{ here = "{ZONE}" }}\n' if "here" in columns else ""
        domain += f"d = {{ from = 0, to = {DATABASES - 1}, complete = true }}\n"
        domain += "x = { from = 0, to = 3 }\n" if "seen" in columns else ""
        domain += "".join(f"{name} = {days}\n" for name in ("seen", "here") if name in columns)
        domain += 'sure = { values = ["s", "t"], complete = true }\n' if "sure" in columns else ""
        source = f"{table}.{'csv' if table == 'notes' else 'parquet'}"
        text += (
            f'[tables.{table}]\nsource = "{source}"\nunit = {unit}\n{more}[tables.{table}.domain]\n{domain}'
        )
    return text + '[tables.p]\nsource = "p.parquet"\npublic = true\nunique = [["a"]]\n'


POLICY = _policy()

# -- databases

Rows = dict[str, list[dict[str, object]]]
"""The rows of each table; `owner` is the unit that a row leads to. Instants are times of UTC."""
_INSTANTS = (
    datetime(2024, 3, 31, 1),  # clocks change in Berlin
    datetime(2024, 3, 31, 0, 59, 59, 999999),
    datetime(2024, 3, 30),
    datetime(2024, 3, 30, 18, 15),  # midnight in Kathmandu
)
_BEYOND = (datetime(2024, 3, 29, 23, 59), datetime(2024, 4, 2), datetime(2024, 4, 1, 23, 59, 59))


def draw(rng: Random, units: int) -> tuple[Rows, int]:
    """Draw the databases, and which of them has rows in no group: one alone, whose number it is."""
    rows, beyond = Rows({table: [] for table in TABLES}), rng.randrange(DATABASES)
    for d in range(DATABASES):
        for table, made in _database(rng, units, d, beyond=d == beyond).items():
            rows[table] += made
    return rows, beyond


def _database(rng: Random, units: int, d: int, *, beyond: bool) -> Rows:
    """Draw one: rows of few units or mostly of one, chains that end early."""
    heavy, rows = rng.choice((0.0, 0.5, 0.85)), Rows()
    for table, columns in COLUMNS.items():
        before = list(rows.values())[-1] if rows else []
        rows[table] = []
        for number in range(rng.choice((12, 20) if beyond else (0, 6, 12, 20))):
            row: dict[str, object] = {name: _cell(rng, name, beyond=beyond) for name in columns} | {"d": d}
            if table in HOPS:
                above = rng.choice([*before, None]) if before else None
                row[HOPS[table]] = None if above is None else above[HOPS[table]]
                row["owner"] = None if above is None else above["owner"]
            else:
                unit = 0 if rng.random() < heavy else rng.randrange(units)
                row["owner"] = row["patient_id"] = None if rng.random() < 0.1 else 100 * d + unit
            if table != TABLES[-1]:
                row[next(iter(columns))] = 1000 * d + number
            rows[table].append(row)
    return rows


def _cell(rng: Random, name: str, *, beyond: bool) -> object:
    if name == "sure":
        return rng.choice("st")
    if rng.random() < 0.15:
        return None
    if name in ("seen", "here"):
        if rng.random() < 0.6:
            return rng.choice((*_INSTANTS, *(_BEYOND if beyond else ())))
        return datetime(2024, 3, 30) + timedelta(minutes=rng.randrange(2 * 1440))
    values = {"k": "aabc", "x": (0, 1, 2, 3), "w": "uvv"}.get(name, (0,))
    return rng.choice(
        ("z" if name == "k" else 9,) if beyond and name in "kx" and rng.random() < 0.5 else values
    )


def owned() -> str:
    """Write the tables that a statement means: rows that lead to a unit, by joins along the path."""
    made = ["CREATE OR REPLACE VIEW encounters AS FROM encounters_all WHERE patient_id IS NOT NULL"]
    for before, table in pairwise(TABLES):
        key = HOPS[table]
        joined = f"SELECT c.*, e.patient_id FROM {table}_all c JOIN {before} e ON c.{key} = e.{key}"
        made.append(f"CREATE OR REPLACE VIEW {table} AS {joined}")
    return ";".join(made)


# -- statements


@dataclass(frozen=True)
class Asked:
    """A statement in its two forms, the plain SQL of the second, and the constructs in it."""

    claim: str
    """The statement of one database."""
    tight: str
    """The same of all: with their number as the first key."""
    loose: str
    plain: str
    keys: int
    declared: bool
    saw: frozenset[str]


_KEYS = {
    "k": ("t.k", "upper(t.k)", "nullif(t.k, 'a')", "CASE WHEN t.x > 1 THEN t.k END", "COALESCE(t.k, 'none')"),
    "x": ("t.x > 1", "t.x IS NULL"),
    "sure": ("t.sure", "GREATEST(t.k, t.sure)", "CASE WHEN t.sure = 's' THEN t.k END"),
    "seen": (
        *("t.x", "t.x % 2", "IF(t.k = 'a', t.x, NULL)", "t.x // 2"),
        "EXTRACT(HOUR FROM t.seen AT TIME ZONE 'Europe/Berlin')",
        "CAST(t.seen AT TIME ZONE 'Asia/Kolkata' AS DATE)",
        "CAST(t.seen AS DATE)",
        "EXTRACT(DAY FROM t.seen AT TIME ZONE 'America/St_Johns')",
        "date_trunc('day', t.seen AT TIME ZONE 'Europe/Berlin')",
        "t.seen AT TIME ZONE 'Europe/Berlin' >= TIMESTAMP '2024-03-31 03:00:00'",
    ),
    "here": (
        f"CAST(t.here AT TIME ZONE '{ZONE}' AS DATE)",
        "EXTRACT(DOW FROM t.here AT TIME ZONE 'UTC')",
        "t.here < '2024-03-31 02:00:00+05:45'",
    ),
}
_OF_P = ("p.b", "p.c", "COALESCE(p.b, t.k)", "p.c > 1", "CASE WHEN t.x > 1 THEN p.b END")
_WHERE = {
    "k": ("t.k <> 'b'", "t.k IS NULL", "t.k IN ('a', 'z')"),
    "x": ("t.x BETWEEN 1 AND 2", "t.x IS DISTINCT FROM 1", "t.x > 0"),
    "seen": (
        "t.seen >= '2024-03-31 02:00:00+02:00'",
        "t.seen < TIMESTAMPTZ '2024-03-31 06:30:00+05:30'",
        "t.seen > '2024-03-30 21:29:59.999999-03:30'",
        "t.seen AT TIME ZONE 'Europe/Berlin' < TIMESTAMP '2024-03-31 03:00:00'",
        "t.seen NOT BETWEEN '2024-03-30 01:00:00+01:00' AND '2024-03-31 01:00:00Z'",
    ),
    "here": (
        "t.here >= '2024-03-31 00:00:00+05:45'",
        f"t.here AT TIME ZONE '{ZONE}' > TIMESTAMP '2024-04-01'",
    ),
}
_BELOW = {before: (after, HOPS[after]) for before, after in pairwise(TABLES)}
_MEASURES = (
    "COUNT(*)",
    "COUNT(*)",
    "COUNT(DISTINCT t.patient_id)",
    "COUNT(t.x)",
    "COUNT(*) FILTER (WHERE t.x > 0)",
)
_OF_UNMATCHED = ("COUNT(t.x)", "COUNT(DISTINCT t.patient_id)")
_TIGHT = (
    "max_groups_contributed = 1",
    "max_groups_contributed = 2",
    "max_rows_contributed = 1",
    "max_rows_contributed = 2",
    "mechanism = BOX",
    "mechanism = LAPLACE, max_groups_contributed = 2",
)


def asked(rng: Random) -> Asked:
    """Draw a statement."""
    table = rng.choice((*TABLES, "results", "notes", "notes"))
    columns, saw = COLUMNS[table], {table}
    source, where, keys = f"{table} t", list[str](), list[str]()
    measures: tuple[str, ...] = _MEASURES
    way = rng.choice(("", "", "up", "LEFT public", "public LEFT", "public", "EXISTS", "IN"))
    if way == "up" and table in HOPS:
        above = TABLES[TABLES.index(table) - 1]
        source += f" JOIN {above} s USING ({HOPS[table]})"
        keys.append("s.k")
    elif way == "LEFT public":
        source += f" LEFT JOIN p ON t.k = p.a{rng.choice(('', ' AND t.x > 0'))}"
    elif way == "public LEFT":
        source, measures = f"p LEFT JOIN {table} t ON t.k = p.a", _OF_UNMATCHED
    elif way == "public":
        source += " JOIN p ON t.x = p.c"
    elif way in ("EXISTS", "IN") and table in _BELOW:
        below, key = _BELOW[table]
        word, more = rng.choice(("", "NOT ")), rng.choice(("", "b.x > 0"))
        if way == "EXISTS":
            tied = " AND ".join([f"b.{key} = t.{key}", *([more] if more else [])])
            where.append(f"{word}EXISTS (SELECT 1 FROM {below} b WHERE {tied})")
        else:
            where.append(f"t.{key} IN (SELECT b.{key} FROM {below} b{more and ' WHERE '}{more})")
    else:
        way = ""
    saw |= {way} if way else set()
    if "public" in way:
        keys.append(rng.choice(_OF_P) if way != "public LEFT" else rng.choice(("p.b", "p.c", "p.c > 1")))
    known = [key for name in columns for key in _KEYS.get(name, ())]
    keys += rng.sample(known, rng.choice((1, 1, 2)) if not keys else rng.choice((0, 0, 1)))
    if way == "public LEFT":
        keys = keys[:1]
    undeclared = "w" in columns and way != "public LEFT" and rng.random() < 0.25
    if undeclared:
        keys[-1] = "t.w"
        saw.add("existence")
    if rng.random() < 0.35 and way != "public LEFT":
        where.append(rng.choice([text for name in columns for text in _WHERE.get(name, ())]))
    text = " ".join((*keys, *where))
    saw |= {"AT TIME ZONE"} if "AT TIME ZONE" in text else set()
    saw |= {"offset"} if any(each in text for each in (":00+", ":30+", ":00Z", "-03:30")) else set()
    numbers = rng.sample(measures, 1)
    numbers += [f"COUNT(DISTINCT t.patient_id) FILTER (WHERE {rng.choice(_WHERE['x'])})"] * (
        rng.random() < 0.3
    )
    if "COUNT(*)" in numbers and rng.random() < 0.3:
        tight = ["COUNT(*, contribution_bounds_per_group => (0, 2))", *numbers[1:]]
    else:
        tight = numbers
    named = ", ".join(f"{key} AS g{i}" for i, key in enumerate(keys))
    rest = f"FROM {source}{' WHERE ' if where else ''}{' AND '.join(where)}"
    option = rng.choice(_TIGHT[:2] if undeclared else (*_TIGHT, "", ""))
    if undeclared:
        option += ", delta = 1e-6"

    def stated(options: str, listed: list[str], d: str = "t.d AS d, ") -> str:
        head = f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) " if options else ""
        by = ", ".join(str(i + 1) for i in range(len(keys) + bool(d)))
        shown = ", ".join(f"{each} AS n{i}" for i, each in enumerate(listed))
        return f"SELECT {head}{d}{named}, {shown} {rest} GROUP BY {by}"

    loose, wide = "max_rows_contributed = 1000", numbers
    if undeclared:
        loose = "max_groups_contributed = 1000, delta = 1e-6"
        bound = ", contribution_bounds_per_group => (0, 1000))"
        wide = [n if "DISTINCT" in n else n.replace(")", bound, 1) for n in numbers]
    return Asked(
        stated(option, tight, ""),
        stated(option, tight),
        stated(loose, wide),
        stated("", numbers),
        1 + len(keys),
        not undeclared,
        frozenset(saw),
    )
