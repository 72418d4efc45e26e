-- A17 domain by IN list on an undeclared column
-- candidates: SELECT unnest(['a b', 'b', 'nobody'])
-- expect: itself
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a b', 'b', 'nobody') GROUP BY note
HAVING n >= 1 LIMIT 2

-- A62 month of a date with a declared range
-- candidates: SELECT DISTINCT date_trunc('month', d)::DATE FROM day_domain
-- expect: SELECT CASE WHEN day < DATE '3000-01-01' THEN date_trunc('month', day)::DATE END, COUNT(DISTINCT user_id) FROM visits GROUP BY 1
SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m
ORDER BY n DESC LIMIT 2

-- A63 a part of a date has a domain of its own
-- candidates: SELECT unnest(range(7)) UNION ALL SELECT NULL
-- expect: itself
SELECT EXTRACT(dow FROM day) AS d, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY d
ORDER BY n DESC LIMIT 2

-- A64 CASE over constants is a public domain
-- candidates: SELECT unnest(['fast', 'ok', 'slow'])
-- expect: itself
SELECT CASE WHEN ms < 10 THEN 'fast' WHEN ms < 100 THEN 'ok' ELSE 'slow' END AS speed, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY speed
ORDER BY n DESC LIMIT 1

-- A65 boolean key
-- candidates: FROM boolean_domain
-- expect: itself
SELECT ms > 50 AS slow, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY slow
ORDER BY n DESC LIMIT 1

-- A181 two keys: the cross product
-- candidates: SELECT page, country FROM page_domain, country_domain
-- expect: itself
SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country
ORDER BY n DESC LIMIT 4

-- A182 equality on the key is a domain of one
-- candidates: SELECT 'x'
-- expect: itself
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE 'x' = note GROUP BY note
ORDER BY n DESC LIMIT 1

-- A183 IN list of numbers, negative ones and duplicates among them
-- candidates: SELECT unnest([-2147483648, 0, 7, 49])
-- expect: itself
SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms IN (7, 0, 49, 7, -2147483648) GROUP BY ms
ORDER BY n DESC LIMIT 2

-- A184 the image of a domain under an expression
-- candidates: SELECT DISTINCT upper(page) || '!' FROM page_domain
-- expect: itself
SELECT upper(page) || '!' AS p, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY p
ORDER BY n DESC LIMIT 2

-- A185 a key over two columns with domains
-- candidates: SELECT page || country FROM page_domain, country_domain
-- expect: itself
SELECT page || country AS pc, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY pc
ORDER BY n DESC LIMIT 2

-- A186 COALESCE gives NULL a name
-- candidates: SELECT page FROM page_domain WHERE page IS NOT NULL UNION SELECT '?'
-- expect: itself
SELECT COALESCE(page, '?') AS p, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY p
ORDER BY n DESC LIMIT 2

-- A187 day range
-- candidates: FROM day_domain
-- expect: SELECT day, COUNT(DISTINCT user_id) FROM visits WHERE day < DATE '3000-01-01' OR day IS NULL GROUP BY day
SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day
ORDER BY n DESC LIMIT 3

-- A188 the key is selected twice, and not first
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT COUNT(DISTINCT user_id) AS n, page, page AS again FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A189 IF over constants
-- candidates: SELECT unnest(['no', 'yes'])
-- expect: itself
SELECT IF(ms > 50, 'yes', 'no') AS slow, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY slow
ORDER BY n DESC LIMIT 1

-- A190 an IN list stands for the key also after AND
-- candidates: SELECT unnest(['a', 'q'])
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE (page IN ('a', 'q') AND ms > 3) AND country = 'DE' GROUP BY page
ORDER BY n DESC LIMIT 1

-- A191 a key computed in a subquery keeps its domain
-- candidates: SELECT unnest([1, 2, 3, 4, NULL])
-- expect: itself
SELECT q, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, quarter(day) AS q FROM visits) GROUP BY q
ORDER BY n DESC LIMIT 1

-- A192 dates in an IN list
-- candidates: SELECT unnest([DATE '2024-01-01', DATE '2024-01-14', DATE '2030-01-01'])
-- expect: itself
SELECT day, COUNT(DISTINCT user_id) AS n FROM visits WHERE day IN ('2024-01-01', DATE '2024-01-14', '2030-01-01') GROUP BY day
ORDER BY n DESC LIMIT 1

-- A61 lateral UNNEST, unknown domain (TOP_STABLE)
-- candidates: unknown
-- expect: SELECT t.w, COUNT(DISTINCT v.user_id) FROM visits v, UNNEST(string_split(v.note, ' ')) AS t(w) GROUP BY t.w
SELECT t.w, COUNT(DISTINCT v.user_id) AS n FROM visits v, UNNEST(string_split(v.note, ' ')) AS t(w) GROUP BY t.w ORDER BY n DESC LIMIT 2

-- A303 unknown domain: the k largest
-- candidates: unknown
-- expect: SELECT note, COUNT(DISTINCT user_id) FROM visits GROUP BY note
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- A491 keys alone, by the joint exponential mechanism
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- A492 keys with counts, by the joint exponential mechanism
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A1980 a count with the name of the key's column, which the select list still reads
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page AS n, COUNT(DISTINCT user_id) AS page FROM visits GROUP BY visits.page

-- A1981 ORDER BY an alias that hides a column
-- candidates: FROM (SELECT lower(country) AS country FROM country_domain)
-- expect: SELECT lower(country), COUNT(DISTINCT user_id) FROM visits GROUP BY 1
SELECT lower(country) AS country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 1 ORDER BY country DESC

-- A4901 an exact answer, or none: the largest group
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, delta = 1e-6) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1

-- A4902 an exact answer, or none: a list of keys that nobody declared
-- candidates: unknown
-- expect: SELECT note, COUNT(DISTINCT user_id) FROM visits GROUP BY note
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, delta = 1e-6) note, DP_RANK() AS r FROM visits GROUP BY note ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- A4903 an exact answer, or none: all groups that reach a threshold
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, delta = 1e-6) page FROM visits GROUP BY page HAVING COUNT(DISTINCT user_id) >= 2

-- A4904 the set of Top Stable in order, with gaps
-- candidates: unknown
-- expect: SELECT note, COUNT(DISTINCT user_id) FROM visits GROUP BY note
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, mechanism = TOP_STABLE, order_share = 0.25) note, DP_GAP() AS g, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- A4911 steps of a number between two bounds of WHERE
-- groups: 1
-- candidates: VALUES (0.0::DOUBLE), (2), (4), (6)
-- expect: SELECT floor(value / 2) * 2 AS v, COUNT(*) FROM readings WHERE value >= 0 AND value < 8 GROUP BY 1
SELECT floor(value / 2) * 2 AS v, COUNT(*) AS n FROM readings WHERE value >= 0 AND value < 8 GROUP BY 1

-- A4912 steps of a number between its declared bounds; rows beyond are in no group
-- groups: 1
-- candidates: VALUES (0::INTEGER), (-5), (5), (10), (NULL)
-- expect: SELECT TRY_CAST(floor(value / 5) * 5 AS INTEGER) AS v, COUNT(*) FROM readings GROUP BY 1
SELECT CAST(floor(value / 5) * 5 AS INTEGER) AS v, COUNT(*) AS n FROM readings GROUP BY 1

-- A5300 two keys of one number: the pairs that a value of it has
-- groups: 1
-- candidates: VALUES (0.0::DOUBLE, FALSE), (1, FALSE), (1, TRUE), (2, TRUE), (NULL, NULL)
-- expect: SELECT floor(age / 50) AS a, age >= 60 AS b, COUNT(*) FROM users GROUP BY 1, 2
SELECT floor(age / 50) AS a, age >= 60 AS b, COUNT(*) AS n FROM users GROUP BY a, b

-- A5301 halves of whole numbers are rounded as DECIMALs
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(ms - 0.5 AS BIGINT) % 2 = 0 AND floor(ms * 1.15) <> 114
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(ms - 0.5 AS BIGINT) % 2 = 0 AND floor(ms * 1.15) <> 114

-- A5303 steps of a number with one end, cut at a step
-- candidates: VALUES (0.0::DOUBLE), (1), (2), (3)
-- expect: SELECT LEAST(floor(ms / 50), 3) AS b, COUNT(DISTINCT user_id) FROM visits WHERE ms >= 0 GROUP BY 1
SELECT LEAST(floor(ms / 50), 3) AS b, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 0 GROUP BY b

-- A5522 the month of a unit's first day has the declared months
-- candidates: SELECT unnest([DATE '2024-01-01' + to_months(i::INT) FOR i IN range(12)])::DATE UNION ALL SELECT NULL
-- expect: SELECT m, COUNT(*) FROM (SELECT user_id, DATE_TRUNC('month', MIN(day))::DATE AS m FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY m
SELECT m, COUNT(*) AS n FROM (SELECT user_id, DATE_TRUNC('month', MIN(day)) AS m FROM visits GROUP BY user_id) GROUP BY m
ORDER BY n DESC LIMIT 2

-- A5523 the same of a window, and of a largest text
-- candidates: SELECT m, page FROM (SELECT unnest([DATE '2024-01-01' + to_months(i::INT) FOR i IN range(12)])::DATE AS m), page_domain WHERE page IS NOT NULL
-- expect: SELECT DATE_TRUNC('month', f)::DATE, p, COUNT(DISTINCT user_id) FROM (SELECT user_id, MIN(day) OVER w AS f, MAX(page) OVER w AS p FROM visits WHERE day IS NOT NULL AND page IS NOT NULL WINDOW w AS (PARTITION BY user_id)) GROUP BY ALL
SELECT DATE_TRUNC('month', f) AS m, p, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, MIN(day) OVER (PARTITION BY user_id) AS f, MAX(page) OVER (PARTITION BY user_id) AS p FROM visits WHERE day IS NOT NULL AND page IS NOT NULL) WHERE f IS NOT NULL AND p IS NOT NULL GROUP BY m, p
ORDER BY n DESC LIMIT 2

-- A5528 months between days that are read of texts
-- candidates: SELECT unnest(range(12)) UNION ALL SELECT NULL
-- expect: SELECT m, COUNT(DISTINCT user_id) FROM (SELECT user_id, month(day) - month(MIN(day) OVER (PARTITION BY user_id)) AS m FROM visits WHERE user_id IS NOT NULL) GROUP BY m
SELECT DATE_DIFF('month', CAST(STRFTIME(f.d, '%Y-%m-01') AS DATE), v.day) AS m, COUNT(DISTINCT v.user_id) AS n FROM (SELECT user_id, MIN(day) AS d FROM visits GROUP BY user_id) f JOIN visits v ON v.user_id = f.user_id GROUP BY m
ORDER BY n DESC LIMIT 2
