# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Random statements about values of many units: lists, found values, released constants, public rows chosen.

Each has a form, by which a campaign counts what it has met. The tables are those of `world`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz import deep
from fuzz.statements import Statement

__all__ = ["FORMS", "draw"]

_KEYS = ("page", "country", "ms", "day", "flag", "score", "moment::DATE", "upper(page)", "ms % 3")
_WHERE = (
    "",
    "",
    " WHERE flag",
    " WHERE ms > 2",
    " WHERE country = 'DE'",
    " WHERE ms IN (1, 2, 3) OR page = 'a'",
)
_UNITS = ("COUNT(DISTINCT user_id)", "COUNT(*)", "COUNT(*, contribution_bounds_per_group => (0, 2))")
_OF_ORDERS = ("", " WHERE total > 1", " WHERE big <> 2")


def _and(where: str, condition: str) -> str:
    return f"{where} AND {condition}" if where else f" WHERE {condition}"


def _rows(rng: Random) -> tuple[str, str, str]:
    """Return a table, a key of it, and a condition."""
    if rng.random() < 0.75:
        return "visits", rng.choice(_KEYS), rng.choice(_WHERE)
    return "orders", rng.choice(("page", "total > 1")), rng.choice(_OF_ORDERS)


def _bounded(rng: Random, number: str = "*") -> str:
    return f"COUNT({number}, contribution_bounds_per_group => (0, {rng.randint(1, 3)}))"


def _value_call(name: str) -> Callable[[Random], str]:
    def written(rng: Random) -> str:
        table, key, where = _rows(rng)
        if rng.random() < 0.15 and table == "visits":
            key = "note"
        item = {
            "MODE": rng.choice((f"MODE({key})", f"MODE() WITHIN GROUP (ORDER BY {key})")),
            "APPROX_TOP_K": f"APPROX_TOP_K({key}, {rng.randint(1, 4)})",
            "STRING_AGG DISTINCT": f"STRING_AGG(DISTINCT ({key}){rng.choice(('', '::VARCHAR'))}, ',')",
            "LIST DISTINCT": f"{rng.choice(('LIST', 'ARRAY_AGG'))}(DISTINCT {key})",
        }[name]
        if rng.random() < 0.2:
            item += " FILTER (WHERE page <> 'b')"
        more = rng.choice(("", "", ", COUNT(*) AS n"))
        return f"SELECT {item} AS l{more} FROM {table}{where}"

    return written


def _quantiles(rng: Random) -> str:
    call = rng.choice(("QUANTILE_CONT", "QUANTILE_DISC"))
    shares = rng.choice(("[0.25, 0.75]", "[0.5]", "[0.1, 0.5, 0.9]"))
    by = rng.choice(("", "", "country", "flag"))
    head, tail = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    return f"SELECT {head}{call}({rng.choice(('ms', 'day'))}, {shares}) AS q FROM visits{rng.choice(_WHERE)}{tail}"


def _set_operation(rng: Random) -> str:
    key = rng.choice(("page", "page", "upper(page)", "day", "note", "note, country"))
    tables = ["visits", "orders", *(["likes"] if key != "day" else [])]
    if "note" in key:
        tables = ["visits", "visits", *(["users", "likes"] if key == "note" else [])]
    branches = [f"SELECT {key} FROM {rng.choice(tables)}" for _ in range(rng.choice((2, 2, 3)))]
    branches[0] += rng.choice(("", " WHERE user_id IS NOT NULL"))
    if "note" in key:
        branches[-1] += rng.choice(("", " WHERE ms > 2")) if "visits" in branches[-1] else ""
    if rng.random() < 0.25 and key == "page":
        branches[-1] = "SELECT page AS k FROM pages"
    words = [rng.choice(("INTERSECT", "EXCEPT", "UNION")) for _ in branches]
    made = branches[0] + "".join(f" {w} {b}" for w, b in zip(words, branches[1:], strict=False))
    return rng.choice((made, f"SELECT COUNT(*) AS n FROM ({made}) AS t"))


def _condition_of_values(rng: Random, alias: str, *, by: str = "page") -> str:
    """Write a condition that a public row meets because some private row has its value."""
    table, where = rng.choice(
        (("visits", rng.choice(_WHERE)), ("orders", rng.choice(_OF_ORDERS)), ("likes", ""))
    )
    no = rng.choice(("", "NOT "))
    if rng.random() < 0.5:
        tie = f"v.{by} = {alias}.{by}"
        inner = _and("" if not where else where.replace(" WHERE ", " WHERE (", 1) + ")", tie)
        return f"{no}EXISTS (SELECT 1 FROM {table} v{inner})"
    return f"{alias}.{by} {no}IN (SELECT {by} FROM {table}{where})"


def _public_rows(rng: Random) -> str:
    condition = _condition_of_values(rng, "p")
    more = rng.choice(("", "", " AND p.rank > 1"))
    if rng.random() < 0.4:
        tail = rng.choice(("", " ORDER BY n DESC LIMIT 2", " ORDER BY 1"))
        return (
            f"SELECT p.category, COUNT(*) AS n FROM pages p WHERE {condition}{more} GROUP BY p.category{tail}"
        )
    return f"SELECT COUNT(*) AS n FROM pages p WHERE {condition}{more}"


def _anti_join(rng: Random) -> str:
    more = rng.choice(("", " AND v.flag", " AND v.ms > 2"))
    what, by = rng.choice(
        (("COUNT(*)", ""), ("p.page", ""), ("p.category, COUNT(*)", " GROUP BY p.category"))
    )
    return f"SELECT {what} AS n FROM pages p LEFT JOIN visits v ON v.page = p.page{more} WHERE v.page IS NULL{by}"


def _unit_rows(rng: Random) -> str:
    """Write rows of units that rows of others choose by a column that is not the unit."""
    listed = rng.choice(("SELECT ms FROM visits", "SELECT big FROM orders", "SELECT qty FROM items"))
    if rng.random() < 0.5:
        return f"SELECT COUNT(*) AS n FROM users u WHERE u.age {rng.choice(('', 'NOT '))}IN ({listed})"
    column = listed.split()[1]
    return f"SELECT COUNT(*) AS n FROM users u WHERE EXISTS ({listed} x WHERE x.{column} = u.age)"


def _different_rows(rng: Random) -> str:
    _, key, where = _rows(rng)
    keys = ", ".join(
        dict.fromkeys((*rng.sample(("page", "country", "ms", "day", "note"), rng.choice((1, 2, 2, 3))),))
    )
    if rng.random() < 0.4 and ", " in keys:
        return f"SELECT {rng.choice((f'COUNT(DISTINCT ({keys}))', f'COUNT(DISTINCT ROW({keys}))'))} AS n FROM visits"
    del key
    where = where if "total" not in where and "big" not in where else ""
    return f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT {keys} FROM visits{where}) AS t"


def _owned_keys(rng: Random) -> str:
    return rng.choice(
        (
            "SELECT COUNT(*) AS n FROM (SELECT DISTINCT order_id FROM orders) AS t",
            "SELECT COUNT(DISTINCT order_id) AS n FROM orders WHERE total > 1",
            "SELECT page, COUNT(DISTINCT order_id) AS n FROM orders GROUP BY page",
            "SELECT COUNT(DISTINCT receipt) AS n FROM likes",
            "SELECT COUNT(DISTINCT o.order_id) AS n FROM orders o JOIN items i ON i.order_id = o.order_id",
            "SELECT COUNT(*) AS n FROM (SELECT DISTINCT order_id, sku FROM items) AS t",
        )
    )


def _places(rng: Random) -> str:
    key = rng.choice(("country", "page", "ms", "day", "flag"))
    n = rng.choice(_UNITS)
    window = rng.choice(
        (
            f"LAG({n}) OVER (ORDER BY {key})",
            f"LEAD({n}, 2) OVER (ORDER BY {key} DESC)",
            f"RANK() OVER (ORDER BY {n} DESC)",
            f"{n} - LAG({n}) OVER (ORDER BY {key})",
            f"ROW_NUMBER() OVER (ORDER BY {key})",
            "LAG(SUM(ms)) OVER (ORDER BY 1)",
            f"LAG(SUM(ms)) OVER (ORDER BY {key})",
        )
    )
    return f"SELECT {key} AS k, {n} AS n, {window} AS w FROM visits{rng.choice(_WHERE)} GROUP BY {key}"


def _largest_sum(rng: Random) -> str:
    number = rng.choice(("SUM(ms)", "SUM(ms)", "AVG(ms)", "COUNT(*)"))
    first, second = rng.sample(("country", "page", "flag"), 2)
    if rng.random() < 0.6:
        tail = (
            f" QUALIFY ROW_NUMBER() OVER (PARTITION BY {first} ORDER BY {number} DESC) <= {rng.randint(1, 2)}"
        )
        return f"SELECT {first}, {second}, {number} AS n FROM visits{rng.choice(_WHERE)} GROUP BY 1, 2{tail}"
    tail = f" ORDER BY {rng.choice((number, 'n'))} DESC LIMIT {rng.randint(1, 3)}"
    return f"SELECT {first}, {number} AS n FROM visits{rng.choice(_WHERE)} GROUP BY {first}{tail}"


def _found(rng: Random) -> str:
    key, no = rng.choice((*_KEYS[:4], "note")), rng.choice(("", "NOT "))
    listed = rng.choice(
        (
            f"SELECT {key} FROM visits WHERE ms > 2",
            f"SELECT DISTINCT {key} FROM visits",
            f"SELECT {key} FROM visits GROUP BY 1",
        )
    )
    if key == "page" and rng.random() < 0.4:
        listed = rng.choice(("SELECT page FROM orders WHERE total > 1", "SELECT page FROM likes"))
    more = rng.choice(("", " AND flag"))
    by = rng.choice(("", "", "country"))
    head, tail = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    return f"SELECT {head}{rng.choice(_UNITS)} AS n FROM visits WHERE {key} {no}IN ({listed}){more}{tail}"


def _released_number(rng: Random) -> str:
    value = rng.choice(
        ("AVG(ms)", "QUANTILE_DISC(ms, 0.9)", "COUNT(*) / 3", "SUM(ms) / COUNT(*)", "MEDIAN(ms)")
    )
    return (
        f"SELECT {rng.choice(_UNITS)} AS n FROM visits "
        f"WHERE ms {rng.choice(('>', '<=', '='))} (SELECT {value} FROM visits{rng.choice(_WHERE)})"
    )


def _released_list(rng: Random) -> str:
    key = rng.choice(("page", "country", "ms", "day"))
    listed = f"SELECT {key} FROM visits GROUP BY {key} ORDER BY COUNT(*) DESC LIMIT {rng.randint(1, 3)}"
    return f"SELECT {rng.choice(_UNITS)} AS n FROM visits WHERE {key} {rng.choice(('', 'NOT '))}IN ({listed})"


def _anchor(rng: Random) -> str:
    word = rng.choice(("MAX", "MAX", "MIN"))
    where = rng.choice(("", " WHERE flag"))
    compared = rng.choice(
        (
            f">= (SELECT {word}(day) FROM visits{where}) - INTERVAL 3 DAY",
            f"= (SELECT {word}(day) FROM visits{where})",
        )
    )
    return f"SELECT {rng.choice(_UNITS)} AS n FROM visits WHERE day {compared}"


def _rank_of_all(rng: Random) -> str:
    inner = f"SELECT user_id, ms, day, {rng.choice(('PERCENT_RANK', 'CUME_DIST', 'NTILE(4)', 'ROW_NUMBER'))}"
    inner = inner if inner.endswith(")") else inner + "()"
    where = rng.choice(_WHERE)
    inner += f" OVER (ORDER BY ms) AS r FROM visits{where}"
    if "NTILE" in inner:
        return rng.choice(
            (
                f"SELECT r, {_bounded(rng)} AS n FROM ({inner}) AS t GROUP BY r",
                f"SELECT MAX(ms) AS n FROM ({inner}) AS t WHERE r = 3",
            )
        )
    if "ROW_NUMBER" in inner:
        inner = inner.replace(
            "ORDER BY ms", f"ORDER BY {rng.choice(('ms', 'day'))}{rng.choice(('', ' DESC'))}"
        )
        return f"SELECT SUM(ms) AS n FROM ({inner}) AS t WHERE r <= {rng.randint(2, 9)}"
    return f"SELECT {rng.choice(_UNITS)} AS n FROM ({inner}) AS t WHERE r >= 0.{rng.randint(1, 9)}"


def _pairs(rng: Random) -> str:
    call = rng.choice(("CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_COUNT", "REGR_R2"))
    return f"SELECT {call}(ms, {rng.choice(('ms % 3', 'ms', 'ms * 2'))}) AS n FROM visits{rng.choice(_WHERE)}"


def _sets(rng: Random) -> str:
    first, second = rng.sample(("country", "page", "flag"), 2)
    by = rng.choice(
        (
            f"ROLLUP ({first}, {second})",
            f"CUBE ({first}, {second})",
            f"GROUPING SETS (({first}), ({second}), ())",
        )
    )
    number = rng.choice(("COUNT(*)", "COUNT(DISTINCT user_id)", "SUM(ms)", "AVG(ms)"))
    return f"SELECT {first}, {second}, {number} AS n FROM visits{rng.choice(_WHERE)} GROUP BY {by}"


def _carried(rng: Random) -> str:
    released = "WITH r AS (SELECT page, COUNT(*) AS n FROM visits GROUP BY page) "
    return released + rng.choice(
        (
            "SELECT o.page, r.n, COUNT(DISTINCT o.user_id) AS m FROM orders o JOIN r ON r.page = o.page GROUP BY o.page, r.n",
            "SELECT COUNT(*) AS m FROM orders o JOIN r ON r.page = o.page WHERE r.n > 2",
            "SELECT r.page, r.n, s.n AS m FROM r JOIN (SELECT page, COUNT(DISTINCT user_id) AS n FROM orders GROUP BY page) AS s ON s.page = r.page",
        )
    )


def _few(rng: Random) -> str:
    key = rng.choice(("page", "country", "ms", "day", "note", "country, page"))
    condition = rng.choice(
        ("COUNT(*) > 2", "COUNT(DISTINCT user_id) >= 2", "SUM(ms) > 5", "MAX(ms) > 3", "AVG(ms) < 2")
    )
    inner = f"SELECT {key}, COUNT(*) AS c FROM visits{rng.choice(_WHERE)} GROUP BY {key} HAVING {condition}"
    number = rng.choice(("COUNT(*)", "COUNT(*)", "SUM(c)"))
    return f"SELECT {number} AS n FROM ({inner}) AS t"


def _public_forms(rng: Random) -> str:
    return rng.choice(
        (
            "SELECT p.page, p.category, COUNT(*) AS n FROM visits v JOIN pages p ON p.page = v.page GROUP BY p.page",
            "SELECT v.page, MIN(p.category) AS c, COUNT(*) AS n FROM visits v LEFT JOIN pages p ON p.page = v.page GROUP BY v.page",
            "SELECT COUNT(*) AS n FROM visits WHERE ms > (SELECT MAX(rank) FROM pages)",
            "SELECT d.day, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN days d ON v.day BETWEEN d.day - 6 AND d.day GROUP BY d.day",
            "SELECT s.d, COUNT(*) AS n FROM visits v JOIN generate_series(DATE '2024-01-01', DATE '2024-01-09', INTERVAL 1 DAY) AS s(d) ON v.day = s.d GROUP BY s.d",
            "SELECT WIDTH_BUCKET(ms, 0, 6, 3) AS b, COUNT(*) AS n FROM visits GROUP BY 1",
            "SELECT COUNT(*) AS n FROM visits v JOIN pages p ON p.page = v.page AND p.rank > (SELECT MIN(rank) FROM pages)",
            "SELECT country, AVG(ms) AS a FROM visits GROUP BY country ORDER BY AVG(ms) DESC LIMIT 2",
            "SELECT p.page, (SELECT COUNT(*) FROM visits v WHERE v.page = p.page AND v.country = 'DE') AS n FROM pages p",
            "SELECT p.page, (SELECT SUM(v.ms) FROM visits v WHERE p.page = v.page AND v.flag) AS n FROM pages p WHERE p.rank > 1",
            "SELECT s.d, (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE v.day = s.d AND v.page = p.page) AS n FROM pages p, generate_series(DATE '2024-01-01', DATE '2024-01-09', INTERVAL 1 DAY) AS s(d)",
            "SELECT COUNT(*) AS n FROM visits v WHERE ms >= ALL (SELECT w.ms FROM visits w WHERE w.user_id = v.user_id)",
            "SELECT COUNT(*) AS n FROM visits v WHERE v.ms > ANY (SELECT w.ms FROM visits w WHERE w.user_id = v.user_id AND w.flag)",
            "SELECT page, COUNT(*) AS n FROM visits WHERE ms > ANY (SELECT rank FROM pages) AND page IN (SELECT page FROM pages WHERE rank > 1) GROUP BY page",
        )
    )


def _by_key(rng: Random) -> str:
    """Write rows that are compared with a number of all rows of their key, or scored by several ranks."""
    number = rng.choice(("AVG(ms)", "SUM(ms)", "1.5 * AVG(w.ms)"))
    key, where = rng.choice(("day", "ms", "page")), rng.choice(("", " AND w.flag"))
    tied = f"(SELECT {number} FROM visits w WHERE w.{key} = v.{key}{where})"
    scored = "SELECT user_id, NTILE(3) OVER (ORDER BY SUM(ms)) AS m, NTILE(2) OVER (ORDER BY COUNT(*) DESC) AS f FROM visits GROUP BY user_id"
    return rng.choice(
        (
            f"SELECT {rng.choice(_UNITS)} AS n FROM visits v WHERE v.ms {rng.choice(('>', '<='))} {tied}",
            f"SELECT m, f, COUNT(*) AS n FROM ({scored}) AS t GROUP BY m, f",
        )
    )


def _one_each(rng: Random) -> str:
    return rng.choice(
        (
            "SELECT COUNT(*) AS n FROM (SELECT DISTINCT ON (country, page) ms FROM visits) AS t",
            "SELECT country, ms FROM visits WHERE flag INTERSECT SELECT country, ms FROM visits WHERE ms > 1",
            "SELECT country, COUNT(*) AS n FROM (SELECT DISTINCT ON (user_id) user_id, country FROM visits) AS t GROUP BY country",
            "SELECT DISTINCT ON (country) country, COUNT(*) AS n FROM visits GROUP BY country",
            "SELECT HISTOGRAM(country) AS h FROM visits",
            "SELECT HISTOGRAM(ms) AS h FROM visits WHERE flag",
        )
    )


def _buckets(rng: Random) -> str:
    """Write sums by ranges of what is summed, each of which has a noise of its own."""
    value, table = rng.choice(
        (("price", "visits"), ("score", "visits"), ("total", "orders"), ("ms", "visits"))
    )
    ends = rng.choice((("1", "20"), ("0.5", "2", "5"), ("-1", "1", "100")))
    below = rng.choice(("<", "<="))
    cases = " ".join(f"WHEN {value} {below} {end} THEN 'b{i}'" for i, end in enumerate(ends))
    key = f"CASE {cases}{rng.choice((' ELSE {}'.format(repr('last')), ''))} END"
    other = rng.choice(("", "", ", page"))
    number = rng.choice((f"SUM({value})", f"SUM({value}) FILTER (WHERE {value} <> 2)", f"AVG({value})"))
    more = rng.choice(("", ", COUNT(*) AS m"))
    return f"SELECT {key} AS b{other}, {number} AS n{more} FROM {table} GROUP BY 1{', 2' if other else ''}"


def _rounded(rng: Random) -> str:
    call = rng.choice(("ROUND({}) + 1", "ROUND({}) / ROUND(COUNT(*))", "FLOOR({})", "ROUND({}, 1) * 2"))
    number = call.format(rng.choice(("AVG(ms)", "SUM(ms)", "COUNT(*)", "AVG(score)")))
    if rng.random() < 0.4:
        ends = "(SELECT MIN(day) FROM visits), (SELECT MAX(day) FROM visits), INTERVAL 1 DAY"
        return (
            f"SELECT s.x, r.n FROM (SELECT unnest(generate_series({ends})) AS x) AS s LEFT JOIN (SELECT day, "
            f"{rng.choice(_UNITS)} AS n FROM visits GROUP BY day) AS r ON r.day = s.x"
        )
    by = rng.choice(("", " GROUP BY country", " GROUP BY ROLLUP (country, flag)"))
    return f"SELECT {'country, ' if by else ''}{number} AS n FROM visits{by}"


_UNDECLARED = {
    "visits": (
        "note",
        "note",
        "note, country",
        "price",
        "moment",
        "moment::TIME",
        "note, day",
        "page || note",
    ),
    "users": ("note", "level"),
    "orders": ("big", "total", "page, big", "tod"),
    "items": ("order_id", "weight"),
}


def _undeclared(rng: Random) -> str:
    """Write groups of keys that nobody declares, with numbers whose bounds are searched."""
    table = rng.choice(("visits", "visits", "visits", *_UNDECLARED))
    key = rng.choice(_UNDECLARED[table])
    value = {"visits": "ms", "users": "age", "orders": "total", "items": "qty"}[table]
    unit = "order_id" if table == "items" else "user_id"
    numbers = [
        "COUNT(*)",
        "COUNT(*)",
        *([f"COUNT(DISTINCT {unit})"] if unit == "user_id" else []),
        f"SUM({value})",
        f"AVG({value})",
        f"COUNT({value})",
        f"SUM({value}, contribution_bounds_per_group => (0, 5))",
        f"COUNT(*) FILTER (WHERE {value} > 1)",
        "COUNT(*, contribution_bounds_per_group => (0, 2))",
    ]
    first, *more = rng.sample(numbers, rng.choice((1, 1, 2, 3)))
    listed = "".join(f", {number} AS m{i}" for i, number in enumerate(more))
    where = rng.choice(("", "", f" WHERE {value} > 1"))
    tail = rng.choice(
        (
            *("", "", ""),
            f" HAVING {first} > {rng.randint(1, 4)}",
            f" ORDER BY n DESC LIMIT {rng.randint(1, 3)}",
            f" ORDER BY {rng.choice(('1', 'n'))}",
        )
    )
    source = (
        table
        if "," in key or rng.random() < 0.8
        else f"(SELECT DISTINCT {unit}, {key} AS k, {value} FROM {table}) AS t"
    )
    key = "k" if source != table else key
    option = rng.choice(("", "", "", "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) "))
    return f"SELECT {option}{key}, {first} AS n{listed} FROM {source}{where} GROUP BY {key}{tail}"


_MADE: dict[str, tuple[float, Callable[[Random], str]]] = {
    **{
        name: (1.0, _value_call(name))
        for name in ("MODE", "APPROX_TOP_K", "STRING_AGG DISTINCT", "LIST DISTINCT")
    },
    "list of quantiles": (1.0, _quantiles),
    "set operation of values": (1.5, _set_operation),
    "public rows by EXISTS or IN": (2.5, _public_rows),
    "anti-join of a public table": (0.5, _anti_join),
    "unit rows chosen by others": (0.5, _unit_rows),
    "different rows": (1.5, _different_rows),
    "DISTINCT of owned keys": (1.0, _owned_keys),
    "LAG and ranks": (1.5, _places),
    "largest number of a partition": (1.5, _largest_sum),
    "found values": (2.5, _found),
    "released number": (1.5, _released_number),
    "released list": (1.0, _released_list),
    "anchor": (1.0, _anchor),
    "rank of all rows": (1.5, _rank_of_all),
    "moments of pairs": (0.7, _pairs),
    "grouping sets": (1.0, _sets),
    "carried join": (0.7, _carried),
    "number of a key, and scores": (1.5, _by_key),
    "few groups of a unit": (2.0, _few),
    "public forms": (1.0, _public_forms),
    "one row of each, and histograms": (0.5, _one_each),
    "groups of undeclared keys": (2.5, _undeclared),
    "sums by buckets": (1.0, _buckets),
    "rounded numbers and series": (0.7, _rounded),
    **deep.FORMS,
}
FORMS = tuple(_MADE)
"""The forms, by which a campaign counts."""


def draw(rng: Random, form: str = "") -> Statement:
    """Draw a statement of a form, or of any."""
    name = form or rng.choices(FORMS, [weight for weight, _ in _MADE.values()])[0]
    return Statement(_MADE[name][1](rng), frozenset((name,)))
