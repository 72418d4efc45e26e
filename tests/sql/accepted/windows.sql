-- A49 each unit's latest visit (the compiler completes the order with the other columns)
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day DESC, ms, page, country, note) = 1) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A50 each unit's favourite page
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, page) AS r FROM visits GROUP BY user_id, page) WHERE r = 1 GROUP BY page
ORDER BY n DESC LIMIT 2

-- A51 gaps between visits
-- candidates: FROM country_domain
-- expect: itself
SELECT country, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country, day - LAG(day) OVER (PARTITION BY user_id ORDER BY day, ms, page, country, note) AS gap FROM visits) WHERE gap > 2 GROUP BY country
ORDER BY n DESC LIMIT 2

-- A52 running total of integers
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY day RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total FROM visits) WHERE total > 100 GROUP BY page
ORDER BY n DESC LIMIT 2

-- A53 named window with the unit
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, RANK() OVER w AS r FROM visits WINDOW w AS (PARTITION BY user_id ORDER BY ms DESC)) WHERE r = 1 GROUP BY page
ORDER BY n DESC LIMIT 2

-- A59 DISTINCT ON the unit with a total order
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (user_id) user_id, page FROM visits ORDER BY user_id, day, ms, page, country, note) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A75 ordered aggregate in a subquery
-- candidates: SELECT unnest(['a', 'b', 'c'])
-- expect: SELECT f, COUNT(*) FROM (SELECT user_id, FIRST(page ORDER BY day, ms, page) AS f FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY f
SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page ORDER BY day, ms, page) AS f FROM visits GROUP BY user_id) WHERE f IN ('a','b','c') GROUP BY f ORDER BY n DESC LIMIT 2

-- A221 the first row of each unit, ties broken by the other columns
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY country, user_id, page, ms, note, day) = 1) GROUP BY page
SELECT page, COUNT(*) AS n FROM (SELECT user_id, page FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY country) = 1) GROUP BY page ORDER BY n DESC LIMIT 2

-- A222 the page of the longest visit; of equal ones the first by name
-- candidates: SELECT unnest(['a', 'b', 'c', 'd'])
-- expect: SELECT f, COUNT(DISTINCT user_id) FROM (SELECT user_id, FIRST(page ORDER BY ms DESC, page) FILTER (WHERE page IS NOT NULL AND ms IS NOT NULL) AS f FROM visits GROUP BY user_id) GROUP BY f
SELECT f, COUNT(*) AS n FROM (SELECT user_id, ARG_MAX(page, ms) AS f FROM visits GROUP BY user_id) WHERE f IN ('a', 'b', 'c', 'd') GROUP BY f ORDER BY n DESC LIMIT 2

-- A223 ranks by an aggregate
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits GROUP BY user_id, page QUALIFY RANK() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC) = 1) WHERE page = 'a'
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits GROUP BY user_id, page QUALIFY RANK() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC) = 1) WHERE page = 'a'

-- A224 a moving sum over rows
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY day, user_id, page, country, ms, note ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM visits) WHERE s > 100 GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM visits) WHERE s > 100 GROUP BY page ORDER BY n DESC LIMIT 2

-- A225 the merged column of a FULL JOIN is the unit
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, COUNT(*) OVER (PARTITION BY user_id) AS c FROM visits v FULL JOIN users u USING (user_id)) WHERE c > 5
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, COUNT(*) OVER (PARTITION BY user_id) AS c FROM visits v FULL JOIN users u USING (user_id)) WHERE c > 5

-- A226 shares and quantiles of a partition
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, PERCENT_RANK() OVER (PARTITION BY user_id ORDER BY ms) AS p, CUME_DIST() OVER (PARTITION BY user_id ORDER BY ms) AS c FROM visits) WHERE p * 2 > 1 AND c < 1
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, PERCENT_RANK() OVER (PARTITION BY user_id ORDER BY ms) AS p, CUME_DIST() OVER (PARTITION BY user_id ORDER BY ms) AS c FROM visits) WHERE p * 2 > 1 AND c < 1

-- A227 a list of each unit's pages
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'a'
SELECT COUNT(*) FROM (SELECT user_id, LIST(page ORDER BY day) AS l FROM visits GROUP BY user_id) WHERE list_contains(l, 'a')

-- A341 two orders over rows that repeat
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING COUNT(*) > 1)
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) AS a, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms DESC) AS b FROM visits) WHERE a <> b

-- A342 two orders over rows that repeat, by other columns
-- candidates: SELECT unnest([-1, 0, 1])
-- expect: SELECT a - b, COUNT(DISTINCT user_id) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY country, user_id, page, ms, note, day) AS a, ROW_NUMBER() OVER (PARTITION BY user_id, page ORDER BY day DESC, user_id, page, country, ms, note) AS b FROM visits) GROUP BY 1
SELECT a - b AS d, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY country) AS a, ROW_NUMBER() OVER (PARTITION BY user_id, page ORDER BY day DESC) AS b FROM visits) WHERE a - b IN (-1, 0, 1) GROUP BY d ORDER BY n DESC LIMIT 1

-- A343 of zeros with and without a sign, none is the least
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, MIN(CASE WHEN ms % 2 = 0 THEN -((ms - ms) / 1) ELSE (ms - ms) / 1 END) OVER (PARTITION BY user_id) AS m FROM visits) WHERE NOT signbit(m)

-- A344 the same by GROUP BY, and the sum of doubles in any order
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(*) FROM (SELECT user_id, MIN(CASE WHEN ms % 2 = 0 THEN -((ms - ms) / 1) ELSE (ms - ms) / 1 END) AS m, SUM(CASE WHEN ms < 1000 THEN ms / 10 END) AS s FROM visits GROUP BY user_id) WHERE NOT signbit(m) AND s > -1e12

-- A5200 the value of LAG for the first row, which has no row before it
-- candidates: FROM country_domain
-- expect: itself
SELECT country, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country, LAG(ms, 1, 0) OVER (PARTITION BY user_id ORDER BY day, ms, page, country, note) AS before, LEAD(page, 2, 'none') OVER (PARTITION BY user_id ORDER BY day, ms, page, country, note) AS later FROM visits) WHERE before = 0 OR later = 'none' GROUP BY country
ORDER BY n DESC LIMIT 2

-- A5201 NULL as that value, and one that the row itself has
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms, LAG(ms, 1, NULL) OVER w AS a, LAG(ms, 2, ms) OVER w AS b FROM visits WINDOW w AS (PARTITION BY user_id ORDER BY day, ms, page, country, note)) WHERE a IS NULL AND b = ms
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms, LAG(ms, 1, NULL) OVER w AS a, LAG(ms, 2, ms) OVER w AS b FROM visits WINDOW w AS (PARTITION BY user_id ORDER BY day, ms, page, country, note)) WHERE a IS NULL AND b = ms
