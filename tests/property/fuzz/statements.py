"""Whole private statements: keys with public domains, counts of every form, every spelling of a selection."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fuzz.blocks import query
from fuzz.expressions import condition, lenient, value
from fuzz.joins import from_clause
from fuzz.scope import Item, Maker, Scope
from fuzz.world import PERSON, World

__all__ = ["Statement", "statement"]


FACTS = (".city", ".age", ".joined")
"""Columns of the table in which each person has one row."""


@dataclass(frozen=True)
class Statement:
    """A statement as typed, and the rules its maker says it reaches."""

    text: str
    saw: frozenset[str]


def statement(rng: Random, world: World, focus: frozenset[str] = frozenset()) -> Statement:
    """Make one private statement."""
    maker = Maker(rng, world, focus)
    if maker.chance(0.03, "declared values"):
        return _listed(maker)
    kind = rng.choices([PERSON, "row", "device"], [20, 40 if "unit row" in focus else 1.5, 0.7])[0]
    maker.note(f"unit {kind}")
    head = ""
    if kind == PERSON and maker.chance(0.25, "WITH"):
        head = _ctes(maker)
    before = set(maker.saw)
    for _ in range(4):  # what shows no unit can rarely be counted
        maker.saw = set(before)
        source, scope, extra = from_clause(
            maker, kind, rng.choice([0, 1, 1, 2]), rng.choice([0, 0, 1, 1, 1, 2])
        )
        if scope.units() or kind == "row" or rng.random() < 0.1:
            break
    wheres = list(extra)
    if maker.chance(0.45, "WHERE of the count"):
        wheres.append(lenient(maker, scope) if rng.random() < 0.85 else condition(maker, scope, 2))
    keys, known = _keys(maker, scope, wheres)
    single = _single(scope, [k for k, _ in keys])
    counts = [_count(maker, scope, single) for _ in range(rng.choice([1, 1, 2, 3]))]
    if known and maker.chance(0.1, "difference of counts"):
        counts[0] = f"{counts[0]} - {_count(maker, scope, single)}"
    items = [*(text for text, _ in keys), *(f"{c} AS n{i}" for i, c in enumerate(counts))]
    options = ""
    if keys and known and maker.chance(0.08, "all groups"):
        options = "mechanism = LAPLACE, max_groups_contributed = 2"
        if maker.chance(0.3, "all groups with one noise"):
            options = "mechanism = BOX"
    if keys and not known and maker.chance(0.3, "all groups of an unknown domain"):
        options = "delta = 1e-6, max_groups_contributed = 2"
    tail = ""
    if keys and known and maker.chance(0.2, "clauses after the release"):
        options = options or rng.choice(["max_groups_contributed = 2", "max_groups_contributed = 1"])
        more, tail = _computed(maker, [e for _, e in keys], counts)
        items += more
    elif not options and len(keys) > 1 and maker.chance(0.25, "QUALIFY partitions"):
        options = rng.choice(["", "", "max_groups_contributed = 1", "max_groups_contributed = 2"])
        tail = _partitions(maker, [e for _, e in keys], len(counts))
    elif keys and not options:
        tail = _selection(maker, len(counts), known=known)
    if "weighted rows" in maker.saw and "max_groups" not in options and rng.random() < 0.6:
        options += f"{', ' * bool(options)}max_rows_contributed = {rng.randint(1, 4)}"
    if options:
        options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) "
    text = f"SELECT {options}{', '.join(items)} FROM {source}"
    if wheres:
        text += f" WHERE {' AND '.join(wheres)}"
    if keys:
        by = ", ".join(str(i + 1) for i in range(len(keys)))
        if rng.random() < 0.6:
            by = ", ".join(e for _, e in keys)
        text += f" GROUP BY {by}"
    text += tail
    if kind == PERSON and maker.chance(0.08, "a block around"):
        return Statement(_around(maker, head, text), frozenset(maker.saw))
    return Statement(head + text, frozenset(maker.saw))


def _listed(maker: Maker) -> Statement:
    """Write a private SELECT DISTINCT that rows are joined to, grouped by its value."""
    rng = maker.rng
    key = rng.choice(["page", "country", "day", "ms", "moment::DATE"])
    where = rng.choice(["", " WHERE flag", " WHERE user_id <> 2"])
    listed = f"(SELECT DISTINCT {key} AS k FROM visits{where}) AS d"
    on = f"v.{key} {rng.choice(['=', '>=', '<>'])} d.k{rng.choice(['', ' AND v.ms > 2'])}"
    joined = f"{listed} {rng.choice(['LEFT ', ''])}JOIN visits AS v ON {on}"
    counts = rng.choice(
        [
            "",
            ", COUNT(*, contribution_bounds_per_group => (0, 2)) AS n1",
            ", COUNT(DISTINCT v.user_id) FILTER (WHERE v.flag) AS n1",
        ]
    )
    by = rng.choice(["d.k", "1", "k"])
    if maker.slip("its key"):
        by = "v.page"
    first = "d.k" if by != "v.page" else by
    text = f"SELECT {first}, COUNT(DISTINCT v.user_id) AS n0{counts} FROM {joined} GROUP BY {by}"
    return Statement(text, frozenset(maker.saw))


def _computed(maker: Maker, keys: list[str], counts: list[str]) -> tuple[list[str], str]:
    """Write columns and clauses that are computed of released rows, which each have these counts."""
    rng = maker.rng
    key, count = rng.choice(keys), rng.choice(counts)
    items = [
        f"ROUND(100.0 * {count} / SUM({count}) OVER (), 2) AS share",
        f"LAG({count}) OVER (ORDER BY {key}) AS before",
        f"CASE WHEN {count} > 3 THEN 'many' ELSE 'few' END AS size",
        f"{count} * 5 AS scaled",
    ]
    tails = {
        "HAVING on a key": f" HAVING {key} IS NOT NULL",
        "HAVING on key or count": f" HAVING {key} IS NULL OR {count} > 2",
        "HAVING between": f" HAVING {count} BETWEEN 1 AND 3",
        "HAVING hidden": " HAVING COUNT(*, contribution_bounds_per_group => (0, 2)) > 2 AND n0 < 9",
        "QUALIFY over released rows": " QUALIFY n0 >= AVG(n0) OVER ()",
        "ORDER BY key": f" ORDER BY {key}, n0 DESC LIMIT 3 OFFSET 1",
        "OFFSET": " ORDER BY n0 DESC LIMIT 2 OFFSET 1",
        "ORDER BY expression": f" ORDER BY {count} * 2 LIMIT 2",
    }
    return rng.sample(items, rng.choice([0, 0, 1, 2])), tails[maker.pick(dict.fromkeys(tails, 1.0))]


def _around(maker: Maker, head: str, text: str) -> str:
    """Write a query over the released rows of a statement, whose first count is `n0`."""
    listed = f"{head.rstrip()}, " if head else "WITH "
    other = "SELECT COUNT(DISTINCT user_id) AS n0 FROM visits WHERE flag"
    ways = {
        "one release used twice": f"{listed}rel AS ({text}) SELECT a.n0 - b.n0 AS d FROM rel AS a, rel AS b",
        "a derived release": f"{head}SELECT d.n0 + 1 AS x FROM ({text}) AS d WHERE d.n0 > 2",
        "a UNION of releases": f"{head}SELECT n0 FROM ({text}) AS d UNION ALL SELECT n0 FROM ({other}) AS e",
        "a release as a value": f"{head}SELECT d.n0 / ({other}) AS x FROM ({text}) AS d",
        "a selection around": f"{head}SELECT * FROM ({text}) AS d ORDER BY n0 DESC LIMIT 2",
    }
    return ways[maker.pick(dict.fromkeys(ways, 1.0))]


def _ctes(maker: Maker) -> str:
    parts = []
    for i in range(maker.rng.choice([1, 1, 2])):
        text, columns, owner, _ = query(maker, maker.rng.choice([PERSON, PERSON, None]), 1)
        name = f"cte{i}"
        maker.ctes.append((name, text, Item(name, columns), owner))
        parts.append(f"{name} AS ({text})")
    return f"WITH {', '.join(parts)} "


def _keys(maker: Maker, scope: Scope, wheres: list[str]) -> tuple[list[tuple[str, str]], bool]:
    """Draw group keys: (select item, its expression), and whether a public domain is known for all."""
    rng = maker.rng
    keys: list[tuple[str, str]] = []
    if scope.items and maker.chance(0.08, "key pair"):
        alias = rng.choice(scope.items)
        of = [f"{alias.alias}.{c.name}" for c in alias.columns if c.domain and not c.unit]
        named = {n for n, _ in scope.references()}
        pair = rng.sample(of, min(2, len(of)))
        keys += [(f"{n} AS g{i}", n) for i, n in enumerate(pair) if named >= set(pair)]
    facts = [n for n in scope.of("enum") + scope.of("date") + scope.of("int") if n.endswith(FACTS)]
    if facts and maker.chance(0.1, "key of the unit"):
        fact = rng.choice(facts)
        keys.append((f"{fact} AS g{len(keys)}", fact))
    for _ in range(rng.choice([0, 1, 1, 1, 2]) if len(keys) < 2 else 0):
        made = _key(maker, scope, wheres)
        if made is not None and made not in [e for _, e in keys]:
            keys.append((f"{made} AS g{len(keys)}", made))
    if maker.chance(0.12, "unknown domain"):
        kind = rng.choice(["text", "int", "dbl", "date", "uuid"])
        names = [n for n in scope.of(kind) if not _is_unit(scope, n)]
        if names:
            made = rng.choice(names) if rng.random() < 0.5 else value(maker, scope, kind, 1)
            return [*keys, (f"{made} AS gu", made)], False
    return keys, True


def _key(maker: Maker, scope: Scope, wheres: list[str]) -> str | None:
    rng = maker.rng
    known = [(n, c) for n, c in scope.references() if c.domain and not c.unit]
    ways = {"key column": 5.0 if known else 0.0, "key IN list": 2.0, "key boolean": 1.5, "key CASE": 1.0}
    ways |= {"key coalesce": 1.0 if known else 0.0, "key expression": 1.5 if known else 0.0, "key part": 0.8}
    ways["key range"] = 1.5
    match maker.pick(ways):
        case "key column":
            return rng.choice(known)[0]
        case "key IN list":
            kind, values = rng.choice(
                [("text", "('a', 'b', 'DE')"), ("int", "(1, 2, 3)"), ("date", "('2024-01-01', '2024-01-05')")]
            )
            names = [n for n in scope.of(kind) if not _is_unit(scope, n)]
            if not names:
                return None
            key = rng.choice(names) if rng.random() < 0.6 else value(maker, scope, kind, 1)
            wheres.append(f"{key} IN {values}")
            return key
        case "key range":
            return _ranged(maker, scope, wheres)
        case "key boolean":
            return condition(maker, scope, 1)
        case "key CASE":
            a, b = condition(maker, scope, 1), condition(maker, scope, 0)
            return f"CASE WHEN {a} THEN 'p' WHEN {b} THEN 'q' ELSE 'r' END"
        case "key coalesce":
            name, column = rng.choice(known)
            word = {"text": "'none'", "int": "0", "bool": "FALSE", "date": "DATE '2024-01-01'"}.get(
                column.kind
            )
            return f"COALESCE({name}, {word})" if word else name
        case "key expression":
            name, column = rng.choice(known)
            ways_of = {
                "text": [f"upper({name})", f"{name} || '-'", f"left({name}, 1)", f"length({name})"],
                "int": [f"{name} // 2", f"{name} % 3", f"(-{name})", f"{name} * 1e0", f"abs({name})"],
                "date": [f"date_trunc('month', {name})", f"month({name})", f"{name} + 1"],
                "dbl": [f"round({name})", f"(-{name})"],
                "dec": [f"round({name}, 0)"],
            }.get(column.kind, [name])
            return rng.choice(ways_of)
    dates = scope.of("date")
    return f"EXTRACT({rng.choice(['month', 'dow'])} FROM {rng.choice(dates)})" if dates else None


def _ranged(maker: Maker, scope: Scope, wheres: list[str]) -> str | None:
    """Write a key, and a range in WHERE that says which values it can have."""
    rng = maker.rng
    kind, low, high = rng.choice(
        [
            ("int", "1", "4"),
            ("date", "DATE '2024-01-03'", "DATE '2024-02-05'"),
            ("ts", "TIMESTAMP '2024-01-04 22:30:00'", "TIMESTAMP '2024-01-06 03:00:00'"),
        ]
    )
    names = [n for n in scope.of(kind) if not _is_unit(scope, n)]
    if not names:
        return None
    name = rng.choice(names)
    wheres.append(rng.choice([f"{name} BETWEEN {low} AND {high}", f"{name} >= {low} AND {name} < {high}"]))
    of = {
        "int": [name, name, f"{name} % 3", f"{name} * 2"],
        "date": [name, f"date_trunc('month', {name})", f"EXTRACT(dow FROM {name})"],
        "ts": [f"date_trunc('hour', {name})", f"CAST({name} AS DATE)", f"EXTRACT(hour FROM {name})"],
    }
    return rng.choice(of[kind])


def _is_unit(scope: Scope, name: str) -> bool:
    return any(n == name and c.unit for n, c in scope.references())


def _single(scope: Scope, keys: list[str]) -> bool:
    bare = {k.rpartition(" AS ")[0] for k in keys}
    return any(fact <= bare for fact in scope.single)


def _count(maker: Maker, scope: Scope, single: bool) -> str:
    """Write one count: of units in all forms, of rows where the generator believes them single."""
    rng = maker.rng
    rows = single or scope.owner == "row"
    units = scope.units()
    ways = {"COUNT DISTINCT": 4.0, "FILTER": 1.5, "CASE in COUNT": 1.2, "IF in COUNT": 0.8}
    if not units:
        ways = {"COUNT(*)": 0.3}
    if rows:
        ways |= {"COUNT(*)": 3.0, "COUNT(x)": 1.5, "COUNT_IF": 1.5, "COUNT(*) FILTER": 1.5}
    elif maker.slip("single rows"):
        ways["COUNT(*)"] = 8.0
    if not rows and scope.owner != "row":
        ways["clamped rows"] = 0.8 if units else 8.0
        ways["weighted rows"] = 1.0
    ways["distinct values"] = 0.6
    if rows:
        ways["sum of ones"] = 1.0
    unit = (units[0][0] if rng.random() < 0.7 else rng.choice(units)[0]) if units else ""
    sides = [n for n, c in units if c.unit == "maybe"]
    if len(sides) >= 2 and maker.chance(0.3, "COALESCE of units"):
        unit = f"COALESCE({', '.join(rng.sample(sides, 2))})"
    match maker.pick(ways):
        case "COUNT DISTINCT":
            return f"COUNT(DISTINCT {unit})"
        case "FILTER":
            return f"COUNT(DISTINCT {unit}) FILTER (WHERE {lenient(maker, scope)})"
        case "CASE in COUNT":
            return f"COUNT(DISTINCT CASE WHEN {condition(maker, scope, 1)} THEN {unit} END)"
        case "IF in COUNT":
            return f"COUNT(DISTINCT IF({condition(maker, scope, 1)}, {unit}, NULL))"
        case "clamped rows":
            bound = f"contribution_bounds_per_group => (0, {rng.randint(1, 3)})"
            what = rng.choice(["*", value(maker, scope, "int", 1)])
            return f"COUNT({what}, {bound})"
        case "distinct values":
            what = value(maker, scope, rng.choice(["int", "text", "date", "dbl"]), rng.choice([0, 0, 1]))
            free = rows or unit == what
            bound = "" if free else f", contribution_bounds_per_group => (0, {rng.randint(1, 3)})"
            where = f" FILTER (WHERE {lenient(maker, scope)})" if rng.random() < 0.2 else ""
            return f"COUNT(DISTINCT {what}{bound}){where}"
        case "sum of ones":
            a, b = rng.choice([("1", " ELSE 0"), ("1", ""), ("0", " ELSE 1")])
            return f"SUM(CASE WHEN {condition(maker, scope, 1)} THEN {a}{b} END)"
        case "weighted rows":
            return rng.choice(["COUNT(*)", "COUNT_IF({0})", "COUNT(*) FILTER (WHERE {0})"]).format(
                condition(maker, scope, 1)
            )
        case "COUNT(x)":
            return f"COUNT({value(maker, scope, rng.choice(['int', 'text', 'date']), 1)})"
        case "COUNT_IF":
            return f"COUNT_IF({condition(maker, scope, 1)})"
        case "COUNT(*) FILTER":
            return f"COUNT(*) FILTER (WHERE {lenient(maker, scope)})"
    return "COUNT(*)"


def _partitions(maker: Maker, keys: list[str], counts: int) -> str:
    rank = maker.rng.choice(["ROW_NUMBER", "RANK", "DENSE_RANK"])
    having = " HAVING n0 >= 2" if maker.rng.random() < 0.2 else ""
    by = "n0" if having else f"n{maker.rng.randrange(counts)}"
    window = f"{rank}() OVER (PARTITION BY {keys[0]} ORDER BY {by} DESC)"
    return f"{having} QUALIFY {window} <= {maker.rng.choice([1, 2])}"


def _selection(maker: Maker, counts: int, *, known: bool) -> str:
    by = f"n{maker.rng.randrange(counts)}"
    ways = {"ORDER BY LIMIT": 4.0, "TOP BY": 1.0, "HAVING ORDER": 1.0, "QUALIFY selection": 0.5}
    if known:
        ways |= {"HAVING LIMIT": 1.0, "lowest": 0.6}
    match maker.pick(ways):
        case "TOP BY":
            return f" TOP 2 BY {by}"
        case "HAVING LIMIT":
            return f" HAVING {by} >= 2 LIMIT 2"
        case "HAVING ORDER":
            return f" HAVING {by} > 1 ORDER BY {by} DESC LIMIT 2"
        case "QUALIFY selection":
            return f" QUALIFY ROW_NUMBER() OVER (ORDER BY {by} DESC) <= 2"
        case "lowest":
            return f" ORDER BY {by} LIMIT 2"
    return f" ORDER BY {by} DESC LIMIT 2"
