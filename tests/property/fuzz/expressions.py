"""Random scalar expressions of a wanted kind over the names of a scope."""

from __future__ import annotations

from fuzz import subqueries
from fuzz.calls import by_result
from fuzz.scope import Maker, Scope

__all__ = ["choice", "condition", "lenient", "literal", "value"]

LITERALS = {
    "int": ["0", "1", "2", "3", "7", "-1", "2147483648", "9223372036854775807"],
    "dbl": ["0e0", "1.5e0", "1e308", "-2e0", "CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)"],
    "dec": ["1.5", "0.00", "10.25", "-2.25"],
    "text": ["'a'", "'b'", "'DE'", "''", "'É'", "'%a%'", "'it''s'"],
    "bool": ["TRUE", "FALSE"],
    "date": ["DATE '2024-01-05'", "CAST('2024-02-03' AS DATE)"],
    "ts": ["TIMESTAMP '2024-01-05 13:00:00'", "CAST('2024-02-03 01:02:03' AS TIMESTAMP)"],
    "time": ["TIME '13:14:15'"],
    "enum": ["'X'", "'Y'"],
}
"""What an analyst writes for a value of each kind; lists and UUIDs have no literal."""

CASTS = {
    "int": (("text", "dbl", "dec", "bool"), ("INTEGER", "BIGINT", "TINYINT", "UBIGINT")),
    "dbl": (("text", "int", "dec"), ("DOUBLE",)),
    "dec": (("text", "int", "dbl"), ("DECIMAL(9,2)", "DECIMAL(18,4)")),
    "text": (("int", "dbl", "dec", "date", "ts", "time", "bool", "enum", "uuid"), ("VARCHAR",)),
    "bool": (("text", "int"), ("BOOLEAN",)),
    "date": (("text", "ts"), ("DATE",)),
    "ts": (("text", "date"), ("TIMESTAMP",)),
    "time": (("text", "ts"), ("TIME",)),
}
SYNTAX = {
    "text": [
        ("{0}[1]", "text"),
        ("{0}[{1}]", "text"),
        ("{0}[2:3]", "text"),
        ("SUBSTRING({0} FROM 2 FOR 1)", "text"),
        ("TRIM(LEADING 'a' FROM {0})", "text"),
        ("OVERLAY({0} PLACING 'b' FROM 2 FOR 1)", "text"),
        ("({0} ->> '$.a')", "text"),
        ("{0}[1]", "texts"),
        ("{0}[{1}]", "texts"),
    ],
    "int": [
        ("POSITION('a' IN {0})", "text"),
        ("{0}[1]", "ints"),
        ("len(list_filter({0}, lambda p: p > 1))", "ints"),
    ],
    "texts": [
        ("list_transform({0}, lambda p: upper(p))", "texts"),
        ("list_filter({0}, lambda p: p <> 'a')", "texts"),
        ("{0}[1:2]", "texts"),
    ],
    "bool": [
        ("({0} LIKE 'a$%' ESCAPE '$')", "text"),
        ("({0} NOT ILIKE 'A%' ESCAPE '$')", "text"),
        ("({0} SIMILAR TO '[a-c]+')", "text"),
        ("({0} < current_date)", "date"),
        ("list_contains(list_transform({0}, lambda p: p + 1), 2)", "ints"),
    ],
}
"""Expressions with a syntax of their own, and the kind of what they are about."""

AGGREGATED = ("int", "text", "date", "dbl", "dec", "bool")
COMPARED = (
    "int",
    "int",
    "text",
    "text",
    "dbl",
    "dec",
    "date",
    "ts",
    "time",
    "bool",
    "enum",
    "uuid",
    "texts",
    "dbls",
)


def literal(maker: Maker, kind: str) -> str:
    """Write a constant of a kind."""
    return maker.rng.choice(LITERALS[kind]) if kind in LITERALS else "NULL"


def value(maker: Maker, scope: Scope, kind: str, depth: int = 2) -> str:
    """Write an expression of a kind."""
    rng = maker.rng
    names = scope.of(kind)
    if depth <= 0 or rng.random() < 0.35:
        return rng.choice(names) if names and rng.random() < 0.85 else literal(maker, kind)
    ways = {"call": 4.0, "CASE": 1.0, "choice": 1.0, "cast": 1.0 if kind in CASTS else 0.0}
    ways |= {
        "interval": 1.0 if kind == "ts" else 0.0,
        "negation": 0.5 if kind in ("int", "dbl", "dec") else 0.0,
    }
    ways |= {"extract": 0.6 if kind == "int" else 0.0, "json": 0.5 if kind == "text" else 0.0}
    ways["condition"] = 6.0 if kind == "bool" else 0.0
    ways["syntax"] = 1.0 if kind in SYNTAX else 0.0
    ways["scalar subquery"] = 0.25 if kind in AGGREGATED and subqueries.possible(maker, scope) else 0.0
    match maker.pick(ways):
        case "call":
            return _call(maker, scope, kind, depth)
        case "CASE":
            return _case(maker, scope, kind, depth)
        case "choice":
            return choice(maker, scope, kind, depth)
        case "cast":
            return _cast(maker, scope, kind, depth)
        case "interval":
            base = value(maker, scope, rng.choice(["date", "ts"]), depth - 1)
            part = rng.choice(["DAY", "MONTH", "HOUR"])
            return f"({base} {rng.choice('+-')} INTERVAL {rng.randint(0, 400)} {part})"
        case "negation":
            return f"(- {value(maker, scope, kind, depth - 1)})"
        case "extract":
            part = rng.choice(["year", "month", "dow", "doy", "week", "quarter"])
            return f"EXTRACT({part} FROM {value(maker, scope, rng.choice(['date', 'ts']), depth - 1)})"
        case "json":
            inner = value(maker, scope, "text", depth - 1)
            return f"json_extract_string({inner}, '$.{rng.choice('ab')}')"
        case "syntax":
            template, of = rng.choice(SYNTAX[kind])
            return template.format(value(maker, scope, of, depth - 1), value(maker, scope, "int", 0))
        case "scalar subquery":
            return subqueries.scalar(maker, scope, kind)
    return condition(maker, scope, depth - 1)


def choice(maker: Maker, scope: Scope, kind: str, depth: int) -> str:
    """Write COALESCE, IFNULL, GREATEST, LEAST, NULLIF or IF."""
    name = maker.rng.choice(["coalesce", "ifnull", "greatest", "least", "nullif", "if"])
    a, b = value(maker, scope, kind, depth - 1), value(maker, scope, kind, depth - 1)
    if name == "if":
        return f"if({condition(maker, scope, depth - 1)}, {a}, {b})"
    return f"{name}({a}, {b})"


def _call(maker: Maker, scope: Scope, kind: str, depth: int) -> str:
    calls = by_result().get(kind)
    if not calls:
        return literal(maker, kind)
    # Forms of one name (every date part is one) share that name's chance.
    name = maker.pick(dict.fromkeys(sorted({f"function {c.name}" for c in calls}), 1.0))
    call = maker.rng.choice([c for c in calls if f"function {c.name}" == name])
    parts = [
        maker.rng.choice(a[1:].split("\n")) if a.startswith("#") else value(maker, scope, a, depth - 1)
        for a in call.arguments
    ]
    return call.template.format(*parts)


def _case(maker: Maker, scope: Scope, kind: str, depth: int) -> str:
    a, b = value(maker, scope, kind, depth - 1), value(maker, scope, kind, depth - 1)
    if maker.rng.random() < 0.3:
        operand = maker.rng.choice(["int", "text"])
        of, when = value(maker, scope, operand, depth - 1), value(maker, scope, operand, depth - 1)
        return f"CASE {of} WHEN {when} THEN {a} ELSE {b} END"
    other = f" ELSE {b}" if maker.rng.random() < 0.8 else ""
    return f"CASE WHEN {condition(maker, scope, depth - 1)} THEN {a}{other} END"


def _cast(maker: Maker, scope: Scope, kind: str, depth: int) -> str:
    sources, targets = CASTS[kind]
    inner = value(maker, scope, maker.rng.choice(sources), depth - 1)
    target = maker.rng.choice(targets)
    match maker.rng.randrange(3):
        case 0:
            return f"CAST({inner} AS {target})"
        case 1:
            return f"TRY_CAST({inner} AS {target})"
    return f"({inner})::{target}"


def condition(maker: Maker, scope: Scope, depth: int = 2) -> str:
    """Write a predicate."""
    rng = maker.rng
    kinds = [k for k in COMPARED if scope.of(k)] or ["int"]
    kind = rng.choice(kinds)
    if depth > 0 and rng.random() < 0.35:
        a, b = condition(maker, scope, depth - 1), condition(maker, scope, depth - 1)
        match maker.pick({"AND": 2.0, "OR": 2.0, "NOT": 1.0}):
            case "NOT":
                return f"(NOT {a})"
            case word:
                return f"({a} {word} {b})"
    if depth > 0 and subqueries.possible(maker, scope) and maker.chance(0.06, "subquery in a condition"):
        return subqueries.subquery_condition(maker, scope)
    a = value(maker, scope, kind, depth - 1)
    ways = {"comparison": 4.0, "IS NULL": 1.5, "IN": 1.5, "BETWEEN": 1.0, "IS DISTINCT FROM": 0.7}
    ways |= {"boolean": 1.0, "IS TRUE": 0.5, "predicate call": 1.0, "LIKE": 1.0 if kind == "text" else 0.0}
    ways["number kinds"] = 0.6 if kind in ("int", "dec", "dbl") else 0.0
    match maker.pick(ways):
        case "IS NULL":
            return f"({a} IS {rng.choice(['', 'NOT '])}NULL)"
        case "IN":
            if kind not in LITERALS:
                return f"({a} IS NULL)"
            items = [
                literal(maker, kind) if rng.random() < 0.8 else value(maker, scope, kind, 0) for _ in range(3)
            ]
            return f"({a} {rng.choice(['', 'NOT '])}IN ({', '.join(items)}))"
        case "BETWEEN":
            low, high = value(maker, scope, kind, depth - 1), value(maker, scope, kind, depth - 1)
            return f"({a} BETWEEN {low} AND {high})"
        case "IS DISTINCT FROM":
            return f"({a} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {value(maker, scope, kind, depth - 1)})"
        case "boolean":
            return value(maker, scope, "bool", depth - 1)
        case "IS TRUE":
            word = rng.choice(["TRUE", "FALSE", "NOT TRUE", "NOT FALSE"])
            return f"({condition(maker, scope, depth - 1)} IS {word})"
        case "predicate call":
            return _call(maker, scope, "bool", depth)
        case "LIKE":
            pattern = rng.choice(["'%a%'", "'_'", "'a%'", "''", *scope.of("text")])
            return f"({a} {rng.choice(['LIKE', 'NOT LIKE', 'ILIKE', 'GLOB'])} {pattern})"
        case "number kinds":
            other = rng.choice([k for k in ("int", "dec", "dbl") if k != kind])
            return f"({a} {_operator(maker)} {value(maker, scope, other, depth - 1)})"
    return f"({a} {_operator(maker)} {value(maker, scope, kind, depth - 1)})"


def lenient(maker: Maker, scope: Scope) -> str:
    """Write a predicate that most rows meet, so that joins and filters leave something to count."""
    made = condition(maker, scope, 1)
    names = [n for n, _ in scope.references()]
    if not names or maker.rng.random() < 0.4:
        return made
    name = maker.rng.choice(names)
    match maker.rng.randrange(3):
        case 0:
            return f"({made} OR {name} IS NOT NULL)"
        case 1:
            return f"(({made}) IS NOT FALSE)"
    return f"(NOT ({made} AND {name} IS NULL))"


def _operator(maker: Maker) -> str:
    return maker.rng.choice(["=", "<>", "<", "<=", ">", ">=", "="])
