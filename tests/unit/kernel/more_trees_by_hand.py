"""Further query trees by hand: names, units left out, values that the first of several units keeps."""

from __future__ import annotations

from tests.unit.kernel.trees_by_hand import UNITS, of_pages

__all__ = ["MORE_CERTIFIED", "MORE_REFUSED"]

KEYED = (
    'SELECT d0.k AS k0, COALESCE(g.n0, 0) AS n0 FROM (SELECT {} AS k FROM main."fees" AS b {}) AS d0 '
    "LEFT JOIN (SELECT s.c2 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({{visits}}) AS s GROUP BY s.c2) AS g "
    "ON g.k0 = d0.k"
)

SQUARES = "SELECT o.u AS u, (CAST(o.c2 AS HUGEINT) * CAST(o.c2 AS HUGEINT)) AS v FROM ({orders}) AS o"

MORE_CERTIFIED = {
    "a domain of numbers that fit": KEYED.format(
        'TRY_CAST(b."i" AS TINYINT)', 'WHERE TRY_CAST(b."i" AS TINYINT) IS NOT NULL'
    ),
    "units of rows without them": of_pages(
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT l.c1 AS c1 FROM ({likes}) AS l) AS s GROUP BY s.c1"
    ),
    "groups selected": (
        "SELECT e.k0 AS k0, e.n0 AS n0 FROM (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM "
        "({visits}) AS s GROUP BY s.c1) AS e WHERE e.n0 > 0 ORDER BY e.n0 DESC, e.k0 LIMIT 3"
    ),
}

MORE_REFUSED = {
    "an inner alias that differs in case": (
        "SELECT COUNT(DISTINCT S.u) AS n0 FROM ({visits}) AS S WHERE EXISTS (SELECT 1 FROM "
        "({orders}) AS s WHERE s.u = S.u)"
    ),
    "a list with two columns of one name": (
        "SELECT d0.v AS k0, COALESCE(g.n0, 0) AS n0 FROM (VALUES (1, 1), (1, 2)) AS d0(v, v) "
        "LEFT JOIN (SELECT s.c2 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s GROUP BY "
        "s.c2) AS g ON g.k0 = d0.v"
    ),
    "a list with two names that differ in case": (
        "SELECT d0.v AS k0, COALESCE(g.n0, 0) AS n0 FROM (VALUES (1, 1), (1, 2)) AS d0(V, v) "
        "LEFT JOIN (SELECT s.c2 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s GROUP BY "
        "s.c2) AS g ON g.k0 = d0.v"
    ),
    "a day that may be no time": (
        'SELECT COUNT(DISTINCT s.user_id) AS n0 FROM (SELECT b."user_id" AS user_id FROM '
        'main."times" AS b WHERE b."user_id" IS NOT NULL AND b."d" = b."ts") AS s'
    ),
    "two columns with one name": UNITS
    + "(SELECT t.c1 AS u, x.u FROM ({visits}) AS t JOIN ({orders}) AS x ON x.u = t.u) AS s",
    "setop names": UNITS
    + (
        "(SELECT t.u AS u, t.c0 AS x FROM ({orders}) AS t UNION ALL SELECT t.c0 AS x, t.u AS u "
        "FROM ({orders}) AS t) AS s"
    ),
    "intersect public first": (
        "SELECT COUNT(*) AS n0 FROM (SELECT 1 AS u, p.c0 AS c FROM ({pages}) AS p INTERSECT "
        "SELECT t.u AS u, t.c1 AS c FROM ({orders}) AS t) AS s"
    ),
    "except no unit": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.c1 AS c1 FROM ({likes}) AS t EXCEPT "
        "SELECT t.c1 AS c1 FROM ({orders}) AS t) AS s GROUP BY s.c1"
    ),
    "no unit union": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.c1 AS c1 FROM ({likes}) AS t UNION ALL "
        "SELECT t.c1 AS c1 FROM ({likes}) AS t) AS s GROUP BY s.c1"
    ),
    "no unit join": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT t.c1 AS c1 FROM (SELECT l.c1 AS c1 FROM "
        "({likes}) AS l) AS t JOIN (SELECT l.c1 AS c1 FROM ({likes}) AS l) AS y ON y.c1 = t.c1) "
        "AS s GROUP BY s.c1"
    ),
    "no unit semi": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT l.c1 AS c1 FROM ({likes}) AS l) AS s "
        "SEMI JOIN (SELECT l.c1 AS c1 FROM ({likes}) AS l) AS y ON y.c1 = s.c1 GROUP BY s.c1"
    ),
    "no unit exists": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT l.c1 AS c1 FROM ({likes}) AS l) AS s "
        "WHERE EXISTS (SELECT 1 FROM ({likes}) AS y WHERE y.c1 = s.c1) GROUP BY s.c1"
    ),
    "no unit true": UNITS + "(SELECT TRUE AS u, l.c1 AS c1 FROM ({likes}) AS l) AS s",
    "no unit group": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT TRUE AS u, l.c1 AS c1 FROM ({likes}) AS "
        "l GROUP BY l.c1) AS s GROUP BY s.c1"
    ),
    "true unit group": (
        "SELECT COUNT(*) AS n0 FROM (SELECT s.u AS u, s.c1 AS c1 FROM (SELECT TRUE AS u, l.c1 AS "
        "c1 FROM ({likes}) AS l) AS s GROUP BY s.u, s.c1) AS s"
    ),
    "distinct no unit": (
        "SELECT s.c1 AS k0, COUNT(*) AS n0 FROM (SELECT DISTINCT s.c1 AS c1 FROM (SELECT TRUE AS "
        "u, l.c1 AS c1 FROM ({likes}) AS l) AS s) AS s GROUP BY s.c1"
    ),
    "full two units": (
        "SELECT s.c1 AS k0, COUNT(s.u) AS n0 FROM (SELECT COALESCE(x.u, t.u) AS u, t.c1 AS c1 "
        "FROM ({likes}) AS t FULL JOIN ({likes}) AS x ON x.u = t.u AND x.c1 = t.c1) AS s GROUP "
        "BY s.c1"
    ),
    "left unique null2": (
        "SELECT s.c1 AS k0, COUNT(s.u) AS n0 FROM (SELECT t.u AS u, x.c1 AS c1 FROM ({likes}) AS "
        "t LEFT JOIN ({likes}) AS x ON x.u = t.u AND x.c1 = t.c1 AND x.c2 = 1) AS s GROUP BY s.c1"
    ),
    "right public fd": (
        "SELECT s.k AS k0, COUNT(s.u) AS n0 FROM (SELECT t.u AS u, p.c1 AS k FROM ({likes}) AS t "
        "RIGHT JOIN ({pages}) AS p ON t.c1 = p.c0) AS s GROUP BY s.k"
    ),
    "nested in": UNITS
    + (
        "({visits}) AS s WHERE s.u IN (SELECT t.u AS u FROM ({visits}) AS t WHERE t.c1 IN "
        "(SELECT o.c1 FROM ({orders}) AS o))"
    ),
    "IN least units": UNITS
    + "({visits}) AS s WHERE s.u IN (SELECT MIN(t.u) AS u FROM ({visits}) AS t GROUP BY t.c1)",
    "exists parents": UNITS
    + (
        '({visits}) AS s WHERE EXISTS (SELECT 1 FROM (SELECT p."order_id" AS k, MIN(p."user_id") '
        'AS u FROM main."orders" AS p WHERE p."user_id" IS NOT NULL GROUP BY p."order_id") AS q '
        "WHERE q.u = s.u)"
    ),
    "two tables rank": (
        "SELECT s.c1 AS k0, COUNT(s.u) AS n0 FROM (SELECT t.u AS u, t.c1 AS c1, DENSE_RANK() "
        "OVER (PARTITION BY t.u ORDER BY t.c1) AS r FROM ({visits}) AS t) AS s WHERE s.r <= 1 "
        "GROUP BY s.c1"
    ),
    "coalesce 1": (
        "SELECT d0.c0 AS k0, COALESCE(g.n0, 1) AS n0 FROM ({pages}) AS d0 LEFT JOIN (SELECT s.c1 "
        "AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s GROUP BY s.c1) AS g ON g.k0 = "
        "d0.c0"
    ),
    "n is null": (
        "SELECT d0.c0 AS k0, COALESCE(g.n0, 0) AS n0, g.n0 IS NULL AS x FROM ({pages}) AS d0 "
        "LEFT JOIN (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s GROUP BY "
        "s.c1) AS g ON g.k0 = d0.c0"
    ),
    "where g key": (
        "SELECT d0.c0 AS k0, COALESCE(g.n0, 0) AS n0 FROM ({pages}) AS d0 LEFT JOIN (SELECT s.c1 "
        "AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({visits}) AS s GROUP BY s.c1) AS g ON g.k0 = "
        "d0.c0 WHERE g.k0 IS NOT NULL"
    ),
    "order asc": (
        "SELECT e.k0 AS k0, e.n0 AS n0 FROM (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM "
        "({visits}) AS s GROUP BY s.c1) AS e WHERE e.n0 > 0 ORDER BY e.n0, e.k0 LIMIT 3"
    ),
    "limit one": UNITS + "({visits}) AS s LIMIT 0",
    "distinct groups": (
        "SELECT DISTINCT e.n0 AS n0 FROM (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM "
        "({visits}) AS s GROUP BY s.c1) AS e"
    ),
    "groups again": (
        "SELECT COUNT(*) AS n0 FROM (SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM "
        "({visits}) AS s GROUP BY s.c1) AS e"
    ),
    "first other keys": (
        "SELECT COALESCE(SUM(g.m), 0) AS n0 FROM (SELECT s.u AS u, s.k0 AS k0, COUNT(s.f) AS m "
        "FROM ({first}) AS s GROUP BY s.u, s.k0) AS g"
    ),
    "first direct": "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM ({first}) AS s",
    "first projected": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "t.f AS f FROM ({first}) AS t) AS s"
    ),
    "first where": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "t.k0 AS k0, t.f AS f FROM ({first}) AS t WHERE t.k0 = 'a') AS s"
    ),
    "first where2": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT y.u AS u, "
        "y.k0 AS k0, y.f AS f FROM (SELECT t.u AS u, t.k0 AS k0, t.f AS f FROM ({first}) AS t "
        "WHERE t.k0 = 'a') AS y) AS s"
    ),
    "first where3": (
        "SELECT COALESCE(SUM(g.m), 0) AS n0 FROM (SELECT s.u AS u, s.k0 AS k0, COUNT(s.f) AS m "
        "FROM ({first}) AS s WHERE s.k0 = 'a' GROUP BY s.u, s.k0) AS g"
    ),
    "first where4": (
        "SELECT g.k0 AS k0, COALESCE(SUM(g.m), 0) AS n0 FROM (SELECT s.u AS u, s.k0 AS k0, "
        "COUNT(s.f) AS m FROM ({first}) AS s WHERE s.u > 3 GROUP BY s.u, s.k0) AS g GROUP BY g.k0"
    ),
    "first where count": (
        "SELECT g.k0 AS k0, COALESCE(SUM(g.m), 0) AS n0 FROM (SELECT s.u AS u, s.k0 AS k0, "
        "COUNT(s.f) AS m FROM ({first}) AS s GROUP BY s.u, s.k0) AS g WHERE g.u > 3 GROUP BY g.k0"
    ),
    "first where count2": (
        "SELECT g.k0 AS k0, COALESCE(SUM(g.m), 0) AS n0 FROM (SELECT h.u AS u, h.k0 AS k0, h.m "
        "AS m FROM (SELECT s.u AS u, s.k0 AS k0, COUNT(s.f) AS m FROM ({first}) AS s GROUP BY "
        "s.u, s.k0) AS h WHERE h.u > 3) AS g GROUP BY g.k0"
    ),
    "first distinct": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT DISTINCT t.u "
        "AS u, t.k0 AS k0, t.f AS f FROM ({first}) AS t) AS s"
    ),
    "first group": UNITS
    + ("(SELECT t.u AS u, COUNT(*) AS m FROM ({first}) AS t GROUP BY t.u, t.f) AS s WHERE s.m > 1"),
    "first group max": UNITS
    + "(SELECT t.u AS u, MAX(t.f) AS m FROM ({first}) AS t GROUP BY t.u) AS s WHERE s.m = 'a'",
    "first key": "SELECT s.f AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({first}) AS s GROUP BY s.f",
    "first union": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "t.f AS f FROM ({first}) AS t UNION ALL SELECT t.u AS u, t.f AS f FROM ({first}) AS t) "
        "AS s"
    ),
    "first semi": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM ({first}) AS s SEMI "
        "JOIN ({pages}) AS p ON p.c0 = s.k0"
    ),
    "first join": UNITS + "({first}) AS s JOIN ({pages}) AS p ON p.c0 = s.f",
    "first window": (
        "SELECT COUNT(DISTINCT CASE WHEN s.w > 1 THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "COUNT(t.f) OVER (PARTITION BY t.u) AS w FROM ({first}) AS t) AS s"
    ),
    "first unnest": (
        "SELECT COUNT(DISTINCT CASE WHEN s.f = 'a' THEN s.u END) AS n0 FROM (SELECT t.u AS u, "
        "t.f AS f FROM ({first}) AS t CROSS JOIN UNNEST([1, 2]) AS z(c0)) AS s"
    ),
    "count as value": (
        "SELECT COUNT(DISTINCT CASE WHEN g.m > 1 THEN g.u END) AS n0 FROM (SELECT s.u AS u, s.k0 "
        "AS k0, COUNT(s.f) AS m FROM ({first}) AS s GROUP BY s.u, s.k0) AS g"
    ),
    "count projected": (
        "SELECT COUNT(DISTINCT CASE WHEN h.m > 1 THEN h.u END) AS n0 FROM (SELECT g.u AS u, g.m "
        "AS m FROM (SELECT s.u AS u, s.k0 AS k0, COUNT(s.f) AS m FROM ({first}) AS s GROUP BY "
        "s.u, s.k0) AS g) AS h"
    ),
    "count projected 2": (
        "SELECT COUNT(DISTINCT CASE WHEN h.m > 1 THEN h.u END) AS n0 FROM (SELECT g.u AS u, g.m "
        "AS m FROM (SELECT s.u AS u, COUNT(s.f) AS m FROM ({first}) AS s GROUP BY s.u, s.k0) AS "
        "g) AS h"
    ),
    "a domain of rounded values": KEYED.format('TRY_CAST(b."fee" AS HUGEINT)', ""),
    "a domain of rounded doubles": KEYED.format(
        'TRY_CAST(b."w" AS BIGINT)', 'WHERE TRY_CAST(b."w" AS BIGINT) IS NOT NULL'
    ),
    "a domain of texts that are numbers": KEYED.format(
        'TRY_CAST(b."t" AS BIGINT)', 'WHERE TRY_CAST(b."t" AS BIGINT) IS NOT NULL'
    ),
    "a domain of numbers that do not fit": KEYED.format('TRY_CAST(b."i" AS TINYINT)', ""),
    "a sum that overflows under the name of one that does not": (
        "SELECT COALESCE(SUM(s.v), 0) AS n0 FROM (SELECT s.u AS u, LEAST(GREATEST(COALESCE(SUM(s.v), 0), 0), "
        f"10) AS v FROM ({SQUARES}) AS s GROUP BY s.u) AS s"
    ),
    "a sum that overflows in a subquery": (
        "SELECT COALESCE(SUM(s.v), 0) AS n0 FROM (SELECT t.u AS u, LEAST(GREATEST(t.c2, 0), 10) AS v "
        f"FROM ({{users}}) AS t WHERE (SELECT SUM(s.v) FROM ({SQUARES}) AS s WHERE s.u = t.u) > 3) AS s"
    ),
}
