"""Query trees by hand, as SQL: what must be certified, and what is nearly the same and must not be.

`{visits}`, `{users}`, `{orders}`, `{likes}`, `{items}` stand for rows of the tables with their unit as
`u`, `{pages}` for public rows, `{groups}` for the groups of visits by page.
"""

from __future__ import annotations

from dpsql.kernel.facts import ByColumn, ByParent, ByRow, Facts, TableFacts, Unit
from dpsql.types import column_type

__all__ = ["CERTIFIED", "FACTS", "REFUSED", "UNITS", "of_pages", "written"]


def _table(name: str, unit: Unit | None, columns: str, *unique: str, kind: str = "person") -> TableFacts:
    listed = tuple((column, column_type(kind)) for column, kind in (c.split() for c in columns.split("; ")))
    facts = frozenset(frozenset(names.split()) for names in unique)
    return TableFacts(name, unit, listed, facts, kind="" if unit is None else kind)


OWNED = ByColumn("user_id")
FACTS = Facts(
    (
        _table(
            "visits",
            OWNED,
            "user_id BIGINT; page VARCHAR; ms INTEGER; note VARCHAR; price DECIMAL(9,2); score DOUBLE",
        ),
        _table("users", OWNED, "user_id BIGINT; city VARCHAR; age INTEGER", "user_id"),
        _table("likes", OWNED, "user_id BIGINT; page VARCHAR; stars TINYINT", "user_id page"),
        _table("orders", OWNED, "order_id BIGINT; user_id BIGINT; page VARCHAR; big BIGINT", "order_id"),
        _table(
            "items", ByParent("order_id", "orders", "order_id"), "order_id BIGINT; sku VARCHAR; qty INTEGER"
        ),
        _table("texts", OWNED, "user_id VARCHAR; page VARCHAR"),
        _table("times", OWNED, "user_id BIGINT; d DATE; ts TIMESTAMP"),
        _table("logs", ByRow(), "level VARCHAR; ms BIGINT", kind="row"),
        _table("pages", None, "page VARCHAR; category VARCHAR; rank INTEGER", "page"),
        _table("fees", None, "fee DECIMAL(9,2); w DOUBLE; t VARCHAR; i BIGINT", "fee", "w", "t", "i"),
        _table("twice", None, "page VARCHAR; rank INTEGER"),
    )
)

PARENTS = (
    'SELECT p."order_id" AS k, MIN(p."user_id") AS u FROM main."orders" AS p '
    'WHERE p."user_id" IS NOT NULL GROUP BY p."order_id"'
)
PARTS = {
    "visits": 'SELECT b."user_id" AS u, b."page" AS c1, b."ms" AS c2, b."note" AS c3, b."price" AS c4 '
    'FROM main."visits" AS b WHERE b."user_id" IS NOT NULL',
    "users": 'SELECT b."user_id" AS u, b."city" AS c1, b."age" AS c2 FROM main."users" AS b '
    'WHERE b."user_id" IS NOT NULL',
    "orders": 'SELECT b."user_id" AS u, b."order_id" AS c0, b."page" AS c1, b."big" AS c2 '
    'FROM main."orders" AS b WHERE b."user_id" IS NOT NULL',
    "likes": 'SELECT b."user_id" AS u, b."page" AS c1, b."stars" AS c2 FROM main."likes" AS b '
    'WHERE b."user_id" IS NOT NULL',
    "texts": 'SELECT b."user_id" AS u, b."page" AS c1 FROM main."texts" AS b WHERE b."user_id" IS NOT NULL',
    "logs": 'SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b',
    "pages": 'SELECT b."page" AS c0, b."category" AS c1, b."rank" AS c2 FROM main."pages" AS b',
    "parents": PARENTS,
    "items": 'SELECT q.u AS u, b."sku" AS c1 FROM main."items" AS b '
    f'JOIN ({PARENTS}) AS q ON b."order_id" = q.k',
}
KEPT = (
    "SELECT s.u AS u, s.c1 AS k0, CASE WHEN s.u IS NOT NULL AND DENSE_RANK() OVER "
    "(PARTITION BY s.u, s.c1, s.c3 IS NULL ORDER BY s.c3) <= 3 THEN s.c3 END AS v0 "
    f"FROM ({PARTS['visits']}) AS s"
)
PARTS["first"] = (
    "SELECT s.u AS u, s.k0 AS k0, CASE WHEN ROW_NUMBER() OVER (PARTITION BY s.k0, s.v0 ORDER BY s.u) = 1 "
    f"THEN s.v0 END AS f FROM ({KEPT}) AS s"
)
PARTS["groups"] = f"SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({PARTS['visits']}) AS s GROUP BY s.c1"
DECLARED = "SELECT d0.c0 AS k0, COALESCE(g.n0, 0) AS n0 FROM ({pages}) AS d0 "
DECLARED += "LEFT JOIN ({groups}) AS g ON g.k0 = d0.c0"
LISTED = "SELECT d0.v AS k0, COALESCE(g.n0, 0) AS n0 FROM (VALUES {}) AS d0(v) LEFT JOIN (SELECT s.c2 AS k0, "
LISTED += (
    "COUNT(DISTINCT s.u) AS n0 FROM ({{likes}}) AS s GROUP BY s.c2) AS g ON g.k0 IS NOT DISTINCT FROM d0.v"
)
UNITS = "SELECT COUNT(DISTINCT s.u) AS n0 FROM "


def of_pages(text: str) -> str:
    """Return all groups of the domain of pages, for groups by page."""
    return DECLARED.replace("{groups}", text)


def written(text: str) -> str:
    """Return the SQL of a tree."""
    return text.format(**PARTS)


CERTIFIED = {
    "units": UNITS + "({visits}) AS s",
    "single rows": of_pages("SELECT s.c1 AS k0, COUNT(s.u) AS n0 FROM ({likes}) AS s GROUP BY s.c1"),
    "children": UNITS + "({items}) AS s",
    "a domain": DECLARED,
    "a list": LISTED.format("(CAST(1 AS TINYINT)), (CAST(2 AS TINYINT))"),
    "a public LIMIT": DECLARED.replace(
        "({pages})", "(SELECT p.c0 AS c0 FROM ({pages}) AS p ORDER BY p.c0 LIMIT 1)"
    ),
    "EXISTS": UNITS + "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({orders}) AS t WHERE t.u = s.u)",
    "NOT IN": UNITS
    + "({visits}) AS s WHERE NOT s.u IN "
    + '(SELECT b."user_id" FROM main."orders" AS b WHERE b."user_id" IS NOT NULL)',
    "a scalar": UNITS + "({visits}) AS s WHERE (SELECT MAX(t.c2) FROM ({visits}) AS t WHERE t.u = s.u) > 1",
    "units of both sides": UNITS
    + "(SELECT COALESCE(t.u, x.u) AS u FROM ({visits}) AS t FULL JOIN ({orders}) AS x ON x.u = t.u) AS s",
    "units joined": UNITS + "(SELECT t.u AS u FROM ({visits}) AS t JOIN ({orders}) AS x ON x.u = t.u) AS s",
}
"""Trees that are certified. Each refused one is like one of them."""

REFUSED = {
    "a key that has several unique values": (
        "SELECT s.c2 // 2 AS k0, COUNT(s.u) AS n0 FROM (SELECT DISTINCT t.u AS u, t.c2 AS c2 "
        "FROM ({visits}) AS t) AS s GROUP BY s.c2 // 2"
    ),
    "a key computed of a unique column": (
        "SELECT CASE WHEN s.c1 = 'a' THEN 'x' ELSE 'y' END AS k0, COUNT(s.u) AS n0 FROM "
        "({likes}) AS s GROUP BY CASE WHEN s.c1 = 'a' THEN 'x' ELSE 'y' END"
    ),
    "an inner alias that is the outer one": UNITS
    + "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({orders}) AS s WHERE s.u = s.u)",
    "an inner scan under the outer alias": UNITS
    + (
        '(SELECT b."user_id" AS u FROM main."visits" AS b WHERE b."user_id" IS NOT NULL AND '
        'EXISTS (SELECT 1 FROM main."orders" AS b WHERE b."user_id" = b."user_id")) AS s'
    ),
    "two columns named as the unit": UNITS + "(SELECT t.c1 AS u, t.u AS u FROM ({visits}) AS t) AS s",
    "two columns of one name": (
        "SELECT s.k AS k0, COUNT(s.u) AS n0 FROM (SELECT t.u AS u, t.c2 AS k, t.c1 AS k FROM "
        "({likes}) AS t) AS s GROUP BY s.k"
    ),
    "two names that differ in case": UNITS + "(SELECT t.c1 AS U, t.u AS u FROM ({visits}) AS t) AS s",
    "a public LIMIT by private rows": (
        "SELECT g0.c0 AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT p.c0 AS c0 FROM ({pages}) AS p "
        "ORDER BY (SELECT COUNT(*) FROM ({visits}) AS t WHERE t.c1 = p.c0) DESC, p.c0 LIMIT 1) "
        "AS g0 LEFT JOIN (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s "
        "GROUP BY s.c1) AS g ON g.k0 = g0.c0"
    ),
    "a text that is a number": (
        "SELECT COUNT(s.u) AS n0 FROM (SELECT DISTINCT t.u AS u, t.c1 AS c1 FROM ({visits}) AS "
        "t) AS s WHERE s.c1 = 1"
    ),
    "a unit that is a text": UNITS
    + (
        '(SELECT t.u AS u FROM ({visits}) AS t JOIN (SELECT b."user_id" AS u FROM main."texts" '
        'AS b WHERE b."user_id" IS NOT NULL) AS x ON t.u = x.u) AS s'
    ),
    "units of two types": UNITS
    + (
        '(SELECT t.u AS u FROM ({visits}) AS t UNION ALL SELECT b."user_id" AS u FROM '
        'main."texts" AS b WHERE b."user_id" IS NOT NULL) AS s'
    ),
    "having": (
        "SELECT e.k0 AS k0, e.n0 AS n0 FROM (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM "
        "({visits}) AS s GROUP BY s.c1) AS e WHERE e.n0 > 2"
    ),
    "limit units": UNITS + "(SELECT t.u AS u FROM ({visits}) AS t ORDER BY t.u LIMIT 3) AS s",
    "dup domain": (
        'SELECT d0.c0 AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT b."page" AS c0 FROM '
        'main."twice" AS b) AS d0 LEFT JOIN (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM '
        "({visits}) AS s GROUP BY s.c1) AS g ON g.k0 = d0.c0"
    ),
    "sum window everybody": (
        "SELECT COUNT(DISTINCT CASE WHEN s.w > 3 THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "COUNT(*) OVER () AS w FROM ({visits}) AS t) AS s"
    ),
    "scalar everybody": UNITS + "({visits}) AS s WHERE s.c2 > (SELECT AVG(t.c2) FROM ({visits}) AS t)",
    "logs twice": (
        'SELECT s.k AS k0, COUNT(*) AS n0 FROM (SELECT TRUE AS u, b."level" AS k FROM '
        'main."logs" AS b CROSS JOIN ({pages}) AS p) AS s GROUP BY s.k'
    ),
    "logs group": (
        'SELECT COUNT(*) AS n0 FROM (SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b '
        'GROUP BY b."level") AS s'
    ),
    "logs exists": (
        'SELECT COUNT(*) AS n0 FROM (SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b) AS '
        's WHERE EXISTS (SELECT 1 FROM (SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b) '
        "AS t WHERE t.k = s.k)"
    ),
    "logs self union": (
        'SELECT COUNT(*) AS n0 FROM (SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b '
        'UNION ALL SELECT TRUE AS u, b."level" AS k FROM main."logs" AS b) AS s'
    ),
    "parents max": UNITS
    + (
        '(SELECT q.u AS u FROM main."items" AS b JOIN (SELECT p."order_id" AS k, '
        'MAX(p."user_id") AS u FROM main."orders" AS p WHERE p."user_id" IS NOT NULL GROUP BY '
        'p."order_id") AS q ON b."order_id" = q.k) AS s'
    ),
    "parents where": UNITS
    + (
        '(SELECT q.u AS u FROM main."items" AS b JOIN (SELECT p."order_id" AS k, '
        'MIN(p."user_id") AS u FROM main."orders" AS p WHERE p."user_id" IS NOT NULL AND '
        'p."page" = \'a\' GROUP BY p."order_id") AS q ON b."order_id" = q.k) AS s'
    ),
    "parents null units": UNITS
    + (
        '(SELECT q.u AS u FROM main."items" AS b JOIN (SELECT p."order_id" AS k, '
        'MIN(p."user_id") AS u FROM main."orders" AS p GROUP BY p."order_id") AS q ON '
        'b."order_id" = q.k) AS s'
    ),
    "parents left": UNITS
    + ('(SELECT q.u AS u FROM main."items" AS b LEFT JOIN ({parents}) AS q ON b."order_id" = q.k) AS s'),
    "parents by sku": UNITS
    + '(SELECT q.u AS u FROM main."items" AS b JOIN ({parents}) AS q ON b."qty" = q.k) AS s',
    "child alone": 'SELECT COUNT(*) AS n0 FROM main."items" AS b',
    "parents filtered outside": UNITS
    + (
        '(SELECT q.u AS u FROM main."items" AS b JOIN (SELECT r.k AS k, r.u AS u FROM '
        '({parents}) AS r) AS q ON b."order_id" = q.k) AS s'
    ),
    "scalar rows": (
        "SELECT COUNT(DISTINCT CASE WHEN (SELECT t.c2 FROM ({visits}) AS t WHERE t.u = s.u) > 1 "
        "THEN s.u END) AS n0 FROM ({visits}) AS s"
    ),
    "scalar public rows": (
        "SELECT COUNT(DISTINCT CASE WHEN (SELECT p.c2 FROM ({pages}) AS p WHERE p.c1 = s.c1) > 1 "
        "THEN s.u END) AS n0 FROM ({visits}) AS s"
    ),
    "lateral alias": (
        "SELECT COUNT(DISTINCT s.x) AS n0 FROM (SELECT t.u AS u, t.c1 AS y, y AS x FROM ({visits}) AS t) AS s"
    ),
    "alias in where": (
        "SELECT COUNT(s.u) AS n0 FROM (SELECT t.u AS u, t.c1 AS k FROM ({likes}) AS t WHERE k = 'a') AS s"
    ),
    "row number not total": (
        "SELECT COUNT(s.u) AS n0 FROM (SELECT t.u AS u, t.c1 AS c1, ROW_NUMBER() OVER (PARTITION "
        "BY t.u ORDER BY t.c2) AS r FROM ({visits}) AS t) AS s WHERE s.r = 1 AND s.c1 = 'a'"
    ),
    "first no order": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "FIRST(t.c1) AS f FROM ({visits}) AS t GROUP BY t.u) AS s"
    ),
    "sum double": (
        'SELECT COUNT(DISTINCT CASE WHEN s.f > 0.5 THEN s.u END) AS n0 FROM (SELECT b."user_id" '
        'AS u, SUM(b."score") AS f FROM main."visits" AS b WHERE b."user_id" IS NOT NULL GROUP '
        'BY b."user_id") AS s'
    ),
    "not in null units": UNITS
    + '({visits}) AS s WHERE NOT s.u IN (SELECT b."user_id" FROM main."orders" AS b)',
    "in other column": UNITS
    + (
        '({visits}) AS s WHERE s.u IN (SELECT b."order_id" FROM main."orders" AS b WHERE '
        'b."user_id" IS NOT NULL)'
    ),
    "in c2": UNITS
    + (
        '({visits}) AS s WHERE s.c2 IN (SELECT b."user_id" FROM main."users" AS b WHERE '
        'b."user_id" IS NOT NULL)'
    ),
    "left nullable unit": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT DISTINCT x.u AS u, t.c1 AS c1 FROM "
        "({visits}) AS t LEFT JOIN ({orders}) AS x ON x.u = t.u AND x.c1 = t.c1) AS s GROUP BY "
        "s.c1"
    ),
    "left nullable unit count": (
        "SELECT s.c1 AS k0, COUNT(s.c1) AS n0 FROM (SELECT x.u AS u, t.c1 AS c1 FROM ({visits}) "
        "AS t LEFT JOIN ({users}) AS x ON x.u = t.u GROUP BY x.u, t.c1) AS s GROUP BY s.c1"
    ),
    "full one side": (
        "SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM (SELECT t.u AS u, x.c1 AS c1 FROM "
        "({visits}) AS t FULL JOIN ({orders}) AS x ON x.u = t.u) AS s GROUP BY s.c1"
    ),
    "full rows": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT DISTINCT t.u AS u, x.c1 AS c1 FROM "
        "({visits}) AS t FULL JOIN ({orders}) AS x ON x.u = t.u) AS s GROUP BY s.c1"
    ),
    "is not distinct units": (
        "SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM (SELECT t.u AS u, x.c1 AS c1 FROM "
        "({visits}) AS t JOIN ({orders}) AS x ON x.u IS NOT DISTINCT FROM t.u) AS s GROUP BY s.c1"
    ),
    "units or": UNITS
    + ("(SELECT t.u AS u FROM ({visits}) AS t JOIN ({orders}) AS x ON x.u = t.u OR x.c1 = t.c1) AS s"),
    "units not": UNITS
    + "(SELECT t.u AS u FROM ({visits}) AS t JOIN ({orders}) AS x ON NOT (x.u = t.u)) AS s",
    "semi not unit": UNITS
    + "(SELECT t.u AS u FROM ({visits}) AS t SEMI JOIN ({orders}) AS x ON x.c1 = t.c1) AS s",
    "public semi": UNITS
    + (
        "(SELECT t.u AS u FROM ({visits}) AS t JOIN (SELECT p.c0 AS c0 FROM ({pages}) AS p SEMI "
        "JOIN ({orders}) AS x ON x.c1 = p.c0) AS y ON y.c0 = t.c1) AS s"
    ),
    "union places": UNITS
    + (
        "(SELECT t.u AS u, t.c0 AS x FROM ({orders}) AS t UNION ALL SELECT t.c0 AS u, t.u AS x "
        "FROM ({orders}) AS t) AS s"
    ),
    "union public unit": UNITS + "(SELECT t.u AS u FROM ({orders}) AS t UNION ALL SELECT 1 AS u) AS s",
    "except public private": UNITS
    + (
        "(SELECT t.u AS u, t.c1 AS c1 FROM ({visits}) AS t) AS s JOIN (SELECT p.c0 AS c0 FROM "
        "({pages}) AS p EXCEPT SELECT t.c1 AS c0 FROM ({orders}) AS t) AS y ON y.c0 = s.c1"
    ),
    "union distinct rows": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.u AS u, t.c1 AS c1 FROM ({likes}) AS t "
        "UNION ALL SELECT t.u AS u, t.c1 AS c1 FROM ({likes}) AS t) AS s GROUP BY s.c1"
    ),
    "except all": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.u AS u, t.c1 AS c1 FROM ({visits}) AS "
        "t EXCEPT ALL SELECT t.u AS u, t.c1 AS c1 FROM ({likes}) AS t) AS s GROUP BY s.c1"
    ),
    "distinct everybody": "SELECT COUNT(*) AS n0 FROM (SELECT DISTINCT t.c1 AS c1 FROM ({visits}) AS t) AS s",
    "count else": (
        "SELECT COUNT(DISTINCT CASE WHEN s.c2 > 3 THEN s.u ELSE s.c2 END) AS n0 FROM ({visits}) AS s"
    ),
    "count else u": (
        "SELECT COUNT(DISTINCT CASE WHEN s.c2 > 3 THEN s.u ELSE -1 END) AS n0 FROM ({visits}) AS s"
    ),
    "count rows": "SELECT COUNT(s.u) AS n0 FROM ({visits}) AS s",
    "number case": "SELECT CASE WHEN COUNT(DISTINCT s.u) > 3 THEN 1 ELSE 0 END AS n0 FROM ({visits}) AS s",
    "number square": "SELECT COUNT(DISTINCT s.u) * COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s",
    "number greatest": "SELECT GREATEST(COUNT(DISTINCT s.u), 3) AS n0 FROM ({visits}) AS s",
    "declared also": DECLARED + " AND g.n0 > 2",
    "declared where": DECLARED + " WHERE COALESCE(g.n0, 0) > 0",
    "declared limit": DECLARED + " ORDER BY g.n0 DESC, d0.c0 LIMIT 2",
    "declared inner": DECLARED.replace("LEFT JOIN", "JOIN"),
    "filter": "SELECT COUNT(DISTINCT s.u) FILTER (WHERE s.c2 > 2) AS n0 FROM ({visits}) AS s",
    "in groups": UNITS + "({visits}) AS s WHERE s.c1 IN (SELECT g.k0 FROM ({groups}) AS g WHERE g.n0 > 3)",
    "join groups": UNITS
    + ("(SELECT t.u AS u FROM ({visits}) AS t JOIN ({groups}) AS g ON g.k0 = t.c1 AND g.n0 > 2) AS s"),
    "lateral": UNITS
    + "(SELECT t.u AS u, y.x AS x FROM ({visits}) AS t CROSS JOIN (SELECT t.c1 AS x) AS y) AS s",
    "lateral private": (
        "SELECT d0.x AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT y.x AS x FROM ({pages}) AS p "
        "CROSS JOIN (SELECT COUNT(*) AS x FROM ({visits}) AS t WHERE t.c1 = p.c0) AS y) AS d0 "
        "LEFT JOIN ({groups}) AS g ON g.k0 = d0.x"
    ),
    "public limit not total": (
        "SELECT d0.c0 AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT p.c0 AS c0 FROM ({pages}) AS p "
        "ORDER BY p.c1 LIMIT 1) AS d0 LEFT JOIN ({groups}) AS g ON g.k0 = d0.c0"
    ),
    "divide": "SELECT COUNT(DISTINCT CASE WHEN 10 // s.c2 > 1 THEN s.u END) AS n0 FROM ({visits}) AS s",
    "overflow": (
        "SELECT COUNT(DISTINCT CASE WHEN s.c2 * s.c2 * s.c2 > 1 THEN s.u END) AS n0 FROM ({orders}) AS s"
    ),
    "cast fails": (
        "SELECT COUNT(DISTINCT CASE WHEN CAST(s.c1 AS BIGINT) > 1 THEN s.u END) AS n0 FROM ({visits}) AS s"
    ),
    "now": ("SELECT COUNT(DISTINCT CASE WHEN epoch_us(now()) > 5 THEN s.u END) AS n0 FROM ({visits}) AS s"),
    "rowid": (
        'SELECT COUNT(DISTINCT CASE WHEN s.r > 5 THEN s.u END) AS n0 FROM (SELECT b."user_id" AS '
        'u, b."rowid" AS r FROM main."visits" AS b WHERE b."user_id" IS NOT NULL) AS s'
    ),
    "window order by others": (
        "SELECT COUNT(DISTINCT CASE WHEN s.w > 2 THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "RANK() OVER (ORDER BY t.c2) AS w FROM ({visits}) AS t) AS s"
    ),
    "exists count": UNITS
    + "({visits}) AS s WHERE (SELECT COUNT(*) FROM ({visits}) AS t WHERE t.c1 = s.c1) > 3",
    "tied through c2": UNITS
    + "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({visits}) AS t WHERE t.c2 = s.u)",
    "tied or": UNITS
    + "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({visits}) AS t WHERE t.u = s.u OR t.c2 = 5)",
    "tied not": UNITS + "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({visits}) AS t WHERE NOT (t.u = s.u))",
    "tied in from": UNITS
    + (
        "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({visits}) AS t JOIN ({orders}) AS o ON "
        "o.c1 = t.c1 WHERE t.u = s.u)"
    ),
    "tied union": UNITS
    + (
        "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({visits}) AS t WHERE t.u = s.u UNION ALL "
        "SELECT 1 FROM ({orders}) AS o)"
    ),
    "tied twice deep": UNITS
    + (
        "({visits}) AS s WHERE EXISTS (SELECT 1 FROM ({orders}) AS t WHERE EXISTS (SELECT 1 FROM "
        "({orders}) AS o WHERE o.u = s.u))"
    ),
    "having max": UNITS + "({visits}) AS s WHERE s.u IN (SELECT MAX(t.u) AS u FROM ({orders}) AS t)",
    "in max by unit": UNITS
    + "({visits}) AS s WHERE s.u IN (SELECT t.u AS u FROM ({orders}) AS t ORDER BY t.u LIMIT 1)",
    "group by unit expr": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.u // 2 AS u, t.c1 AS c1 FROM "
        "({visits}) AS t GROUP BY t.u // 2, t.c1) AS s GROUP BY s.c1"
    ),
    "group other key": (
        "SELECT s.f AS k0, COUNT(s.u) AS n0 FROM (SELECT t.u AS u, MAX(t.c2) AS f FROM "
        "({visits}) AS t GROUP BY t.u, t.c1) AS s GROUP BY s.f"
    ),
    "sum unbounded": "SELECT COALESCE(SUM(s.c2), 0) AS n0 FROM ({visits}) AS s",
    "count distinct value": "SELECT COUNT(DISTINCT s.c1) AS n0 FROM ({visits}) AS s",
    "max": "SELECT MAX(s.c2) AS n0 FROM ({visits}) AS s",
    "any": "SELECT ANY_VALUE(s.c2) AS n0 FROM ({visits}) AS s",
    "private constant list": (
        "SELECT d0.v AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT DISTINCT t.c1 AS v FROM "
        "({visits}) AS t) AS d0 LEFT JOIN ({groups}) AS g ON g.k0 = d0.v"
    ),
    "a list with NULL twice": LISTED.format("(TRY_CAST(300 AS TINYINT)), (TRY_CAST(301 AS TINYINT))"),
    "a list with TRUE and 1": LISTED.format("(1), (TRUE)"),
    "a list with 1 and a text": LISTED.format("(1), ('1')"),
    "a list with 1 twice": LISTED.format("(1), (1)"),
    "a number that is missing": DECLARED.replace("COALESCE(g.n0, 0)", "g.n0"),
    "a domain without its key": DECLARED.replace("d0.c0 AS k0", "1 AS k0"),
}
"""Trees that must be refused: adding one unit could change more, or make them fail."""
