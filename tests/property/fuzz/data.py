"""Random rows for every private table of a world, with the facts the policy declares kept true."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from fuzz.values import MORE_UNITS, UNITS, cell
from fuzz.world import World, kind_of

__all__ = [
    "FEW",
    "GIANT",
    "PERSONAL",
    "PLACE",
    "TABLES",
    "TIMES",
    "Data",
    "big_data",
    "random_row",
    "small_data",
]

PERSONAL = ("visits", "users", "orders", "likes")
TABLES = (*PERSONAL, "items", "devices", "logs")
PLACE = {"visits": 0, "users": 0, "orders": 1, "likes": 0, "devices": 0}
"""Where each table's unit column is."""


FEW = 5
"""So many units are in a small database, if nothing else is said."""

GIANT = 60
TIMES = 40
"""A unit that outnumbers all others has so many different rows, each of them so many times."""


@dataclass(frozen=True)
class Data:
    """Rows by table, each cell a SQL literal, and the units that can be removed."""

    rows: dict[str, list[list[str]]]
    units: tuple[str, ...]
    orphans: bool
    """Whether child rows stay when their parent goes."""
    repeated: bool = False
    """Whether a parent key may be that of several units, against what the policy declares."""
    big: dict[str, int] = field(default_factory=dict)
    """Rows of a unit that outnumber everybody else's, by table."""


def small_data(rng: Random, world: World, size: int = FEW, *, repeated: float = 0.0) -> Data:
    """Draw a small database: skewed or even, tables empty at times, units without rows here and there.

    `repeated`: how often parent keys repeat among units, though no unit has one twice.
    """
    named = UNITS[world.units]
    pool = rng.sample(named, k=min(size, FEW)) + rng.sample(MORE_UNITS[world.units], k=max(0, size - FEW))
    nasty = rng.choice([0.0, 0.1, 0.1, 0.4])
    heavy = rng.random() < 0.4
    rows: dict[str, list[list[str]]] = {}
    for table in TABLES:
        count = 0 if rng.random() < 0.06 else rng.randint(4, 16) * size // FEW
        rows[table] = [random_row(rng, world, table, pool, nasty, heavy=heavy) for _ in range(count)]
        if rng.random() < 0.3:  # rows that repeat
            rows[table] += [list(row) for row in rows[table][:5]]
    again = rng.random() < repeated
    _keep_facts(rng, rows, repeated=again)
    return Data(rows, tuple(pool), not again and rng.random() < 0.5, repeated=again)


def big_data(rng: Random, world: World, people: int = 90) -> Data:
    """Draw a database in which one unit has more rows in one table than all others have together."""
    named = {
        "integer": [str(i) for i in range(1, people)],
        "VARCHAR": [f"'p{i}'" for i in range(people)],
        "UUID": [f"UUID '00000000-0000-0000-0000-{i:012d}'" for i in range(people)],
        "DATE": [f"DATE '2000-01-01' + {i}" for i in range(people)],
    }[world.units]
    giant = named[-1]
    rows: dict[str, list[list[str]]] = {table: [] for table in TABLES}
    where = rng.choice(["visits", "orders", "items"])
    for unit in named[:-1]:
        for table in ("visits", "visits", "orders", "likes", "devices"):
            rows[table].append(random_row(rng, world, table, [unit], 0.02))
        if rng.random() < 0.7:
            rows["users"].append(random_row(rng, world, "users", [unit], 0.02))
        rows["items"] += [random_row(rng, world, "items", [unit], 0.02) for _ in range(2)]
    rows["orders"].append(random_row(rng, world, "orders", [giant], 0.0))
    rows[where] += [random_row(rng, world, where, [giant], 0.02) for _ in range(GIANT)]
    _keep_facts(rng, rows)
    if where == "items":
        number = next(row[0] for row in rows["orders"] if row[1] == giant)
        for row in rows["items"][-GIANT:]:
            row[0] = number
    return Data(rows, (giant, named[0]), orphans=False, big={where: GIANT * TIMES})


def random_row(
    rng: Random, world: World, table: str, pool: list[str], nasty: float, *, heavy: bool = False
) -> list[str]:
    """Draw one row; `heavy`: most rows are the first unit's."""
    row = []
    for name, declared in world.columns[table].items():
        if name in ("user_id", "device_id"):
            draw = rng.random()
            unit = pool[0] if heavy and draw < 0.7 else rng.choice(pool)
            fits = declared != "TINYINT" or len(unit) < 4
            row.append("NULL" if (draw > 0.93 and len(pool) > 1) or not fits else unit)
        else:
            row.append(cell(rng, kind_of(declared), declared, nasty))
    return row


def _keep_facts(rng: Random, rows: dict[str, list[list[str]]], *, repeated: bool = False) -> None:
    """Make the declared facts true: NULL counts as a value in them. Parent keys are unique, or for a unit."""
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows["orders"]):
        place = seen[row[1]] if repeated else number
        seen[row[1]] += 1
        row[0] = "NULL" if number == 0 and rng.random() < 0.2 else str(place)
    known = ["NULL", "12345", *(o[0] for o in rows["orders"])]
    for row in rows["items"]:
        row[0] = rng.choice(known)
    if not repeated:
        _keep_shared(rows)
    rows["users"] = list({row[0]: row for row in rows["users"]}.values())
    rows["likes"] = list({(row[0], row[1]): row for row in rows["likes"]}.values())


def _keep_shared(rows: dict[str, list[list[str]]]) -> None:
    """Make each value of the key that orders and likes share that of one unit: others are NULL."""
    whose = dict[str, str]()
    likes = [row for row in rows["likes"] if len(row) > 4]
    for row, unit, key in (*((r, 1, -1) for r in rows["orders"] if likes), *((r, 0, -1) for r in likes)):
        if row[unit] == "NULL" or whose.setdefault(row[key], row[unit]) != row[unit]:
            row[key] = "NULL"
