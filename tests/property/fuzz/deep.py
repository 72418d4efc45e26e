# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Random statements of several operators: chosen values of units as keys, declared facts, first rows, windows.

The rows of `visits` go through some operators, each a subquery of the one before, before anything is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

__all__ = ["FORMS"]

_COLUMNS = "user_id, page, country, ms, day, note, flag"
_WHERE = (
    "",
    "",
    " WHERE flag",
    " WHERE ms > 2",
    " WHERE country = 'DE'",
    " WHERE page <> 'b' OR page IS NULL",
)
_UNITS = ("COUNT(DISTINCT user_id)", "COUNT(*)", "COUNT(*, contribution_bounds_per_group => (0, 2))")
_NUMBERS = (*_UNITS, "SUM(ms)", "AVG(ms)")


def _operate(rng: Random, rows: str) -> str:
    """Return the rows of a SELECT after one more operator, with the same columns."""
    source = f"({rows}) AS q"
    other = _COLUMNS.replace("user_id, ", "")
    return rng.choice(
        (
            f"SELECT {_COLUMNS} FROM {source} WHERE {rng.choice(('flag', 'ms > 1', 'country IS NOT NULL', 'day > DATE {}'.format(repr('2024-01-03'))))}",
            f"SELECT DISTINCT {_COLUMNS} FROM {source}",
            f"SELECT q.user_id, q.page, q.country, p.rank AS ms, q.day, q.note, q.flag FROM {source} JOIN pages p ON p.page = q.page",
            f"SELECT q.user_id, q.page, q.country, q.ms, q.day, p.category AS note, q.flag FROM {source} LEFT JOIN pages p ON p.page = q.page",
            f"SELECT q.user_id, q.page, q.country, q.ms, q.day, q.note, u.vip AS flag FROM {source} {rng.choice(('JOIN', 'LEFT JOIN'))} users u ON u.user_id = q.user_id",
            f"SELECT {_COLUMNS} FROM {source} UNION ALL SELECT user_id, page, NULL, 1, day, NULL, total > 1 FROM orders",
            f"SELECT {_COLUMNS} FROM {source} WHERE {rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM orders o WHERE o.user_id = q.user_id{rng.choice(('', ' AND o.page = q.page', ' AND o.total > 1'))})",
            f"SELECT {_COLUMNS} FROM {source} QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id{rng.choice(('', ', country'))} ORDER BY ms, day, {other.replace('ms, day, ', '')}) <= {rng.randint(1, 3)}",
            f"SELECT user_id, MIN(page) AS page, country, COUNT(*) AS ms, MAX(day) AS day, MAX(note) AS note, bool_or(flag) AS flag FROM {source} GROUP BY user_id, country",
            f"SELECT user_id, page, country, SUM(ms) OVER (PARTITION BY user_id, page) AS ms, day, note, flag FROM {source}",
            f"SELECT user_id, page, LAG(country) OVER (PARTITION BY user_id ORDER BY day, {other.replace('day, ', '')}) AS country, ms, day, note, flag FROM {source}",
            f"SELECT user_id, page, country, ms, MIN(day) OVER (PARTITION BY user_id) AS day, note, flag FROM {source}",
        )
    )


def _rows(rng: Random, least: int = 0, most: int = 3) -> str:
    """Write a FROM item of so many operators."""
    operators = rng.randint(least, most)
    if not operators:
        return "visits"
    rows = f"SELECT {_COLUMNS} FROM visits{rng.choice(_WHERE)}"
    for _ in range(operators - 1):
        rows = _operate(rng, rows)
    return f"({rows}) AS v"


_CHOICES = (
    "MIN(day)",
    "MAX(day)",
    "arg_max(country, day)",
    "arg_min(page, ms)",
    "arg_max(page, day) FILTER (WHERE flag)",
    "FIRST(country ORDER BY day, ms, country)",
    "LAST(page ORDER BY day, page)",
    "MAX(country)",
    "MIN(ms)",
    "COUNT(DISTINCT page)",
)
_OF_CHOICE = ("{}", "{}", "{}", "{} IS NULL", "CASE WHEN {} IS NULL THEN 0 ELSE 1 END")
_OF_DAY = ("date_trunc('month', {})", "EXTRACT(MONTH FROM {})", "date_diff('month', {}, DATE '2024-02-20')")


def _of(rng: Random, choice: str, name: str) -> str:
    return rng.choice((*_OF_CHOICE, *(_OF_DAY if "(day)" in choice else ()))).format(name)


def _cohorts(rng: Random) -> str:
    """Write a chosen value of each unit as a key, alone, with another one, or beside the unit's rows."""
    first, second = rng.sample(_CHOICES, 2)
    inner = f"SELECT user_id, {first} AS k, {second} AS j, COUNT(*) AS c FROM {_rows(rng, 0, 2)}{rng.choice(_WHERE[:3])} GROUP BY user_id"
    key, other = _of(rng, first, "k"), _of(rng, second, "j")
    count = rng.choice(
        ("COUNT(*)", "COUNT(DISTINCT user_id)", "SUM(c, contribution_bounds_per_group => (0, 3))")
    )
    by_sets = rng.choice(("1", "1, 2", "ROLLUP (1, 2)"))
    return rng.choice(
        (
            f"SELECT {key} AS x, {count} AS n FROM ({inner}) AS t GROUP BY 1",
            f"SELECT {key} AS x, {other} AS y, {count} AS n FROM ({inner}) AS t GROUP BY {by_sets if by_sets != '1' else '1, 2'}",
            f"SELECT {key.replace('k', 't.k', 1) if key == 'k' else key} AS x, {rng.choice(('COUNT(*)', 'COUNT(DISTINCT v.user_id)'))} AS n FROM ({inner}) AS t JOIN visits v ON v.user_id = t.user_id GROUP BY 1",
            f"SELECT {key} AS x, {count} AS n FROM ({inner}) AS t WHERE c > 1 GROUP BY 1 ORDER BY n DESC LIMIT 2",
        )
    )


def _chosen_by_window(rng: Random) -> str:
    order = "ORDER BY day, ms, page, country, note"
    call = rng.choice(
        (
            f"LAG(country) OVER (PARTITION BY user_id {order})",
            f"LEAD(page) OVER (PARTITION BY user_id {order})",
            f"FIRST_VALUE(country) OVER (PARTITION BY user_id {order})",
            "MIN(day) OVER (PARTITION BY user_id)",
            f"LAG(day, 2) OVER (PARTITION BY user_id {order})",
            f"LAST_VALUE(page) OVER (PARTITION BY user_id {order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        )
    )
    key = _of(rng, call, "k")
    inner = f"SELECT user_id, country, ms, {call} AS k FROM {_rows(rng, 0, 2)}"
    more = rng.choice(("", ", country"))
    return (
        f"SELECT {key} AS x{more}, {rng.choice(_UNITS)} AS n FROM ({inner}) AS t GROUP BY 1{more and ', 2'}"
    )


def _chosen_by_subquery(rng: Random) -> str:
    choice = rng.choice(("MAX(v.day)", "MIN(v.day)", "arg_max(v.country, v.day)", "MAX(v.page)", "COUNT(*)"))
    more = rng.choice(("", " AND v.flag", " AND v.day > DATE '2024-01-02'"))
    tied = f"(SELECT {choice} FROM visits v WHERE v.user_id = u.user_id{more})"
    key = _of(rng, choice.replace("v.", ""), "k")
    source = rng.choice(("users", "orders"))
    count = rng.choice(_UNITS)
    return f"SELECT {key} AS x, {count} AS n FROM (SELECT u.user_id, {tied} AS k FROM {source} u) AS t GROUP BY 1"


def _declared_facts(rng: Random) -> str:
    count = rng.choice(("COUNT(*)", "COUNT(DISTINCT o.user_id)"))
    side = rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
    unit = "COALESCE(o.user_id, l.user_id)" if side == "FULL JOIN" else "o.user_id"
    last = rng.choice(("MAX", "MIN"))
    return rng.choice(
        (
            f"SELECT {rng.choice(('COUNT(*)', f'COUNT(DISTINCT {unit})'))} AS n FROM orders o {side} likes l ON l.receipt = o.big{rng.choice(('', ' AND l.stars > 1'))}",
            f"SELECT {count} AS n FROM orders o JOIN orders b ON b.day = o.day AND b.order_id < o.order_id{rng.choice(('', ' AND b.total > 1'))}",
            f"SELECT {count} AS n FROM orders o WHERE {rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM orders b WHERE b.day = o.day AND b.total > o.total)",
            f"SELECT {count} AS n FROM orders o WHERE big IN (SELECT receipt FROM likes{rng.choice(('', ' WHERE stars > 1'))})",
            f"SELECT COUNT(*) AS n FROM users WHERE joined {rng.choice(('=', '<', '>='))} (SELECT {last}(joined) FROM users)",
            f"SELECT page, {rng.choice(('MIN', 'MAX', 'ANY_VALUE'))}(country) AS c, COUNT(*) AS n FROM visits{rng.choice(_WHERE)} GROUP BY page",
            f"SELECT COUNT(*) AS n FROM (SELECT day, COUNT(*) AS c FROM orders o GROUP BY day HAVING COUNT(*) > {rng.randint(0, 1)}) AS t",
            "SELECT i.sku, COUNT(*) AS n FROM items i JOIN orders o ON o.order_id = i.order_id GROUP BY i.sku",
        )
    )


def _first_rows(rng: Random) -> str:
    """Write numbers of the first rows of all units in an order."""
    number = rng.choice(
        ("COUNT(*)", "SUM(ms)", "AVG(ms)", "SUM(ms) AS s, COUNT(*)", "COUNT(*) FILTER (WHERE flag)")
    )
    order = f"{rng.choice(('ms', 'day'))}{rng.choice(('', ' DESC', ' DESC NULLS LAST'))}"
    rows, most = _rows(rng, 0, 3), rng.randint(1, 9)
    number = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = {rng.randint(1, 3)}) {number}"
    if rng.random() < 0.5:
        return f"SELECT {number} AS n FROM (SELECT * FROM {rows} ORDER BY {order} LIMIT {most}) AS t"
    return f"SELECT {number} AS n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY {order}) AS r FROM {rows}) AS t WHERE r <= {most}"


def _few_deep(rng: Random) -> str:
    """Write groups of rows of many units, grouped, filtered or joined again before they are counted."""
    key = rng.choice(("note", "page, country", "country, ms", "day", "note, flag", "page"))
    first = key.split(", ")[0]
    having = rng.choice(
        (
            "",
            f" HAVING COUNT(*) > {rng.randint(0, 2)}",
            " HAVING MAX(ms) > 2",
            " HAVING COUNT(DISTINCT user_id) > 1",
        )
    )
    made = f"SELECT {key}, COUNT(*) AS c, MAX(ms) AS b FROM {_rows(rng, 0, 3)} GROUP BY {key}{having}"
    for _ in range(rng.randint(0, 2)):
        made = rng.choice(
            (
                f"SELECT {first}, c, b FROM ({made}) AS t WHERE c {rng.choice(('> 1', '= 1', '<= 2'))}",
                f"SELECT {first}, COUNT(*) AS c, MAX(b) AS b FROM ({made}) AS t GROUP BY {first}",
                f"SELECT DISTINCT {first}, 1 AS c, 2 AS b FROM ({made}) AS t",
                f"SELECT t.{first}, t.c, t.b FROM ({made}) AS t JOIN pages p ON p.page = t.{first}"
                if first in ("page", "note")
                else made,
                f"SELECT c AS {first}, COUNT(*) AS c, 1 AS b FROM ({made}) AS t GROUP BY c"
                if first == "ms"
                else made,
            )
        )
    number = rng.choice(
        (
            "COUNT(*)",
            "COUNT(*)",
            "SUM(LEAST(c, 3))",
            "COUNT(*) FILTER (WHERE b > 2)",
            "SUM(CASE WHEN c > 1 THEN 1 ELSE -1 END)",
        )
    )
    options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = {rng.randint(1, 3)}) "
    return f"SELECT {options}{number} AS n FROM ({made}) AS t{rng.choice(('', ' WHERE c > 1'))}"


def _windows_of_releases(rng: Random) -> str:
    key = rng.choice(("day", "country", "page", "date_trunc('month', day)", "ms"))
    number = rng.choice(("COUNT(*)", "COUNT(DISTINCT user_id)", "SUM(ms)", "AVG(ms)"))
    window = rng.choice(
        (
            f"AVG({number}) OVER ()",
            f"LAG({number}) OVER (ORDER BY {key})",
            f"SUM({number}) OVER (ORDER BY {key} ROWS 2 PRECEDING)",
            f"{number} / SUM({number}) OVER ()",
            f"RANK() OVER (ORDER BY {number} DESC)",
            f"MAX({number}) OVER ()",
        )
    )
    rows = _rows(rng, 0, 3)
    return rng.choice(
        (
            f"SELECT {key} AS k, {window} AS w FROM {rows} GROUP BY {key}",
            f"SELECT {key} AS k, {number} AS n FROM {rows} GROUP BY {key} ORDER BY {key} {rng.choice(('', 'DESC '))}LIMIT {rng.randint(1, 7)}",
            f"SELECT AVG(n) AS a, COUNT(*) AS m FROM (SELECT {key} AS k, {number} AS n FROM {rows} GROUP BY {key}) AS t",
            f"SELECT {key} AS k, {number} AS n FROM {rows} GROUP BY {key} HAVING {number} > 1 ORDER BY n LIMIT 3",
        )
    )


def _sets_deep(rng: Random) -> str:
    first, second = rng.sample(("country", "page", "flag", "date_trunc('month', day)"), 2)
    by = rng.choice(("ROLLUP (1, 2)", "CUBE (1, 2)", "GROUPING SETS ((1), (2), ())", "ROLLUP (1, 2)"))
    number = rng.choice(("COUNT(*)", "COUNT(DISTINCT user_id)", "SUM(ms)", "AVG(ms)"))
    return f"SELECT {first} AS a, {second} AS b, {number} AS n FROM {_rows(rng, 1, 3)} GROUP BY {by}"


def _found_deep(rng: Random) -> str:
    key = rng.choice(("page", "country", "ms", "day"))
    inner = f"SELECT {key} FROM {_rows(rng, 1, 3)}{rng.choice(_WHERE[:4])}"
    where = f"{key} {rng.choice(('', 'NOT '))}IN ({inner})"
    return f"SELECT {rng.choice(_UNITS)} AS n FROM {_rows(rng, 0, 2)} WHERE {where}"


def _released_deep(rng: Random) -> str:
    value = rng.choice(("AVG(ms)", "QUANTILE_DISC(ms, 0.9)", "COUNT(*) / 3", "MEDIAN(ms)"))
    inner = f"(SELECT {value} FROM {_rows(rng, 1, 3)}{rng.choice(_WHERE[:3])})"
    key = rng.choice(("", "country", "page"))
    head, tail = (f"{key}, ", f" GROUP BY {key}") if key else ("", "")
    return f"SELECT {head}{rng.choice(_NUMBERS)} AS n FROM {_rows(rng, 0, 2)} WHERE ms > {inner}{tail}"


def _owned_deep(rng: Random) -> str:
    keys = rng.sample(("country", "page", "flag", "ms", "date_trunc('month', day)"), rng.choice((0, 1, 1, 2)))
    head = "".join(f"{key}, " for key in keys)
    tail = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return f"SELECT {head}{rng.choice(_NUMBERS)} AS n FROM {_rows(rng, 2, 4)}{rng.choice(_WHERE)}{tail}"


def _joined_groups(rng: Random) -> str:
    key = rng.choice(("note", "country", "page"))
    one = f"SELECT {key}, COUNT(*) AS n FROM {_rows(rng, 0, 2)} GROUP BY {key}"
    two = f"SELECT {key}, COUNT(DISTINCT user_id) AS m FROM {_rows(rng, 0, 1)} WHERE flag GROUP BY {key}"
    side = rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
    shown = rng.choice((f"a.{key}, n, m", "COUNT(*)"))
    return f"SELECT {shown} FROM ({one}) AS a {side} ({two}) AS b ON b.{key} = a.{key}"


FORMS: dict[str, tuple[float, Callable[[Random], str]]] = {
    "cohorts of chosen values": (2.5, _cohorts),
    "keys chosen by windows": (1.5, _chosen_by_window),
    "keys chosen by subqueries": (1.0, _chosen_by_subquery),
    "declared facts": (1.5, _declared_facts),
    "first rows": (1.5, _first_rows),
    "few rows, grouped again": (2.0, _few_deep),
    "windows and limits of groups": (1.5, _windows_of_releases),
    "grouping sets of several operators": (1.0, _sets_deep),
    "found values of several operators": (1.5, _found_deep),
    "released number of several operators": (1.0, _released_deep),
    "rows of several operators": (2.0, _owned_deep),
    "joined groups": (1.0, _joined_groups),
}
"""The forms, by which a campaign counts, with their weights."""
