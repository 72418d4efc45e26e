-- A2501 a unit's total is cut to the bounds; NULLs are left out
-- expect: SELECT SUM(LEAST(GREATEST(t, 0), 300))::BIGINT FROM (SELECT user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY 1) WHERE t IS NOT NULL
SELECT SUM(ms, contribution_bounds_per_group => (0, 300)) AS s FROM visits

-- A2502 GoogleSQL's older name is the same
-- expect: SELECT SUM(LEAST(GREATEST(t, 0), 300))::BIGINT FROM (SELECT user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY 1) WHERE t IS NOT NULL
SELECT ANON_SUM(ms CLAMPED BETWEEN 0 AND 300) AS s FROM visits

-- A2503 bounds on both sides of 0, of groups, in which no unit may have a value
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, -50), 120.0))::DOUBLE FROM (SELECT page, user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, SUM(ms, contribution_bounds_per_group => (-50, 120)) AS s FROM visits GROUP BY page

-- A2504 bounds above 0: a unit without a value counts 0, one with less counts the least
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, 60), 90))::BIGINT FROM (SELECT page, user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, SUM(ms, contribution_bounds_per_group => (60, 90)) AS s FROM visits GROUP BY page

-- A2505 FILTER and CASE without ELSE are one number; a marker is a bound
-- candidates: FROM page_domain
-- expect: SELECT page, s, s, n FROM (SELECT page, SUM(LEAST(t, 100)) FILTER (WHERE t IS NOT NULL)::BIGINT AS s, COUNT(DISTINCT user_id) AS n FROM (SELECT page, user_id, SUM(ms) FILTER (WHERE ms > 20 AND ms < 200) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) GROUP BY page)
SELECT page, SUM(ms, contribution_bounds_per_group => (0, 100)) FILTER (WHERE ms > 20 AND ms < 200) AS f, SUM(CASE WHEN ms > 20 AND ms < 200 THEN ms END, contribution_bounds_per_group => (0, 100)) AS c, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- A2506 DECIMAL: cents
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, 0), 20.50)) FROM (SELECT page, user_id, SUM((ms % 1000)::DECIMAL(9, 2) - 0.25) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, SUM((ms % 1000)::DECIMAL(9, 2) - 0.25, contribution_bounds_per_group => (0, 20.50)) AS s FROM visits GROUP BY page

-- A2507 DOUBLE: quarters lie on the grid
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, 0), 20)) FROM (SELECT page, user_id, SUM(ms * 0.25::DOUBLE) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, SUM(ms * 0.25::DOUBLE, contribution_bounds_per_group => (0, 20)) AS s FROM visits GROUP BY page

-- A2508 the average over units of each unit's own average
-- candidates: FROM page_domain
-- expect: SELECT page, AVG(LEAST(GREATEST(t, 0), 100)) FROM (SELECT page, user_id, AVG(ms) AS t FROM visits WHERE user_id IS NOT NULL AND ms % 8 < 7 GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, AVG(ms, contribution_bounds_per_group => (0, 100)) AS a FROM visits WHERE ms % 8 < 7 GROUP BY page

-- A2509 all statistics of one column, with both counts of rows, from one vector
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(v), AVG(v), COUNT(v), COUNT(*), VAR_POP(v), VAR_SAMP(v), VARIANCE(v), STDDEV(v), STDDEV_POP(v), STDDEV_SAMP(v) FROM (SELECT *, CASE WHEN ms IS NOT NULL THEN LEAST(GREATEST(ms, 0), 100) END AS v FROM visits WHERE user_id IS NOT NULL) GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 30) page, SUM(ms, contribution_bounds_per_row => (0, 100)) AS s, AVG(ms, contribution_bounds_per_row => (0, 100)) AS a, COUNT(ms) AS n, COUNT(*) AS r,
  VAR_POP(ms, contribution_bounds_per_row => (0, 100)) AS v, VAR_SAMP(ms, contribution_bounds_per_row => (0, 100)) AS w, VARIANCE(ms, contribution_bounds_per_row => (0, 100)) AS x, STDDEV(ms, contribution_bounds_per_row => (0, 100)) AS d, STDDEV_POP(ms, contribution_bounds_per_row => (0, 100)) AS e, STDDEV_SAMP(ms, contribution_bounds_per_row => (0, 100)) AS f FROM visits GROUP BY page

-- A2510 rows beyond the bound are weighted down, each rounded towards zero at the 2^23rd part of a step
-- candidates: FROM page_domain WHERE page < 'e'
-- expect: WITH r AS (SELECT user_id AS u, page, LEAST(GREATEST(ms, -20), 100) AS x FROM visits WHERE user_id IS NOT NULL AND page < 'e' AND ms IS NOT NULL), h AS (SELECT *, COUNT(*) OVER (PARTITION BY u) AS a FROM r) SELECT page, SUM(CASE WHEN a <= 5 THEN x ELSE trunc(x::HUGEINT * 41943040 // a) / 8388608 END) FROM h GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) page, SUM(ms, contribution_bounds_per_row => (-20, 100)) AS s FROM visits WHERE page < 'e' GROUP BY page

-- A2511 an average of rows of which five count for each unit
-- candidates: FROM page_domain WHERE page < 'e'
-- expect: WITH g AS (SELECT user_id AS u, page, COUNT(ms) AS r, SUM(CASE WHEN ms IS NOT NULL THEN LEAST(GREATEST(ms, 20), 120) - 20 END) AS s FROM visits WHERE user_id IS NOT NULL AND page < 'e' GROUP BY ALL), h AS (SELECT *, SUM(r) OVER (PARTITION BY u) AS a FROM g WHERE r > 0) SELECT page, 20 + SUM(s * LEAST(1, 5::DOUBLE / a)) / SUM(r * LEAST(1, 5::DOUBLE / a)) FROM h GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) page, AVG(ms, contribution_bounds_per_row => (20, 120)) AS a FROM visits WHERE page < 'e' GROUP BY page

-- A2512 bounds of the policy; one row a unit
-- candidates: FROM city_domain
-- expect: itself
SELECT city, AVG(age), SUM(age) AS s, STDDEV(age), COUNT(*) FROM users GROUP BY city
ORDER BY city

-- A2513 bounds of a row narrower than the policy's
-- expect: SELECT AVG(LEAST(GREATEST(age, 30), 60)), SUM(age) FROM users
SELECT AVG(age, contribution_bounds_per_row => (30, 60)) AS a, SUM(age) AS s FROM users

-- A2514 a condition narrows what is summed
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(ms), SUM(ms - 100) FROM visits WHERE ms BETWEEN 0 AND 200 AND user_id IS NOT NULL GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 30) page, SUM(ms) AS s, SUM(ms - 100) AS t FROM visits WHERE ms BETWEEN 0 AND 200 GROUP BY page

-- A2515 columns of a public table have the bounds of their values
-- candidates: FROM page_domain WHERE page < 'e'
-- expect: SELECT page, SUM(weight), SUM(price), AVG(price) FROM visits JOIN prices USING (page) WHERE user_id IS NOT NULL GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 30) v.page, SUM(p.weight) AS w, SUM(p.price) AS s, AVG(p.price) AS a FROM visits v JOIN prices p ON v.page = p.page GROUP BY v.page

-- A2516 expressions over public columns and bounded ones; a product of DECIMALs is DOUBLE
-- expect: SELECT SUM((CASE WHEN ms > 50 THEN 2 ELSE 1 END) * weight), AVG(price * weight), SUM(COALESCE(price, 0)) FROM visits JOIN prices USING (page) WHERE user_id IS NOT NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 30) SUM((CASE WHEN ms > 50 THEN 2 ELSE 1 END) * p.weight), AVG(p.price * p.weight), SUM(COALESCE(p.price, 0)) FROM visits v JOIN prices p USING (page)

-- A2517 each row a unit: NaN is no value of a sum, but COUNT counts it; infinity is cut, -0.0 is 0
-- candidates: FROM sensor_domain
-- expect: SELECT sensor, AVG(v), SUM(v), VAR_POP(v), COUNT(value), COUNT(*) FROM (SELECT *, CASE WHEN NOT isnan(value) THEN LEAST(GREATEST(value, -1), 10) END AS v FROM readings) GROUP BY sensor
SELECT sensor, AVG(value), SUM(value), VAR_POP(value), COUNT(value), COUNT(*) FROM readings GROUP BY sensor

-- A2518 each row a unit: totals of units are rows
-- candidates: FROM sensor_domain
-- expect: SELECT sensor, SUM(LEAST(GREATEST(value, 0), 4)) FILTER (WHERE NOT isnan(value)) FROM readings GROUP BY sensor
SELECT sensor, SUM(value, contribution_bounds_per_group => (0, 4)) AS s FROM readings GROUP BY sensor

-- A2519 an average of ones and NULLs
-- expect: SELECT AVG(CASE WHEN age > 50 THEN 1 END), SUM(CASE WHEN age > 50 THEN 1 WHEN age > 20 THEN 2 ELSE 0 END) FROM users
SELECT AVG(CASE WHEN age > 50 THEN 1 END), SUM(CASE WHEN age > 50 THEN 1 WHEN age > 20 THEN 2 ELSE 0 END) FROM users

-- A2520 the total of each unit's totals is the sum per group
-- expect: SELECT SUM(LEAST(GREATEST(t, 0), 300))::BIGINT FROM (SELECT user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY 1) WHERE t IS NOT NULL
SELECT SUM(s, contribution_bounds_per_group => (0, 300)) FROM (SELECT user_id, SUM(ms) AS s FROM visits GROUP BY user_id)

-- A2521 the average of units' largest values, which the subquery computes
-- expect: SELECT AVG(LEAST(GREATEST(a, 0), 128)) FROM (SELECT user_id, MAX(ms) FILTER (WHERE page < 'c') AS a FROM visits WHERE user_id IS NOT NULL GROUP BY 1) WHERE a IS NOT NULL
SELECT AVG(a, contribution_bounds_per_row => (0, 128)) FROM (SELECT user_id, MAX(ms) FILTER (WHERE page < 'c') AS a FROM visits GROUP BY user_id)

-- A2522 the largest groups by a sum, with their averages
-- candidates: FROM page_domain
-- expect: WITH v AS (SELECT page, user_id, ms FROM visits WHERE user_id IS NOT NULL AND ms BETWEEN 0 AND 128), t AS (SELECT page, SUM(LEAST(t, 100)) AS s FROM (SELECT page, user_id, SUM(ms) AS t FROM v GROUP BY ALL) GROUP BY page) SELECT v.page, ANY_VALUE(s), AVG(ms) FROM v JOIN t ON v.page IS NOT DISTINCT FROM t.page GROUP BY v.page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 30) page, SUM(ms, contribution_bounds_per_group => (0, 100)) AS s, AVG(ms) AS a FROM visits WHERE ms BETWEEN 0 AND 128 GROUP BY page ORDER BY s DESC LIMIT 2

-- A2523 groups whose sum reaches a number
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, 0), 100)) FROM (SELECT page, user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY page
SELECT page, SUM(ms, contribution_bounds_per_group => (0, 100)) AS s FROM visits GROUP BY page HAVING s >= 70.5 ORDER BY s DESC

-- A2524 the largest of each partition by a sum
-- candidates: SELECT country, page FROM country_domain, page_domain
-- expect: SELECT country, page, SUM(LEAST(GREATEST(t, 0), 100)) FROM (SELECT country, page, user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) WHERE t IS NOT NULL GROUP BY ALL
SELECT country, page, SUM(ms, contribution_bounds_per_group => (0, 100)) AS s FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY s DESC) <= 2

-- A2525 sums among counts, of which a calculation is made
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(LEAST(GREATEST(t, 0), 100)) FILTER (WHERE t IS NOT NULL), COUNT(*) FROM (SELECT page, user_id, SUM(ms) AS t FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) GROUP BY page
SELECT page, SUM(ms, contribution_bounds_per_group => (0, 100)) / COUNT(DISTINCT user_id) AS r FROM visits GROUP BY page

-- A2526 other names
-- expect: SELECT AVG(age), VAR_SAMP(age), STDDEV_SAMP(age) FROM users
SELECT MEAN(age), VARIANCE(age), STDDEV(age) FROM users
