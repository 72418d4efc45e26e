"""Random subqueries: projections, DISTINCT, groups per unit, windows, set operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from fuzz.expressions import condition, lenient, literal, value
from fuzz.joins import Facts, from_clause
from fuzz.scope import Column, Item, Maker, Scope
from fuzz.windows import over, window

__all__ = ["AGGREGATES", "aggregate", "query"]

AGGREGATES = {
    "int": [
        ("COUNT(*)", ""),
        ("COUNT({0})", "any"),
        ("COUNT(DISTINCT {0})", "any"),
        ("SUM({0})", "int"),
        ("SUM(DISTINCT {0})", "int"),
        ("MIN({0})", "int"),
        ("MAX({0})", "int"),
        ("BIT_XOR({0})", "int"),
        ("BIT_OR({0})", "int"),
        ("COUNT_IF({0})", "bool"),
        ("COUNT(*) FILTER (WHERE {0})", "bool"),
        ("ANY_VALUE({0})", "int"),
    ],
    "dbl": [
        ("SUM({0})", "dbl"),
        ("AVG({0})", "dbl"),
        ("AVG({0})", "int"),
        ("AVG({0})", "dec"),
        ("MEDIAN({0})", "int"),
        ("MAX({0})", "dbl"),
        ("MIN({0})", "dbl"),
        ("SUM({0}) FILTER (WHERE TRUE)", "dbl"),
    ],
    "dec": [("SUM({0})", "dec"), ("MIN({0})", "dec"), ("MAX({0})", "dec")],
    "text": [
        ("MIN({0})", "text"),
        ("MAX({0})", "text"),
        ("ANY_VALUE({0})", "text"),
        ("FIRST({0} ORDER BY {1})", "text"),
        ("ARG_MAX({0}, {1})", "text"),
        ("MIN_BY({0}, {1})", "text"),
    ],
    "texts": [("LIST({0} ORDER BY {1})", "text")],
    "date": [("MIN({0})", "date"), ("MAX({0})", "date"), ("LAST({0} ORDER BY {1})", "date")],
    "ts": [("MAX({0})", "ts")],
    "bool": [("BOOL_AND({0})", "bool"), ("BOOL_OR({0})", "bool")],
}


Subquery = tuple[str, tuple[Column, ...], str | None, Facts]
"""Text, columns, owner, and sets of columns known to be unique within a unit."""

VIPS = (Column("page", "text"), Column("rank", "int"))


def query(maker: Maker, wanted: str | None, depth: int) -> Subquery:
    """Write a subquery; return its text, columns, owner, and names known to be unique within a unit."""
    rng = maker.rng
    ways = {"select": 3.0, "DISTINCT": 2.0, "GROUP BY unit": 3.0, "set operation": 2.0, "star": 0.8}
    way = maker.pick(ways | {"window": 2.0, "DISTINCT ON": 0.8})
    if way == "set operation":
        return _combined(maker, wanted, depth)
    source, scope, extra = from_clause(maker, wanted, depth, rng.choice([0, 0, 1, 1, 2]))
    where = _where(maker, scope, extra)
    unit = next((n for n, c in scope.units() if c.unit == "exact"), None)
    if scope.units() and maker.slip("exact unit"):
        unit = rng.choice(scope.units())[0]
    if unit is not None and maker.slip("unit in a block"):
        unit = None
    elif unit is None and scope.owner is not None and way != "star":
        way = "select"
    tail = f"FROM {source}{where}"
    match way:
        case "star" if (columns := _starred(scope)) is not None:
            single = frozenset(frozenset(n.rpartition(".")[2] for n in fact) for fact in scope.single)
            return f"SELECT * {tail}", columns, scope.owner, single
        case "GROUP BY unit":
            return _grouped(maker, scope, source, where, unit)
    picked = _picked(maker, scope, unit)
    names = {text: c.name for text, c in picked}
    single = frozenset(
        frozenset(names[n] for n in fact) for fact in scope.single if all(n in names for n in fact)
    )
    match way:
        case "window":
            return _windowed(maker, scope, tail, picked, single)
        case "DISTINCT ON":
            keys = [text for text, c in picked if c.unit == "exact" or rng.random() < 0.3] or [picked[0][0]]
            single |= {frozenset(names[k] for k in keys if k != unit)}
            by = rng.choice([n for n, _ in scope.references()])
            order = f" ORDER BY {', '.join(keys)}, {by} DESC"
            return (
                f"SELECT DISTINCT ON ({', '.join(keys)}) {_listed(picked)} {tail}{order}",
                _columns(picked),
                scope.owner,
                single,
            )
        case "DISTINCT":
            single |= {frozenset(c.name for _, c in picked if c.unit != "exact")}
            return f"SELECT DISTINCT {_listed(picked)} {tail}", _columns(picked), scope.owner, single
    text = f"SELECT {_listed(picked)} {tail}"
    if scope.owner is None and maker.chance(0.3, "public LIMIT"):
        text += (
            f" ORDER BY {rng.randint(1, len(picked))}{rng.choice(['', ' DESC'])} LIMIT {rng.randint(1, 3)}"
        )
    return text, _columns(picked), scope.owner, single


def _listed(picked: list[tuple[str, Column]]) -> str:
    return ", ".join(f"{text} AS {c.name}" for text, c in picked)


def _columns(picked: list[tuple[str, Column]]) -> tuple[Column, ...]:
    return tuple(c for _, c in picked)


def _windowed(
    maker: Maker, scope: Scope, tail: str, picked: list[tuple[str, Column]], single: Facts
) -> Subquery:
    """Select windows beside columns, or keep rows by one in QUALIFY."""
    rng = maker.rng
    unit = next((text for text, c in picked if c.unit == "exact"), None)
    if unit is None and scope.owner is not None and "without unit in a block" not in maker.saw:
        return f"SELECT {_listed(picked)} {tail}", _columns(picked), scope.owner, single
    for _ in range(rng.choice([0, 1, 1, 2])):
        text, kind = window(maker, scope, unit)
        picked.append((text, Column(f"w{len(picked)}", kind)))
    if maker.chance(0.2, "two windows"):
        a, b = (over(maker, scope, unit, frames=False) for _ in range(2))
        text = f"ROW_NUMBER() OVER ({a}) = ROW_NUMBER() OVER ({b})"
        picked.append((text, Column(f"w{len(picked)}", "bool", domain=True)))
    qualify = ""
    if maker.chance(0.4, "QUALIFY"):
        names = {text: c.name for text, c in picked}
        keys = [unit] if unit is not None else []
        keys += [text for text, c in picked if "OVER" not in text and text != unit and rng.random() < 0.25]
        by = rng.choice([n for n, _ in scope.references()])
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        qualify = f" QUALIFY ROW_NUMBER() OVER ({partition}ORDER BY {by} DESC) = 1"
        if rng.random() < 0.6:
            single |= {frozenset(names[k] for k in keys if k != unit)}
        else:
            text, kind = window(maker, scope, unit)
            qualify = f" QUALIFY {text} {rng.choice(['=', '<=', '<>'])} {literal(maker, kind)}"
    return f"SELECT {_listed(picked)} {tail}{qualify}", _columns(picked), scope.owner, single


def _starred(scope: Scope) -> tuple[Column, ...] | None:
    names = [n.rpartition(".")[2] for n, _ in scope.references()]
    if len(set(names)) < len(names) or scope.merged:
        return None
    return tuple(c for _, c in scope.references())


def _where(maker: Maker, scope: Scope, extra: list[str], chance: float = 0.5) -> str:
    parts = list(extra)
    if maker.chance(chance, "WHERE"):
        parts.append(lenient(maker, scope) if maker.rng.random() < 0.85 else condition(maker, scope, 2))
    maker.rng.shuffle(parts)
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _picked(maker: Maker, scope: Scope, unit: str | None) -> list[tuple[str, Column]]:
    """Draw what a subquery selects: the unit if there is one, columns, expressions."""
    picked: list[tuple[str, Column]] = []
    if unit is not None and maker.rng.random() < 0.95:
        kind = next(c.kind for n, c in scope.references() if n == unit)
        picked.append((unit, Column("user_id" if maker.rng.random() < 0.8 else "who", kind, "exact")))
    others = [(n, c) for n, c in scope.references() if n != unit]
    maker.rng.shuffle(others)
    for name, column in others[: maker.rng.randint(1, 4)]:
        short = name.rpartition(".")[2]
        taken = {c.name for _, c in picked}
        if short in taken:
            short = f"{short}{len(picked)}"
        picked.append((name, replace(column, name=short)))
    for _ in range(maker.rng.choice([0, 1, 1])):
        kind = maker.rng.choice(["int", "text", "dbl", "date", "bool", "dec"])
        picked.append((value(maker, scope, kind, 2), Column(f"e{len(picked)}", kind)))
    return picked


def _grouped(maker: Maker, scope: Scope, source: str, where: str, unit: str | None) -> Subquery:
    """Group by the unit and further keys; aggregates without an order; HAVING."""
    rng = maker.rng
    keys: list[tuple[str, Column]] = []
    parents = [n for n in scope.of("int") if n.endswith(".order_id")] if unit is not None else []
    if parents and maker.chance(0.15, "GROUP BY parent key"):
        keys.append((rng.choice(parents), Column("order_id", "int")))
    elif unit is not None:
        kind = next(c.kind for n, c in scope.references() if n == unit)
        keys.append((unit, Column("user_id", kind, "exact")))
    plain = [(n, c) for n, c in scope.references() if not c.unit]
    for name, column in rng.sample(plain, min(len(plain), rng.choice([0, 0, 1, 1, 2]))):
        keys.append((name, replace(column, name=f"k{len(keys)}")))
    if rng.random() < 0.2:
        kind = rng.choice(["int", "text", "bool", "dbl"])
        keys.append((value(maker, scope, kind, 2), Column(f"k{len(keys)}", kind, domain=kind == "bool")))
    if not keys:
        keys.append((rng.choice(plain)[0], Column("k0", next(c.kind for n, c in plain))))
        keys[0] = (keys[0][0], replace(keys[0][1], kind=next(c.kind for n, c in plain if n == keys[0][0])))
    picked = list(keys)
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(list(AGGREGATES))
        picked.append((aggregate(maker, scope, kind), Column(f"a{len(picked)}", kind)))
    if unit is not None and maker.chance(0.12, "window over groups"):
        by = rng.choice([text for text, c in picked if c.unit != "exact"] or [unit])
        picked.append((f"RANK() OVER (PARTITION BY {unit} ORDER BY {by})", Column(f"w{len(picked)}", "int")))
    having = ""
    if maker.chance(0.35, "HAVING in a subquery"):
        kind = rng.choice(["int", "int", "dbl", "text"])
        compared = rng.choice([">", "=", "<>", "<="])
        having = f" HAVING {aggregate(maker, scope, kind)} {compared} {literal(maker, kind)}"
    by = ", ".join(str(i + 1) if rng.random() < 0.3 else text for i, (text, _) in enumerate(keys))
    if maker.chance(0.1, "GROUP BY ALL"):
        by = "ALL"
    listed = ", ".join(f"{text} AS {c.name}" for text, c in picked)
    fact = frozenset(c.name for _, c in keys if c.unit != "exact")
    columns = tuple(c for _, c in picked)
    maker.note("public GROUP BY" if scope.owner is None else "owned GROUP BY")
    return (
        f"SELECT {listed} FROM {source}{where} GROUP BY {by}{having}",
        columns,
        scope.owner,
        frozenset({fact}),
    )


def aggregate(maker: Maker, scope: Scope, kind: str) -> str:
    template, argument = maker.rng.choice(AGGREGATES[kind])
    maker.note(f"aggregate {template}")
    if argument == "any":
        argument = maker.rng.choice(["int", "text", "dbl", "date"])
    inner = (
        ""
        if not argument
        else condition(maker, scope, 1)
        if argument == "bool"
        else value(maker, scope, argument, 1)
    )
    other = value(maker, scope, maker.rng.choice(["int", "dbl", "date"]), 0) if "{1}" in template else ""
    return template.format(inner, other)


def _combined(maker: Maker, wanted: str | None, depth: int) -> Subquery:
    """Put two branches with columns of the same kinds together; the right one may be public at times."""
    rng = maker.rng
    words = {
        "UNION ALL": 3.0,
        "UNION": 1.0,
        "EXCEPT": 1.0,
        "INTERSECT": 1.0,
        "EXCEPT ALL": 0.6,
        "INTERSECT ALL": 0.6,
    }
    word = maker.pick(words)
    kinds = [rng.choice(["int", "text", "date", "dbl"]) for _ in range(rng.randint(1, 3))]
    other = rng.random() < (0.25 if word == "UNION ALL" else 0.2 if word[0] != "U" else 0.0)
    branches, owner, units = [], None, []
    for place in range(2):
        side = None if place and other else wanted
        source, scope, extra = from_clause(maker, side, max(0, depth - 1), rng.choice([0, 0, 1]))
        unit = next((n for n, c in scope.units() if c.unit == "exact"), None)
        first = [unit or "NULL"]
        if side is None and wanted is not None and word != "UNION ALL":
            source, scope, extra = "vips AS y9", Scope((Item("y9", VIPS),), None), []
            first = ["y9.user_id"]
        if unit is not None and maker.slip("unit in a branch"):
            kind = next(c.kind for n, c in scope.references() if n == unit)
            first = [rng.choice(scope.of(kind))]
        units.append(unit is not None)
        parts = [*(first if wanted is not None else []), *(value(maker, scope, k, 1) for k in kinds)]
        named = ", ".join(f"{p} AS c{i}" for i, p in enumerate(parts))
        branches.append(f"SELECT {named} FROM {source}{_where(maker, scope, extra, 0.3)}")
        owner = owner or scope.owner
        maker.note(f"{'owned' if scope.owner else 'public'} branch of {word}")
    columns = [Column(f"c{i + (wanted is not None)}", k) for i, k in enumerate(kinds)]
    if wanted is not None:
        kept = all(units) or (word not in ("UNION ALL", "UNION") and units[0])
        role: Literal["", "exact", "maybe"] = (
            "exact" if kept else "maybe" if units[0] and first == ["NULL"] else ""
        )
        kind = {"integer": "int", "VARCHAR": "text", "UUID": "uuid", "DATE": "date"}[maker.world.units]
        columns.insert(0, Column("c0", kind, role))
    fact = frozenset({frozenset(c.name for c in columns if c.unit != "exact")})
    single = frozenset() if word.endswith("ALL") else fact
    return f"{branches[0]} {word} {branches[1]}", tuple(columns), owner, single
