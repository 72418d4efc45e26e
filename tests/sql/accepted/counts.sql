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

-- A900 sums of zeros and ones are counts
-- expect: SELECT COUNT(*) FILTER (WHERE age > 50), COUNT(*) FILTER (WHERE age > 50), COUNT(*) FILTER (WHERE (age > 50) IS NOT TRUE), COUNT(*) FILTER (WHERE age > 50), COUNT(*) FILTER (WHERE age > 50), COUNT(age) FILTER (WHERE city = 'X'), COUNT(*), COUNT(*) FILTER (WHERE age > 30 AND city IS DISTINCT FROM 'Y'), COUNT(*) FILTER (WHERE age > 50) FROM users
SELECT SUM(CASE WHEN age > 50 THEN 1 ELSE 0 END) AS a, SUM(CASE WHEN age > 50 THEN 1 END) AS b, SUM(CASE WHEN age > 50 THEN 0 ELSE 1.0 END) AS c, SUM(IF(age > 50, 1, NULL)), SUM((age > 50)::INT), COUNT(CASE WHEN city = 'X' THEN age END), SUM(1), SUM(CASE city WHEN 'X' THEN 1 WHEN 'Y' THEN 0 ELSE 1 END) FILTER (WHERE age > 30), SUM(age > 50) FROM users

-- A901 a sum of ones where a condition does not hold counts the rows where it is NULL
-- expect: SELECT COUNT(*) FILTER (WHERE city IS DISTINCT FROM 'X') FROM users
SELECT SUM(CASE WHEN city = 'X' THEN 0 ELSE 1 END) FROM users

-- A902 a sum of ones orders the groups, with a bound on rows
-- candidates: FROM country_domain
-- expect: SELECT country, SUM(n) FROM (SELECT country, LEAST(COUNT(*) FILTER (WHERE ms > 20), 3) AS n FROM visits WHERE user_id IS NOT NULL GROUP BY country, user_id) GROUP BY country
SELECT country, SUM(CASE WHEN ms > 20 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 3)) AS n FROM visits GROUP BY country
ORDER BY n DESC LIMIT 2

-- A903 a difference of sums of ones
-- expect: SELECT COUNT(*) FILTER (WHERE age > 50) - COUNT(*) FILTER (WHERE age <= 50) FROM users
SELECT SUM(CASE WHEN age > 50 THEN 1 ELSE 0 END) - SUM(CASE WHEN age <= 50 THEN 1 ELSE 0 END) FROM users

-- A904 a sum over a unit's own rows stays a sum
-- expect: SELECT COUNT(*) FROM (SELECT SUM(CASE WHEN ms > 50 THEN 1 END) AS s FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) WHERE s IS NULL
SELECT COUNT(*) FROM (SELECT user_id, SUM(CASE WHEN ms > 50 THEN 1 END) AS s FROM visits GROUP BY user_id) WHERE s IS NULL

-- A905 an approximate count of units is a count of units
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT APPROX_COUNT_DISTINCT(user_id) FROM visits

-- A906 different values, of which each unit has few enough
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(DISTINCT page) FROM visits WHERE user_id IS NOT NULL GROUP BY country
-- units: differ
SELECT country, COUNT(DISTINCT page, contribution_bounds_per_group => (0, 6)) AS n FROM visits GROUP BY country
ORDER BY n DESC LIMIT 2

-- A907 different values with one row a unit need no bound
-- expect: SELECT COUNT(DISTINCT age), COUNT(DISTINCT city), COUNT(DISTINCT city) FILTER (WHERE age > 40) FROM users
-- units: differ
SELECT COUNT(DISTINCT age), COUNT(DISTINCT city), COUNT(DISTINCT city) FILTER (WHERE age > 40) FROM users

-- A908 different values beside counts of rows and of units; NULL is no value
-- candidates: FROM country_domain
-- expect: SELECT a.country, a.n, b.m, a.u, a.w FROM (SELECT country, COUNT(DISTINCT note) AS n, COUNT(DISTINCT user_id) AS u, COUNT(DISTINCT CASE WHEN ms > 20 THEN page END) AS w FROM visits WHERE user_id IS NOT NULL GROUP BY country) a JOIN (SELECT country, SUM(m) AS m FROM (SELECT country, LEAST(COUNT(*), 3) AS m FROM visits WHERE user_id IS NOT NULL GROUP BY country, user_id) GROUP BY country) b ON a.country IS NOT DISTINCT FROM b.country
-- units: differ
SELECT country, COUNT(DISTINCT note, contribution_bounds_per_group => (0, 9)) AS n, COUNT(*, contribution_bounds_per_group => (0, 3)) AS m, COUNT(DISTINCT user_id) AS u, COUNT(DISTINCT CASE WHEN ms > 20 THEN page END, contribution_bounds_per_group => (0, 9)) AS w FROM visits GROUP BY country
ORDER BY u DESC LIMIT 2

-- A909 values of a column that the owner declares unique, and of one that refers to it
-- expect: SELECT COUNT(DISTINCT i.basket_id), COUNT(DISTINCT o.basket_id), COUNT(DISTINCT o.basket_id) FILTER (WHERE o.late) FROM goods i JOIN baskets o ON i.basket_id = o.basket_id WHERE o.user_id IS NOT NULL
SELECT COUNT(DISTINCT i.basket_id, contribution_bounds_per_group => (0, 9)), COUNT(DISTINCT o.basket_id, contribution_bounds_per_group => (0, 9)), COUNT(DISTINCT o.basket_id, contribution_bounds_per_group => (0, 9)) FILTER (WHERE o.late) FROM goods i JOIN baskets o ON i.basket_id = o.basket_id

-- A911 of the values of each unit, two are counted
-- expect: SELECT SUM(LEAST(n, 2)) FROM (SELECT COUNT(*) AS n FROM baskets WHERE user_id IS NOT NULL GROUP BY user_id)
SELECT COUNT(DISTINCT basket_id, contribution_bounds_per_group => (0, 2)) FROM baskets

-- A910 a bound on a count of units changes nothing: each counts once
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 5)) FROM visits

-- A912 the sum of a BOOLEAN column is the count of the rows where it is true
-- expect: SELECT SUM(n), SUM(m) FROM (SELECT LEAST(COUNT(*) FILTER (WHERE late), 9) AS n, LEAST(COUNT(late), 9) AS m FROM baskets WHERE user_id IS NOT NULL GROUP BY user_id)
SELECT SUM(late::INT, contribution_bounds_per_group => (0, 9)), COUNT(late, contribution_bounds_per_group => (0, 9)) FROM baskets

