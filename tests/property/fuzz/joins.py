"""Random FROM clauses, with the generator's own book-keeping of what is the unit and what is single."""

from __future__ import annotations

from dataclasses import replace

from fuzz.expressions import condition, lenient, literal
from fuzz.scope import Column, Item, Maker, Scope
from fuzz.world import PERSON, kind_of

__all__ = ["equality", "from_clause", "relation"]

PRIVATE = {"visits": 5.0, "users": 3.0, "orders": 3.0, "items": 2.0, "likes": 3.0}
PUBLIC = {"pages": 5.0, "vips": 2.0, "days": 1.5}
FACTS: dict[str, list[tuple[str, ...]]] = {"users": [()], "likes": [("page",)], "orders": [("order_id",)]}
"""Column sets unique within a unit, by the policy's facts."""

Facts = frozenset[frozenset[str]]
"""Sets of column names, each known to be unique within a unit."""


def base(maker: Maker, table: str) -> tuple[str, Item, str | None, Facts]:
    """Name a declared table; its unit, its declared domains, its facts."""
    world = maker.world
    alias = maker.alias()
    declared = world.policy.tables[table]
    column = getattr(declared.unit, "column", None) if table != "items" else None
    columns = tuple(
        Column(
            name,
            kind_of(kind),
            "exact" if name == column else "",
            domain=declared.public or name in declared.domain,
        )
        for name, kind in world.columns[table].items()
    )
    if table == "items":  # a child shows the unit of its parent under the parent's name for it
        columns = (*columns, Column("user_id", kind_of(world.columns["orders"]["user_id"]), "exact"))
    owner = None if declared.public else getattr(declared.unit, "kind", None)
    facts = frozenset(frozenset(f"{alias}.{c}" for c in fact) for fact in FACTS.get(table, ()))
    maker.note(f"table {table}")
    return f"{table} AS {alias}", Item(alias, columns), owner, facts


def relation(
    maker: Maker, wanted: str | None, depth: int, *, beside: bool = False
) -> tuple[str, Item, str | None, Facts]:
    """Write one item of FROM that is owned by `wanted` (a kind of unit) or public.

    `beside` another owned one it must show its unit, or they cannot meet.
    """
    rng = maker.rng
    usable = [
        c for c in maker.ctes if c[3] == wanted and not (beside and not any(x.unit for x in c[2].columns))
    ]
    if usable and maker.chance(0.6, "CTE reference"):
        name, _, item, owner = rng.choice(usable)
        alias = maker.alias()
        return f"{name} AS {alias}", Item(alias, item.columns), owner, frozenset()
    if wanted == "row":
        return base(maker, "logs")
    if wanted == "device":
        return base(maker, "devices")
    if depth > 0 and maker.chance(0.35, "subquery"):
        from fuzz.blocks import query

        text, columns, owner, facts = query(maker, wanted, depth - 1)
        if beside and not any(c.unit for c in columns):
            return base(maker, rng.choice([t for t in PRIVATE if t != "items"]))
        alias = maker.alias()
        if maker.chance(0.1, "column list"):
            names = [f"r{i}" for i in range(len(columns))]
            renamed = tuple(replace(c, name=n) for c, n in zip(columns, names, strict=True))
            moved = {c.name: n for c, n in zip(columns, names, strict=True)}
            named = frozenset(frozenset(f"{alias}.{moved[n]}" for n in fact) for fact in facts)
            return f"({text}) AS {alias}({', '.join(names)})", Item(alias, renamed), owner, named
        named = frozenset(frozenset(f"{alias}.{n}" for n in fact) for fact in facts)
        return f"({text}) AS {alias}", Item(alias, columns), owner, named
    if wanted is None:
        if maker.chance(0.2, "VALUES"):
            return _values(maker)
        return base(maker, rng.choices(list(PUBLIC), list(PUBLIC.values()))[0])
    tables = {t: w * (9 if f"table {t}" in maker.focus else 1) for t, w in PRIVATE.items()}
    return base(maker, rng.choices(list(tables), list(tables.values()))[0])


def _values(maker: Maker) -> tuple[str, Item, None, Facts]:
    alias = maker.alias()
    kinds = [maker.rng.choice(["int", "text", "date"]) for _ in range(maker.rng.randint(1, 2))]
    rows = ", ".join("(" + ", ".join(literal(maker, k) for k in kinds) + ")" for _ in range(3))
    names = [f"w{i}" for i in range(len(kinds))]
    columns = tuple(Column(n, k, domain=True) for n, k in zip(names, kinds, strict=True))
    return f"(VALUES {rows}) AS {alias}({', '.join(names)})", Item(alias, columns), None, frozenset()


def from_clause(maker: Maker, wanted: str | None, depth: int, joins: int) -> tuple[str, Scope, list[str]]:
    """Write FROM with joins; return text, scope, and what WHERE must hold (of comma joins)."""
    rng = maker.rng
    first = wanted if wanted is None or rng.random() < 0.8 or joins == 0 else None
    text, item, owner, facts = relation(maker, first, depth)
    scope = Scope((item,), owner, (), facts)
    extra: list[str] = []
    for i in range(joins):
        need = wanted is not None and scope.owner is None and i == joins - 1
        meets = scope.owner is None or scope.units()
        side = wanted if need or (wanted == PERSON and meets and rng.random() < 0.45) else None
        text, scope = _join(maker, text, scope, side, depth, extra)
    if wanted != "row" and maker.chance(0.05, "UNNEST"):
        text, scope = _unnest(maker, text, scope)
    return text, scope, extra


def _unnest(maker: Maker, text: str, scope: Scope) -> tuple[str, Scope]:
    lists = [(n, "text") for n in scope.of("texts")] + [(n, "int") for n in scope.of("ints")]
    if not lists:
        return text, scope
    name, kind = maker.rng.choice(lists)
    alias = maker.alias()
    item = Item(alias, (Column("item", kind),))
    return f"{text}, UNNEST({name}) AS {alias}(item)", Scope((*scope.items, item), scope.owner, scope.merged)


def _join(
    maker: Maker, text: str, left: Scope, wanted: str | None, depth: int, extra: list[str]
) -> tuple[str, Scope]:
    right_text, right, owner, _ = relation(maker, wanted, depth, beside=left.owner is not None)
    both = Scope((*left.items, right), left.owner or owner, left.merged)
    if left.owner is not None and owner is not None:
        return _owned_join(maker, text, left, right_text, right, both, extra)
    kinds = {"INNER": 4.0, "LEFT": 2.5, "RIGHT": 1.5, "FULL": 1.5, "CROSS": 1.0, "comma": 1.0, "USING": 1.5}
    if owner is None:
        kinds |= {"SEMI": 1.0, "ANTI": 1.0}
    if left.owner == "row" or owner == "row":
        kinds = {"INNER": 1.0, "LEFT": 1.0, "SEMI": 2.0, "ANTI": 2.0}
    sides = (
        "public"
        if left.owner is None and owner is None
        else "owned-public"
        if owner is None
        else "public-owned"
    )
    kind = maker.pick(kinds)
    if sides == "public-owned" and maker.slip("owner of SEMI"):
        kind = maker.rng.choice(["SEMI", "ANTI"])
    maker.note(f"{sides} {kind}")
    if kind in ("CROSS", "comma"):
        joined = f"{text} CROSS JOIN {right_text}" if kind == "CROSS" else f"{text}, {right_text}"
        if kind == "comma" and maker.rng.random() < 0.6:
            extra.append(equality(maker, left, right, both))
        return joined, both
    if kind == "USING":
        return _using(maker, text, left, right_text, right, both)
    on = equality(maker, left, right, both) if maker.rng.random() < 0.6 else lenient(maker, both)
    if kind not in ("FULL",) and maker.chance(0.25, "more in ON"):
        on += f" AND {lenient(maker, both)}"
    word = {"INNER": "JOIN", "FULL": "FULL OUTER JOIN"}.get(kind, f"{kind} JOIN")
    return f"{text} {word} {right_text} ON {on}", _after(left, right, both, kind)


def _after(left: Scope, right: Item, both: Scope, kind: str) -> Scope:
    """Return the names after a join: on a nullable side no column is exactly the unit."""
    if kind in ("SEMI", "ANTI"):
        return left
    items, merged = left.items, left.merged
    if kind in ("RIGHT", "FULL"):
        items = tuple(i.nullable() for i in items)
        merged = tuple(replace(c, unit="maybe") if c.unit else c for c in merged)
    if kind in ("LEFT", "FULL"):
        right = right.nullable()
    single = left.single if kind == "LEFT" else frozenset()
    return Scope((*items, right), both.owner, merged, single)


def equality(maker: Maker, left: Scope, right: Item, both: Scope) -> str:
    """Write an equality of two columns of one kind, those that meet preferred."""
    here = Scope((right,), None)
    kinds = [k for k in ("text", "int", "date", "bool", "dec", "enum", "uuid") if left.of(k) and here.of(k)]
    if not kinds:
        return condition(maker, both, 1)
    kind = kinds[0] if maker.rng.random() < 0.7 else maker.rng.choice(kinds)
    a, b = maker.rng.choice(left.of(kind)), maker.rng.choice(here.of(kind))
    pages = [n for n in left.of("text") if n.endswith("page")]
    others = [n for n in here.of("text") if n.endswith("page")]
    if kind == "text" and pages and others:
        a, b = maker.rng.choice(pages), maker.rng.choice(others)
    return f"{a} = {b}" if maker.rng.random() < 0.5 else f"{b} = {a}"


def _using(
    maker: Maker, text: str, left: Scope, right_text: str, right: Item, both: Scope, only: str = ""
) -> tuple[str, Scope]:
    """Join on columns both sides have under one name; without one, on a condition."""
    names = [name.rpartition(".")[2] for name, _ in left.references()]
    shared = [
        c
        for c in right.columns
        if names.count(c.name) == 1
        and (not only or c.name == only)
        and any(x.kind == c.kind for n, x in left.references() if n.rpartition(".")[2] == c.name)
    ]
    if not shared:
        return f"{text} JOIN {right_text} ON {condition(maker, both, 1)}", both
    shared = maker.rng.sample(shared, 1)
    kind = maker.pick({"INNER": 2.0, "LEFT": 1.0, "RIGHT": 1.0, "FULL": 1.0})
    maker.note(f"{kind} USING")
    after = _after(left, right, both, kind)
    merged = list(after.merged)
    for column in shared:
        a = next(c for n, c in left.references() if n.rpartition(".")[2] == column.name)
        one = column if kind == "RIGHT" else a
        if kind == "FULL":
            one = replace(a, unit="exact" if a.unit == column.unit == "exact" else "")
        merged = [c for c in merged if c.name != column.name] + [
            replace(one, domain=one.domain and kind != "FULL")
        ]
    common = {n for n in names if n in {c.name for c in right.columns}}
    if kind == "INNER" and common == {shared[0].name} and maker.chance(0.5, "NATURAL JOIN"):
        return f"{text} NATURAL JOIN {right_text}", replace(after, merged=tuple(merged))
    word = "JOIN" if kind == "INNER" else f"{kind} JOIN"
    using = ", ".join(c.name for c in shared)
    return f"{text} {word} {right_text} USING ({using})", replace(after, merged=tuple(merged))


def _owned_join(
    maker: Maker, text: str, left: Scope, right_text: str, right: Item, both: Scope, extra: list[str]
) -> tuple[str, Scope]:
    """Join two owned relations on their unit."""
    kind = maker.pick(
        {
            "INNER": 3.0,
            "LEFT": 2.5,
            "RIGHT": 2.0,
            "FULL": 2.5,
            "SEMI": 1.2,
            "ANTI": 1.2,
            "comma": 1.2,
            "USING": 2.0,
        }
    )
    maker.note(f"owned-owned {kind}")
    mine, theirs = left.units(), [c for c in right.columns if c.unit]
    if maker.slip("unit equality"):
        mine = []
    if not mine or not theirs:  # the statement will be refused
        return f"{text} JOIN {right_text} ON {equality(maker, left, right, both)}", both
    shared = {c.name for c in theirs if c.unit == "exact"} & {
        n.rpartition(".")[2] for n, c in mine if c.unit == "exact"
    }
    if kind == "USING" and shared:
        return _using(maker, text, left, right_text, right, both, sorted(shared)[0])
    kind = "INNER" if kind == "USING" else kind
    a = mine[0][0] if maker.rng.random() < 0.8 else maker.rng.choice(mine)[0]
    b = f"{right.alias}.{maker.rng.choice(theirs).name}"
    links = [n for n in left.of("int") if n.endswith(".order_id")]
    if (
        links
        and any(c.name == "order_id" for c in right.columns)
        and maker.chance(0.5, "join on the parent key")
    ):
        a, b = links[0], f"{right.alias}.order_id"
    shared_keys = [
        (n, other)
        for mine, other in (("big", "receipt"), ("receipt", "big"), ("receipt", "receipt"))
        for n in left.of("int")
        if n.endswith(f".{mine}") and any(c.name == other for c in right.columns)
    ]
    if shared_keys and maker.chance(0.4, "join on a shared key"):
        a, b = shared_keys[0][0], f"{right.alias}.{shared_keys[0][1]}"
    on = f"{a} = {b}" if maker.rng.random() < 0.5 else f"{b} = {a}"
    if kind == "comma":
        extra.append(on)
        return f"{text}, {right_text}", both
    if maker.chance(0.35 if kind != "FULL" else 0.15, "more in ON of owned"):
        on += f" AND {lenient(maker, both) if kind != 'FULL' else equality(maker, left, right, both)}"
    word = {"INNER": "JOIN", "FULL": "FULL JOIN"}.get(kind, f"{kind} JOIN")
    return f"{text} {word} {right_text} ON {on}", _after(left, right, both, kind)
