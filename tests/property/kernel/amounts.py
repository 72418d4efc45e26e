"""Random statements of sums, averages, variances, quantiles and different values of a world."""

from __future__ import annotations

from random import Random

__all__ = ["amounts"]

NUMBERS = {
    "visits": ("ms", "price", "score", "ms + 1", "CASE WHEN flag THEN ms ELSE 2 END", "abs(price)"),
    "users": ("age", "level", "age * 2"),
    "orders": ("total", "big", "total * 2"),
    "items": ("qty", "weight"),
    "likes": ("stars",),
    "devices": ("ms",),
    "logs": ("ms", "score"),
}
KEYS = {
    "visits": ("page", "country", "ms", "flag", "day"),
    "users": ("city", "age"),
    "orders": ("page",),
    "items": ("sku", "qty"),
    "likes": ("stars", "page"),
    "devices": ("os", "ms"),
    "logs": ("level", "page"),
}
OPEN = {"visits": ("note", "moment"), "users": ("note",), "orders": ("day",), "likes": ("note",)}
"""Keys without a domain."""
BOUNDS = ("(0, 5)", "(0, 1)", "(1, 4)", "(-3, 7)", "(-5, -1)", "(0.1, 0.3)", "(2, 9000000000)", "(0, 0)")
OPTIONS = ("max_rows_contributed", "max_groups_contributed")


def amounts(rng: Random) -> str:
    """Draw a statement of one to three numbers of one table; it may be refused."""
    table = rng.choice((*NUMBERS, "visits", "items"))
    value = rng.choice(NUMBERS[table])
    listed = [_number(rng, value, table) for _ in range(rng.choice((1, 1, 2, 3)))]
    by = rng.sample(KEYS[table], min(len(KEYS[table]), rng.choice((0, 1, 1, 1, 2))))
    options = [f"{name} => {rng.choice((1, 2, 3))}" for name in OPTIONS if rng.random() < 0.3]
    if table in OPEN and rng.random() < 0.2:
        by = [rng.choice(OPEN[table])]
        options.append("delta => 1e-6")
    words = "WITH DIFFERENTIAL_PRIVACY "
    words += f"OPTIONS ({', '.join(o.replace(' =>', ' =') for o in options)}) " if options else ""
    numbers = ", ".join(f"{text} AS n{i}" for i, text in enumerate(listed))
    where = rng.choice(("", "", "", f" WHERE {value} > 0", f" WHERE {value} IS NOT NULL"))
    source = table
    if rng.random() < 0.2 and table not in ("logs",):
        unit = {"devices": "device_id", "items": "order_id"}.get(table, "user_id")
        names = ", ".join(dict.fromkeys((*KEYS[table], *(w for w in ("flag",) if table == "visits"))))
        one = f"MAX({value})" if rng.random() < 0.5 else f"SUM({value})"
        source = f"(SELECT {unit}, {names}, {one} AS v FROM {table} GROUP BY {unit}, {names}) AS x"
        numbers = numbers.replace(value, "v")
        where = ""
    text = f"SELECT {words}{', '.join([*by, numbers])} FROM {source}{where}"
    return text + (f" GROUP BY {', '.join(by)}" if by else "")


def _number(rng: Random, value: str, table: str) -> str:
    kind = rng.randrange(10)
    tail = rng.choice(("", "", "", " FILTER (WHERE flag)" if table == "visits" else ""))
    if kind == 0:
        return f"COUNT(*){tail}"
    if kind == 1:
        return f"COUNT({value}){tail}"
    if kind == 2:
        return f"COUNT(DISTINCT {rng.choice((value, *KEYS[table]))})"
    bounds = rng.choice(BOUNDS)
    if kind == 3:
        name = rng.choice(("MEDIAN", "MIN", "MAX"))
        return f"{name}({value}, contribution_bounds_per_row => {bounds})"
    if kind == 4:
        return f"{rng.choice(('SUM', 'AVG'))}({value}, contribution_bounds => AUTO){tail}"
    if kind == 5:
        return f"{rng.choice(('SUM', 'AVG'))}({value}, contribution_bounds_per_group => {bounds}){tail}"
    name = rng.choice(("SUM", "SUM", "AVG", "VAR_POP", "STDDEV"))
    return f"{name}({value}, contribution_bounds_per_row => {bounds}){tail}"
