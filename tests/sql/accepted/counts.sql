-- A13 CASE inside COUNT DISTINCT means FILTER
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT CASE WHEN ms > 100 THEN user_id END) AS n FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A14 the same with IF and NULL
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT IF(ms > 100, user_id, NULL)) AS n FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A15 two counts, one drives
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') AS de FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A46 histogram of a per-unit aggregate: one row a unit, so COUNT(*) is fine
-- candidates: SELECT unnest([4, 5, 6, 12])
-- expect: SELECT k, COUNT(*) FROM (SELECT user_id, COUNT(*) AS k FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY k
SELECT k, COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS k FROM visits GROUP BY user_id) WHERE k IN (4, 5, 6, 12) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A47 COUNT(*) over DISTINCT unit and key
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits WHERE user_id IS NOT NULL) GROUP BY page
SELECT page, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A121 COUNT(*) of a table whose unit is unique
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(*) AS n FROM users GROUP BY city
ORDER BY n DESC LIMIT 1

-- A122 COUNT(x) leaves NULLs out
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(age) AS n, COUNT(NULLIF(age, 29)) AS m FROM users GROUP BY city
ORDER BY n DESC LIMIT 1

-- A123 COUNT_IF
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT_IF(age > 50) AS n FROM users GROUP BY city
ORDER BY n DESC LIMIT 1

-- A124 COUNT(*) with FILTER
-- expect: SELECT COUNT(*) FILTER (WHERE age > 50), COUNT(*) FROM users
SELECT COUNT(*) FILTER (WHERE age > 50) AS old, COUNT(*) AS every FROM users

-- A125 rows fixed to one a unit by an equality
-- expect: SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits WHERE user_id IS NOT NULL) WHERE page = 'a'
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page = 'a'

-- A126 rows stay single through a join with public on a unique column
-- candidates: SELECT page, category FROM pages WHERE page IS NOT NULL
-- expect: SELECT v.page, p.category, COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits WHERE user_id IS NOT NULL) v JOIN pages p USING (page) GROUP BY ALL
SELECT v.page, p.category, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits) v JOIN pages p USING (page) GROUP BY v.page, p.category
ORDER BY n DESC LIMIT 2

-- A127 count of the nullable side, with CASE
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT CASE WHEN v.ms > 50 THEN v.user_id END) AS n FROM users u LEFT JOIN visits v ON u.user_id = v.user_id GROUP BY u.city
ORDER BY n DESC LIMIT 1

-- A128 one count ordered, another for the threshold would differ: the same count twice is one
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page
ORDER BY m DESC LIMIT 2

-- A129 the unit in parentheses
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT (user_id)) FROM visits

-- A130 several counts without GROUP BY
-- expect: SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 50), COUNT(DISTINCT CASE WHEN ms <= 50 THEN user_id END) FROM visits
SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 50), COUNT(DISTINCT CASE WHEN ms <= 50 THEN user_id END) FROM visits

-- A261 difference of counts on a public domain
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') - COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS d FROM visits GROUP BY page
ORDER BY d DESC LIMIT 2

-- A262 rows clamped to two a unit
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(c, 2))::BIGINT FROM (SELECT page, user_id, COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) GROUP BY page
SELECT page, COUNT(*, contribution_bounds_per_group => (0, 2)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2
