-- A1501 keys of one public table: its pairs
-- candidates: SELECT page, category FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT p.page, p.category, COUNT(DISTINCT user_id) AS n FROM visits v JOIN pages p USING (page) GROUP BY 1, 2
ORDER BY n DESC LIMIT 2

-- A1502 a private column that WHERE equates with a public one belongs to its rows
-- candidates: SELECT page, upper(category) FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT v.page, upper(p.category) AS c, COUNT(DISTINCT user_id) AS n FROM visits v, pages p WHERE p.page = v.page GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1503 after LEFT JOIN, rows without a match are in the group of NULL
-- candidates: SELECT page, category FROM pages WHERE page IS NOT NULL UNION ALL SELECT NULL, NULL
-- expect: itself
SELECT v.page, p.category, COUNT(DISTINCT user_id) AS n FROM visits v LEFT JOIN pages p ON v.page = p.page GROUP BY v.page, p.category
ORDER BY n DESC LIMIT 2

-- A1504 two public items that private rows connect
-- candidates: SELECT category, 's' || page FROM pages WHERE page IN ('c', 'd')
-- expect: itself
SELECT p.category, 's' || q.page AS q, COUNT(DISTINCT user_id) AS n FROM visits v JOIN pages p ON p.page = v.page JOIN (SELECT page FROM pages WHERE category = 'shop') q ON q.page = v.page GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1505 independent keys are combined
-- candidates: SELECT page, category, country FROM pages, country_domain WHERE page IS NOT NULL
-- expect: itself
SELECT p.page, p.category, country, COUNT(DISTINCT user_id) AS n FROM visits v JOIN pages p USING (page) GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1506 a name for rows without a match
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL UNION SELECT 'none'
-- expect: itself
SELECT COALESCE(p.category, 'none') AS c, COUNT(DISTINCT user_id) AS n FROM visits v LEFT JOIN pages p ON v.page = p.page GROUP BY c
ORDER BY n DESC LIMIT 2

-- A1507 CASE: the values of its results, whatever its conditions read
-- candidates: SELECT unnest(['slow', 'DE', 'FR', 'US', NULL])
-- expect: itself
SELECT CASE WHEN ms > 50 THEN 'slow' ELSE country END AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k
ORDER BY n DESC LIMIT 2

-- A1508 CASE beside its column: only pairs that can occur
-- candidates: SELECT country, unnest(['SLOW', country, NULL]) FROM country_domain
-- expect: itself
SELECT country, upper(CASE WHEN ms > 50 THEN 'slow' WHEN note IS NULL THEN NULL ELSE country END) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1509 NULLIF with an undeclared column
-- candidates: FROM country_domain
-- expect: itself
SELECT NULLIF(country, note) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k
ORDER BY n DESC LIMIT 2

-- A1510 GREATEST of two declared columns
-- candidates: SELECT DISTINCT greatest(page, country) FROM page_domain, country_domain
-- expect: itself
SELECT GREATEST(page, country) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k
ORDER BY n DESC LIMIT 2

-- A1511 a range of integers in WHERE
-- candidates: SELECT unnest(range(0, 6))
-- expect: itself
SELECT ms // 10 AS k, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 5 AND 55 > ms GROUP BY k
ORDER BY n DESC LIMIT 2

-- A1512 a range of days in WHERE, on an undeclared column
-- candidates: SELECT unnest([DATE '2024-02-01', DATE '2024-03-01'])
-- expect: SELECT date_trunc('month', TRY_CAST(note AS DATE))::DATE, COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS DATE) BETWEEN '2024-02-02' AND '2024-03-01' GROUP BY 1
SELECT date_trunc('month', d) AS m, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, TRY_CAST(note AS DATE) AS d FROM visits) WHERE d BETWEEN '2024-02-02' AND '2024-03-01' GROUP BY m
ORDER BY n DESC LIMIT 1

-- A1513 a range of times in WHERE: the hours that lie in it
-- candidates: SELECT unnest(generate_series(TIMESTAMP '2024-02-02 22:00', TIMESTAMP '2024-02-03 01:00', INTERVAL 1 HOUR))
-- expect: SELECT date_trunc('hour', TRY_CAST(note AS TIMESTAMP)), COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS TIMESTAMP) BETWEEN '2024-02-02' AND '2024-02-04' GROUP BY 1
SELECT date_trunc('hour', ts) AS h, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, TRY_CAST(note AS TIMESTAMP) AS ts FROM visits) WHERE ts >= '2024-02-02 22:30:00' AND ts < '2024-02-03 01:00:01' GROUP BY h
ORDER BY n DESC LIMIT 1

-- A1514 a range of days of a time, in a subquery
-- candidates: SELECT unnest(generate_series(TIMESTAMP '2024-02-03', TIMESTAMP '2024-02-04 23:00', INTERVAL 1 HOUR))
-- expect: SELECT date_trunc('hour', TRY_CAST(note AS TIMESTAMP)), COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS DATE) BETWEEN '2024-02-03' AND '2024-02-04' GROUP BY 1
WITH t AS (SELECT user_id, TRY_CAST(note AS TIMESTAMP) AS ts FROM visits), w AS (SELECT * FROM t WHERE CAST(ts AS DATE) BETWEEN '2024-02-03' AND '2024-02-04') SELECT date_trunc('hour', ts) AS h, COUNT(DISTINCT user_id) AS n FROM w GROUP BY h
ORDER BY n DESC LIMIT 1

-- A1515 equalities with OR list values
-- candidates: SELECT unnest(['A B', 'B'])
-- expect: itself
SELECT upper(note) AS k, COUNT(DISTINCT user_id) AS n FROM visits WHERE (note = 'a b' OR ('b' = note)) GROUP BY k
ORDER BY n DESC LIMIT 1

-- A1516 a range narrows a declared one
-- candidates: SELECT DISTINCT date_trunc('month', d)::DATE, month(d) FROM day_domain WHERE d >= DATE '2024-02-15' AND d < DATE '2024-07-01'
-- expect: SELECT date_trunc('month', day)::DATE, month(day), COUNT(DISTINCT user_id) FROM visits WHERE day >= DATE '2024-02-15' AND day < DATE '2024-07-01' GROUP BY ALL
SELECT date_trunc('month', day) AS m, month(day) AS number, COUNT(DISTINCT user_id) AS n FROM visits WHERE day >= '2024-02-15' AND day < '2024-07-01' GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1517 part of a day, narrowed
-- candidates: SELECT unnest([3, 4])
-- expect: itself
SELECT month(day) AS m, COUNT(DISTINCT user_id) AS n FROM visits WHERE day > '2024-02-29' AND day <= '2024-04-30' GROUP BY m
ORDER BY n DESC LIMIT 1

-- A1518 months between a date and a declared column
-- candidates: SELECT DISTINCT date_diff('month', DATE '2023-11-30', d) FROM day_domain
-- expect: SELECT date_diff('month', DATE '2023-11-30', day), COUNT(DISTINCT user_id) FROM visits WHERE day BETWEEN '2024-01-01' AND '2024-12-31' OR day IS NULL GROUP BY 1
SELECT date_diff('month', DATE '2023-11-30', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m
ORDER BY n DESC LIMIT 2

-- A1519 the declared values of a column as a relation
-- candidates: FROM country_domain WHERE country <> 'US'
-- expect: SELECT country, COUNT(DISTINCT user_id) FROM visits WHERE country IN ('DE', 'FR') GROUP BY country
SELECT d.country, COUNT(DISTINCT user_id) AS n FROM dp_domain(visits.country) AS d JOIN visits v ON v.country = d.country WHERE d.country <> 'US' GROUP BY d.country
ORDER BY n DESC LIMIT 1

-- A1520 a condition of INNER JOIN narrows, one of LEFT JOIN does not
-- candidates: SELECT country, category FROM country_domain, category_domain WHERE country <> 'US' AND category IN ('news', 'shop')
-- expect: itself
SELECT country, p.category, COUNT(DISTINCT user_id) AS n FROM visits v LEFT JOIN users u USING (user_id) JOIN (SELECT category, page FROM pages WHERE category IN ('news', 'shop')) AS p ON v.page = p.page AND country <> 'US' GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1521 a constant key
-- candidates: SELECT 'all', country FROM country_domain
-- expect: itself
SELECT 'all' AS k, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k, country
ORDER BY n DESC LIMIT 2

-- A1522 keys of public rows that a subquery joined
-- candidates: SELECT upper(page), category, country FROM pages, country_domain WHERE page IS NOT NULL AND category <> 'empty'
-- expect: itself
WITH b AS (SELECT user_id, upper(v.page) AS page, p.category, country FROM visits v JOIN pages p USING (page) WHERE p.category <> 'empty'), c AS (SELECT * FROM b) SELECT page, category, country, COUNT(DISTINCT user_id) AS n FROM c GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1523 the same, in a subquery with windows, grouped by the unit, on the nullable side
-- candidates: SELECT page, category, city FROM pages, city_domain WHERE page IS NOT NULL UNION ALL SELECT NULL, NULL, city FROM city_domain
-- expect: itself
WITH f AS (SELECT user_id, v.page, p.category FROM visits v JOIN pages p USING (page) QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms DESC, day, v.page, country, note) <= 3), g AS (SELECT user_id, page, category, COUNT(*) AS k FROM f GROUP BY ALL) SELECT g.page, g.category, u.city, COUNT(DISTINCT u.user_id) AS n FROM users u LEFT JOIN g ON g.user_id = u.user_id GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A1524 a value computed on the nullable side is NULL without a match
-- candidates: SELECT unnest(['no', 'none', 'some'])
-- expect: itself
SELECT COALESCE(g.k, 'none') AS x, COUNT(DISTINCT u.user_id) AS n FROM users u LEFT JOIN (SELECT user_id, CASE WHEN country = 'DE' THEN 'some' ELSE 'no' END AS k FROM visits) g ON g.user_id = u.user_id GROUP BY x
ORDER BY n DESC LIMIT 2

-- A5400 the first day of a unit has the declared days
-- candidates: SELECT DISTINCT date_trunc('month', d)::DATE FROM day_domain UNION ALL SELECT NULL
-- expect: SELECT m, COUNT(*) FROM (SELECT date_trunc('month', MIN(day))::DATE AS m FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) WHERE m IS NULL OR year(m) = 2024 GROUP BY m
-- groups: 1
SELECT m, COUNT(*) AS n FROM (SELECT user_id, date_trunc('month', MIN(day)) AS m FROM visits GROUP BY user_id) GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5401 the least of an expression, with the unit's other rows
-- candidates: SELECT DISTINCT date_trunc('quarter', d)::DATE, country FROM day_domain, (FROM country_domain UNION ALL SELECT NULL) WHERE d IS NOT NULL
-- expect: WITH f AS (SELECT user_id, MIN(date_trunc('quarter', day))::DATE AS q FROM visits WHERE day < DATE '2100-01-01' GROUP BY user_id) SELECT q, country, COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE (q IS NULL OR year(q) = 2024) AND (country IS NULL OR country <> 'XX') GROUP BY ALL
WITH f AS (SELECT user_id, MIN(date_trunc('quarter', day)) AS q FROM visits WHERE day < '2100-01-01' GROUP BY user_id) SELECT q, country, COUNT(DISTINCT user_id) AS n FROM visits JOIN f USING (user_id) GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A5402 the country of the last visit
-- candidates: FROM country_domain UNION ALL SELECT NULL
-- expect: SELECT k, COUNT(*) FROM (SELECT arg_max(country, ms) FILTER (WHERE country IS NOT NULL) AS k FROM (SELECT DISTINCT user_id, country, ms FROM visits WHERE country <> 'XX') WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY k
-- groups: 1
SELECT k, COUNT(*) AS n FROM (SELECT user_id, arg_max(country, ms) AS k FROM visits WHERE country <> 'XX' GROUP BY user_id) GROUP BY k
ORDER BY n DESC LIMIT 1

-- A5403 with FILTER it may be NULL
-- candidates: FROM country_domain UNION ALL SELECT NULL
-- expect: SELECT k, COUNT(*) FROM (SELECT MAX(country) FILTER (WHERE ms > 100) AS k FROM visits WHERE user_id IS NOT NULL AND country IN ('DE', 'FR', 'US') GROUP BY user_id) GROUP BY k
-- groups: 1
SELECT k, COUNT(*) AS n FROM (SELECT user_id, MAX(country) FILTER (WHERE ms > 100) AS k FROM visits WHERE country IN ('DE', 'FR', 'US') GROUP BY user_id) GROUP BY k
ORDER BY n DESC LIMIT 1

-- A5404 what WHERE lists, without NULL
-- candidates: SELECT unnest(['DE', 'FR'])
-- expect: itself
-- groups: 1
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, MIN(country) AS k FROM visits WHERE country IN ('DE', 'FR') GROUP BY user_id) GROUP BY k
ORDER BY n DESC LIMIT 1

-- A5405 a window chooses a declared value
-- candidates: SELECT a.country, b.country FROM country_domain a, country_domain b UNION ALL SELECT country, NULL FROM country_domain UNION ALL SELECT NULL, country FROM country_domain UNION ALL SELECT NULL, NULL
-- expect: SELECT k, country, COUNT(DISTINCT user_id) FROM (SELECT user_id, country, MIN(country) OVER (PARTITION BY user_id) AS k FROM visits WHERE user_id IS NOT NULL) WHERE (country IS NULL OR country <> 'XX') AND (k IS NULL OR k <> 'XX') GROUP BY ALL
SELECT k, country, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country, MIN(country) OVER (PARTITION BY user_id) AS k FROM visits) GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A5406 a value of its own where there is no row before
-- candidates: FROM country_domain UNION ALL SELECT unnest(['none', NULL])
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(country, 1, 'none') OVER (PARTITION BY user_id ORDER BY day, page, country, ms, note) AS k FROM visits WHERE user_id IS NOT NULL) WHERE k IS NULL OR k <> 'XX' GROUP BY ALL
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, LAG(country, 1, 'none') OVER (PARTITION BY user_id ORDER BY day, page, country, ms, note) AS k FROM visits) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A5407 the least of an own subquery, NULL without a row
-- candidates: SELECT DISTINCT date_trunc('quarter', d)::DATE FROM day_domain UNION ALL SELECT NULL
-- expect: SELECT date_trunc('quarter', d)::DATE, COUNT(DISTINCT user_id) FROM (SELECT user_id, (SELECT MIN(v.day) FROM visits v WHERE v.user_id = u.user_id AND v.ms > 60) AS d FROM users u) WHERE d IS NULL OR year(d) = 2024 GROUP BY ALL
SELECT date_trunc('quarter', d) AS q, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, (SELECT MIN(v.day) FROM visits v WHERE v.user_id = u.user_id AND v.ms > 60) AS d FROM users u) GROUP BY q
ORDER BY n DESC LIMIT 2

-- A5408 windows over groups choose, too
-- candidates: FROM country_domain UNION ALL SELECT NULL
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, FIRST_VALUE(MIN(country)) OVER (PARTITION BY user_id ORDER BY page NULLS LAST) AS k FROM visits WHERE user_id IS NOT NULL GROUP BY user_id, page) WHERE k IS NULL OR k <> 'XX' GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, FIRST_VALUE(MIN(country)) OVER (PARTITION BY user_id ORDER BY page NULLS LAST) AS k FROM visits GROUP BY user_id, page) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A5409 HAVING narrows what is chosen
-- candidates: SELECT DISTINCT month(d) FROM day_domain WHERE d >= DATE '2024-03-10'
-- expect: SELECT month(d), COUNT(*) FROM (SELECT MIN(day) AS d FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING MIN(day) BETWEEN '2024-03-10' AND '2024-12-31') GROUP BY ALL
-- groups: 1
SELECT month(d) AS m, COUNT(*) AS n FROM (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id HAVING MIN(day) >= DATE '2024-03-10') GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5410 months since the first visit: none is before it
-- candidates: SELECT DISTINCT date_trunc('quarter', a.d)::DATE, date_diff('month', a.d, b.d) FROM day_domain a, day_domain b WHERE (a.d > b.d) IS NOT TRUE
-- expect: WITH f AS (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id) SELECT date_trunc('quarter', d)::DATE, date_diff('month', d, day), COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE (d IS NULL OR year(d) = 2024) AND (day IS NULL OR year(day) = 2024) GROUP BY ALL
WITH f AS (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id) SELECT date_trunc('quarter', f.d) AS q, date_diff('month', f.d, v.day) AS m, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN f USING (user_id) GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A5411 the first of some visits may be after others
-- candidates: SELECT DISTINCT date_diff('month', a.d, b.d) FROM day_domain a, day_domain b
-- expect: WITH f AS (SELECT user_id, MIN(day) AS d FROM visits WHERE ms > 60 GROUP BY user_id) SELECT date_diff('month', d, day), COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE (d IS NULL OR year(d) = 2024) AND (day IS NULL OR year(day) = 2024) GROUP BY ALL
WITH f AS (SELECT user_id, MIN(day) AS d FROM visits WHERE ms > 60 GROUP BY user_id) SELECT date_diff('month', f.d, v.day) AS m, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN f USING (user_id) GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5412 a window's last visit, of the visits that meet WHERE
-- candidates: SELECT DISTINCT date_diff('month', a.d, b.d) FROM day_domain a, day_domain b WHERE (a.d > b.d) IS NOT TRUE
-- expect: SELECT date_diff('month', day, d), COUNT(DISTINCT user_id) FROM (SELECT user_id, day, MAX(day) OVER (PARTITION BY user_id) AS d FROM visits WHERE ms > 60 AND user_id IS NOT NULL) WHERE date_diff('month', day, d) < 12 OR d IS NULL OR day IS NULL GROUP BY ALL
SELECT date_diff('month', day, d) AS m, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, day, MAX(day) OVER (PARTITION BY user_id) AS d FROM visits WHERE ms > 60) GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5413 the row with the first day
-- candidates: SELECT DISTINCT date_diff('quarter', a.d, b.d) FROM day_domain a, day_domain b WHERE (a.d > b.d) IS NOT TRUE
-- expect: WITH f AS (SELECT user_id, day AS d FROM visits WHERE user_id IS NOT NULL QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) = 1) SELECT date_diff('quarter', d, day), COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE date_diff('quarter', d, day) < 4 OR d IS NULL OR day IS NULL GROUP BY ALL
WITH r AS (SELECT user_id, day, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS i FROM visits), f AS (SELECT user_id, day AS d FROM r WHERE i = 1) SELECT date_diff('quarter', f.d, v.day) AS q, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN f USING (user_id) GROUP BY q
ORDER BY n DESC LIMIT 2

-- A5414 the second row's day may be after others
-- candidates: SELECT DISTINCT date_diff('quarter', a.d, b.d) FROM day_domain a, day_domain b
-- expect: WITH f AS (SELECT user_id, day AS d FROM visits WHERE user_id IS NOT NULL QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day, page, country, ms, note) = 2) SELECT date_diff('quarter', d, day), COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE (d IS NULL OR year(d) = 2024) AND (day IS NULL OR year(day) = 2024) GROUP BY ALL
WITH r AS (SELECT user_id, day, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day, page, country, ms, note) AS i FROM visits), f AS (SELECT user_id, day AS d FROM r WHERE i = 2) SELECT date_diff('quarter', f.d, v.day) AS q, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN f USING (user_id) GROUP BY q
ORDER BY n DESC LIMIT 2

-- A5415 months between the first and the last day of a unit, by a year and a month
-- candidates: SELECT DISTINCT (year(b.d) - year(a.d)) * 12 + month(b.d) - month(a.d) FROM day_domain a, day_domain b WHERE (a.d > b.d) IS NOT TRUE
-- expect: SELECT (year(b) - year(a)) * 12 + month(b) - month(a), COUNT(*) FROM (SELECT MIN(day) AS a, MAX(day) AS b FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) WHERE a IS NULL OR b IS NULL OR date_diff('month', a, b) < 12 GROUP BY ALL
-- groups: 1
SELECT m, COUNT(*) AS n FROM (SELECT user_id, (year(MAX(day)) - year(MIN(day))) * 12 + month(MAX(day)) - month(MIN(day)) AS m FROM visits GROUP BY user_id) GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5416 days within the first week: the same pairs as the condition leaves
-- candidates: SELECT DISTINCT month(a.d), b.d - a.d FROM day_domain a, day_domain b WHERE b.d - a.d BETWEEN 0 AND 6
-- expect: WITH f AS (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id) SELECT month(d), day - d, COUNT(DISTINCT user_id) FROM visits JOIN f USING (user_id) WHERE day - d <= 6 GROUP BY ALL
WITH f AS (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id) SELECT month(f.d) AS m, v.day - f.d AS i, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN f USING (user_id) WHERE v.day - f.d BETWEEN 0 AND 6 GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A5417 branches of UNION have the values of both
-- candidates: FROM country_domain UNION ALL FROM city_domain UNION ALL SELECT NULL
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, city FROM users) WHERE k IS NULL OR k NOT IN ('XX', 'Z') GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, city FROM users) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A5418 EXCEPT has values of the first branch
-- candidates: FROM country_domain UNION ALL SELECT NULL
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, country AS k FROM visits EXCEPT SELECT user_id, note FROM visits) WHERE k IS NULL OR k <> 'XX' GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country AS k FROM visits EXCEPT SELECT user_id, note FROM visits) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A5600 the names of days of undeclared days
-- candidates: SELECT unnest(['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday', NULL])
-- expect: itself
SELECT dayname(day) AS d, COUNT(DISTINCT user_id) AS n FROM refunds GROUP BY d
ORDER BY n DESC LIMIT 2

-- A5601 texts of months of undeclared days that meet WHERE
-- candidates: SELECT unnest(['01', '02', '03', '04', '05', '06', '07', '08', '09', '10', '11', '12', NULL])
-- expect: itself
SELECT strftime(day, '%m') AS m, COUNT(DISTINCT user_id) AS n FROM refunds WHERE day IS NOT NULL GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5602 texts of minutes
-- candidates: SELECT unnest(['00:00'])
-- expect: itself
SELECT strftime(day, '%H:%M') AS m, COUNT(DISTINCT user_id) AS n FROM refunds WHERE strftime(day, '%H:%M') IN ('00:00') GROUP BY m
ORDER BY n DESC LIMIT 1

-- A5610 what is made of a text of a time and of constants
-- candidates: SELECT unnest(['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun', NULL])
-- expect: itself
SELECT left(dayname(day), 3) AS d, COUNT(DISTINCT user_id) AS n FROM refunds GROUP BY d
ORDER BY n DESC LIMIT 2

-- A5611 a key of a column that has the name of a measure
-- candidates: SELECT unnest(['long', 'short'])
-- expect: itself
SELECT CASE WHEN age > 40 THEN 'long' ELSE 'short' END AS k, COUNT(age) AS age FROM users GROUP BY CASE WHEN age > 40 THEN 'long' ELSE 'short' END
ORDER BY k

-- A5761 an undeclared key has the values of public rows that WHERE lists, also those without rows
-- candidates: SELECT page AS v0 FROM pages WHERE category = 'news' AND page IS NOT NULL
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM baskets WHERE page IN (SELECT page FROM pages WHERE category = 'news') GROUP BY page
ORDER BY n DESC LIMIT 3

-- A5762 the same of a column of a subquery
-- candidates: SELECT page AS v0 FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT p, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page AS p FROM baskets WHERE late) WHERE p IN (SELECT page FROM pages) GROUP BY p
ORDER BY n DESC LIMIT 3

-- A5763 hours of a range of times, of the days and hours that parts of the time leave
-- candidates: SELECT unnest([TIMESTAMP '2024-02-03 00:00', TIMESTAMP '2024-02-03 01:00', TIMESTAMP '2024-02-03 22:00', TIMESTAMP '2024-02-03 23:00'])
-- expect: SELECT date_trunc('hour', TRY_CAST(note AS TIMESTAMP)), COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS TIMESTAMP) BETWEEN '2024-02-02' AND '2024-02-04' AND day(TRY_CAST(note AS TIMESTAMP)) = 3 AND hour(TRY_CAST(note AS TIMESTAMP)) NOT BETWEEN 2 AND 21 GROUP BY 1
SELECT date_trunc('hour', ts) AS h, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, TRY_CAST(note AS TIMESTAMP) AS ts FROM visits) WHERE ts >= '2024-02-02 22:30:00' AND ts < '2024-02-05' AND extract('day' FROM ts) = 3 AND NOT hour(ts) BETWEEN 2 AND 21 GROUP BY h

-- A5764 minutes within an hour leave no hour out
-- candidates: SELECT unnest([TIMESTAMP '2024-02-02 22:00', TIMESTAMP '2024-02-02 23:00', TIMESTAMP '2024-02-03 00:00'])
-- expect: SELECT date_trunc('hour', TRY_CAST(note AS TIMESTAMP)), COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS TIMESTAMP) BETWEEN '2024-02-02 22:30:00' AND '2024-02-03 00:59:59' AND minute(TRY_CAST(note AS TIMESTAMP)) < 30 GROUP BY 1
SELECT date_trunc('hour', ts) AS h, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, TRY_CAST(note AS TIMESTAMP) AS ts FROM visits) WHERE ts >= '2024-02-02 22:30:00' AND ts < '2024-02-03 01:00:00' AND minute(ts) < 30 GROUP BY h


-- A5710 days of texts within two days, of the table itself
-- candidates: SELECT unnest([DATE '2024-02-01', DATE '2024-03-01'])
-- expect: SELECT date_trunc('month', TRY_CAST(note AS DATE))::DATE, COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS DATE) BETWEEN '2024-02-02' AND '2024-03-01' GROUP BY 1
SELECT date_trunc('month', TRY_CAST(note AS DATE)) AS m, COUNT(DISTINCT user_id) AS n FROM visits WHERE TRY_CAST(note AS DATE) BETWEEN '2024-02-02' AND '2024-03-01' GROUP BY m
ORDER BY n DESC LIMIT 1

-- A5711 first days of months within two days
-- candidates: SELECT unnest([DATE '2024-02-01', DATE '2024-03-01'])
-- expect: SELECT date_trunc('month', TRY_CAST(note AS DATE))::DATE, COUNT(DISTINCT user_id) FROM visits WHERE date_trunc('month', TRY_CAST(note AS DATE)) BETWEEN '2024-02-01' AND '2024-03-31' GROUP BY 1
SELECT date_trunc('month', TRY_CAST(note AS DATE)) AS m, COUNT(DISTINCT user_id) AS n FROM visits WHERE date_trunc('month', TRY_CAST(note AS DATE)) BETWEEN '2024-02-01' AND '2024-03-31' GROUP BY m
ORDER BY n DESC LIMIT 1

-- A5712 days that are computed of texts
-- candidates: SELECT unnest([DATE '2024-02-02', DATE '2024-02-03'])
-- expect: itself
SELECT TRY_CAST(note AS DATE) AS d, COUNT(DISTINCT user_id) AS n FROM visits WHERE TRY_CAST(note AS DATE) >= '2024-02-02' AND TRY_CAST(note AS DATE) < '2024-02-04' GROUP BY d
ORDER BY n DESC LIMIT 1
