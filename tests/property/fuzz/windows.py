"""Random window functions within one unit: ranks, neighbours, running sums; with frames and QUALIFY."""

from __future__ import annotations

from fuzz.expressions import value
from fuzz.scope import Maker, Scope

__all__ = ["over", "window"]

RANKS = {"RANK()": "int", "DENSE_RANK()": "int", "PERCENT_RANK()": "dbl", "CUME_DIST()": "dbl"}
PLACED = ["LAG({0})", "LEAD({0}, 2)", "FIRST_VALUE({0})", "LAST_VALUE({0})", "NTH_VALUE({0}, 2)"]
FRAMES = [
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
]


def window(maker: Maker, scope: Scope, unit: str | None) -> tuple[str, str]:
    """Write a window function over the rows of a unit; return it and the kind of its result."""
    rng = maker.rng
    way = maker.pick({"rank": 2.0, "ROW_NUMBER": 1.5, "NTILE": 0.4, "neighbour": 2.0, "running": 3.0})
    call, kind = "ROW_NUMBER()", "int"
    if way == "rank":
        call = rng.choice(list(RANKS))
        kind = RANKS[call]
    elif way == "NTILE":
        call = "NTILE(2)"
    elif way == "neighbour":
        kind = rng.choice(["int", "text", "date", "dbl", "dec"])
        call = rng.choice(PLACED).format(value(maker, scope, kind, 1))
    elif way == "running":
        of = rng.choice(["int", "int", "dec", "date", "text"])
        name = rng.choice(["COUNT", "MIN", "MAX", *(["SUM", "AVG"] if of in ("int", "dec") else [])])
        kind = {"COUNT": "int", "AVG": "dbl"}.get(name, of)
        call = "COUNT(*)" if rng.random() < 0.2 else f"{name}({value(maker, scope, of, 1)})"
        kind = "int" if call == "COUNT(*)" else kind
    return f"{call} OVER ({over(maker, scope, unit, frames=way in ('running', 'neighbour'))})", kind


def over(maker: Maker, scope: Scope, unit: str | None, *, frames: bool) -> str:
    """Write what stands in the parentheses after OVER."""
    rng = maker.rng
    others = [n for n, c in scope.references() if not c.unit]
    parts = [*([unit] if unit else []), *rng.sample(others, min(len(others), rng.choice([0, 0, 1])))]
    partition = f"PARTITION BY {', '.join(parts)}" if parts else ""
    by = rng.choice(others) if others else unit or "1"
    if not frames or rng.random() < 0.7:
        order = f" ORDER BY {by}{rng.choice(['', ' DESC', ' NULLS FIRST'])}"
        return (partition + order + (rng.choice(FRAMES) if frames else "")).strip()
    return partition
