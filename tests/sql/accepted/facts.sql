-- A1960 one row for each unit, numbered in a subquery: rows are counted without a bound
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(*) FROM (SELECT user_id, country, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day DESC, ms, page, country, note) AS k FROM visits WHERE user_id IS NOT NULL) WHERE k = 1 GROUP BY country
SELECT country, COUNT(*) AS n FROM (SELECT country, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day DESC, ms, page, country, note) AS k FROM visits) s WHERE k = 1 GROUP BY country
ORDER BY n DESC LIMIT 2

-- A1961 all groups of an attribute of the unit, joined to its events
-- candidates: FROM city_domain
-- expect: itself
-- groups: 1
SELECT u.city, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON u.user_id = v.user_id AND v.ms > 5 GROUP BY u.city
ORDER BY u.city

-- A1962 all groups of a number of events for each unit
-- candidates: SELECT unnest([4, 5, 6, 7, 12])
-- expect: SELECT c, COUNT(*) FROM (SELECT COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY c
-- groups: 1
SELECT c, COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS c FROM visits GROUP BY user_id) s WHERE c IN (4, 5, 6, 7, 12) GROUP BY c
ORDER BY c

-- A1963 an event in the condition of a LEFT JOIN: a unit is in several groups
-- candidates: SELECT unnest(['X', 'Y', 'none'])
-- expect: itself
-- groups: many
SELECT COALESCE(u.city, 'none') AS city, COUNT(DISTINCT v.user_id) AS n FROM visits v LEFT JOIN users u ON u.user_id = v.user_id AND v.ms > 50 WHERE COALESCE(u.city, 'none') IN ('X', 'Y', 'none') GROUP BY 1
ORDER BY 1

-- A5213 a column of a table with one row a unit, beside groups of units
-- candidates: FROM (SELECT unnest(['X', 'Y', NULL]) AS city)
-- expect: SELECT city, COUNT(*) FROM (SELECT v.user_id, ANY_VALUE(u.city) AS city, COUNT(*) AS c FROM visits v JOIN users u USING (user_id) GROUP BY v.user_id) WHERE c > 5 GROUP BY city
SELECT city, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, u.city, UPPER(u.city) AS upper, COUNT(*) AS c FROM visits v JOIN users u ON u.user_id = v.user_id GROUP BY v.user_id) WHERE c > 5 GROUP BY city ORDER BY n DESC LIMIT 2
