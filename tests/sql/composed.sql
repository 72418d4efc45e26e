-- C01 a window over a release in a common table expression
-- releases: 1
WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT page, n, LAG(n) OVER (ORDER BY page) AS before FROM s ORDER BY page

-- C02 a ratio of two releases
-- releases: 1/2 1/2
SELECT a.n / b.n AS share FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) a, (SELECT COUNT(*) AS n FROM users) b

-- C03 equal blocks are one release, whatever their columns and tables are called
-- releases: 1
SELECT a.n / b.m AS one FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) a, (SELECT COUNT(DISTINCT v.user_id) AS m FROM visits v) b

-- C04 a common table expression used twice is one draw
-- releases: 1
WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT a.page, a.n / b.n AS share, a.n - c.n AS none FROM s a JOIN s b ON b.page = 'a' JOIN s c ON c.page = a.page ORDER BY 1

-- C05 the outermost clause is divided between the branches of UNION ALL
-- releases: 2/5 2/5
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.8) k, n FROM (SELECT page AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page UNION ALL SELECT country, COUNT(DISTINCT user_id) FROM visits GROUP BY country) ORDER BY k

-- C06 a release in one branch has its own epsilon, the others share the default
-- releases: 1/2 1/5 1/2
SELECT page AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) country, COUNT(DISTINCT user_id) FROM visits GROUP BY country UNION ALL SELECT 'all', COUNT(DISTINCT user_id) FROM visits ORDER BY 1

-- C07 a release joined with a public table
-- releases: 3
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3) p.category, SUM(r.n) AS n FROM pages p JOIN (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) r USING (page) GROUP BY p.category ORDER BY p.category

-- C08 a release of one row as a scalar in another release
-- releases: 1/2 1/2
SELECT country, COUNT(DISTINCT user_id) * 100.0 / (SELECT COUNT(*) FROM users) AS share FROM visits GROUP BY country ORDER BY country

-- C09 a clause of the outermost block holds for its scalar too
-- releases: 3/2 3/2
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3) country, COUNT(DISTINCT user_id) * 100.0 / (SELECT COUNT(*) FROM users) AS share FROM visits GROUP BY country ORDER BY country

-- C10 each release with its own clause
-- releases: 3 1/4
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3) country, COUNT(DISTINCT user_id) / (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) COUNT(*) FROM users) AS share FROM visits GROUP BY country ORDER BY country

-- C11 private rows in a common table expression of two releases
-- releases: 1/2 1/2
WITH v AS (SELECT * FROM visits WHERE ms > 5), r AS (SELECT page AS k, COUNT(DISTINCT user_id) AS n FROM v GROUP BY page), t AS (SELECT country AS k, COUNT(DISTINCT user_id) AS n FROM v GROUP BY country) SELECT k, n FROM r UNION ALL SELECT k, n FROM t ORDER BY k

-- C12 only a clause inside
-- releases: 1/2
SELECT page, n FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) WHERE n > 3.5 ORDER BY page

-- C13 scalars without FROM
-- releases: 1/2 1/2
SELECT (SELECT COUNT(DISTINCT user_id) FROM visits) AS a, (SELECT COUNT(*) FROM users) AS b

-- C14 a plain SELECT around a release, as tools send it
-- releases: 1
SELECT * FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY page LIMIT 4) AS t LIMIT 3

-- C15 a release that nothing refers to is not run
-- releases: 1
WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page), unused AS (SELECT COUNT(*) AS n FROM users) SELECT page, n FROM s ORDER BY page

-- C16 a CASE around a release does not spare it
-- releases: 1/2 1/2
SELECT CASE WHEN n > 1000 THEN (SELECT COUNT(*) FROM users) END AS c FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits)

-- C17 units grouped first, their groups released, those joined
-- releases: 1/2 1/2
WITH per_user AS (SELECT user_id, COUNT(*) AS k FROM visits GROUP BY user_id), h AS (SELECT k, COUNT(*) AS n FROM per_user WHERE k IN (1, 2, 3, 4) GROUP BY k), t AS (SELECT COUNT(*) AS n FROM per_user) SELECT h.k, h.n / t.n AS share FROM h, t WHERE h.n > 0.5 ORDER BY h.k

-- C18 releases nested in post-processing
-- releases: 1
SELECT MAX(n) AS most, SUM(n) AS total FROM (SELECT page, n FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) WHERE n > 0.5)

-- C19 a public common table expression beside a release, with names that the generated ones avoid
-- releases: 1
WITH r0 AS (SELECT page, category FROM pages WHERE category <> 'shop'), r AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT r0.category, r.n FROM r0 JOIN r ON r.page = r0.page ORDER BY r.n

-- C20 TOP in a derived table
-- releases: 2
-- expect: SELECT MAX(n) AS m FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)
SELECT MAX(n) AS m FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 1)

-- C21 the largest groups, selected in the release
-- releases: 1
-- expect: SELECT COUNT(*) * 2 AS m FROM visits GROUP BY page ORDER BY m DESC LIMIT 1
WITH r AS (SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page) SELECT n * 2 AS m FROM r ORDER BY n DESC LIMIT 1

-- C22 a condition on the measure beside those of the aggregates
-- releases: 1
-- expect: SELECT COUNT(*) AS pages, SUM(n) AS total FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)
SELECT COUNT(*) AS pages, SUM(n) AS total FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) WHERE n >= 0.5

-- C23 groups of the domain without rows are not counted
-- releases: 1
SELECT COUNT(*) AS days, MIN(n) AS least, AVG(n) AS mean FROM (SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day) WHERE n < 100

-- C24 the released rows of a selection, sorted and limited again
-- releases: 1
SELECT * FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2) AS t ORDER BY page LIMIT 1

-- C2101 a release joined by its nearest public row
-- releases: 1
WITH r AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT r.page, r.n, p.page AS near FROM r ASOF JOIN (SELECT page FROM pages WHERE page < 'c') p ON r.page >= p.page ORDER BY r.page

-- C2201 private rows are compared with a number of an earlier release
-- releases: 1/2 1/2
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT COUNT(DISTINCT user_id) * 4.1 FROM users)

-- C2202 the number by groups, whose candidates do not depend on it
-- releases: 1/2 1/2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT COUNT(*) + 20.5 FROM users) GROUP BY page ORDER BY page

-- C2203 a joined release of one row, of which two columns are used: one draw
-- releases: 1/2 1/2
WITH a AS (SELECT COUNT(*) + 0.5 AS m, COUNT(DISTINCT user_id) - 9.5 AS c FROM users) SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v CROSS JOIN a WHERE v.ms > a.m AND v.ms > c

-- C2204 a derived release of one row, joined on a condition
-- releases: 1/2 1/2
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT COUNT(*) * 3.3 AS m FROM users) a JOIN visits v ON v.ms < a.m GROUP BY page ORDER BY page

-- C2205 a number within a condition of a count
-- releases: 1/2 1/2
SELECT COUNT(DISTINCT user_id) FILTER (WHERE ms > (SELECT COUNT(*) + 40.5 FROM users)) AS high, COUNT(DISTINCT user_id) AS n FROM visits

-- C2206 a number that depends on another
-- releases: 1/3 1/3 1/3
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms < (SELECT COUNT(DISTINCT user_id) * 4.7 FROM visits WHERE ms > (SELECT COUNT(*) + 0.5 FROM users))

-- C2207 a number computed from released groups
-- releases: 1/2 1/2
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT MAX(m) * 5.1 FROM (SELECT page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page))

-- C2208 the same number twice: one draw
-- releases: 1/2 1/2
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT COUNT(*) + 0.5 FROM users) AND ms < 90 - (SELECT COUNT(*) + 0.5 FROM users)

-- C2209 a number in a subquery of the unit
-- releases: 1/2 1/2
SELECT COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS k FROM visits GROUP BY user_id HAVING MAX(ms) > (SELECT COUNT(*) * 9.3 FROM users))

-- C2210 days that rows are joined to, of which those with rows are shown
-- releases: 1/2 1/2
SELECT d.day, COUNT(DISTINCT v.user_id) AS n FROM (SELECT DISTINCT day FROM visits WHERE country = 'DE') d LEFT JOIN visits v ON v.day <= d.day AND v.day > d.day - 30 GROUP BY d.day ORDER BY d.day

-- C2211 the same through common table expressions, with a limit
-- releases: 1/2 1/2
WITH seen AS (SELECT DISTINCT user_id, page FROM visits), p AS (SELECT DISTINCT page AS k FROM seen) SELECT p.k, COUNT(DISTINCT seen.user_id) AS n FROM p JOIN seen ON seen.page >= p.k GROUP BY 1 ORDER BY p.k DESC LIMIT 3

-- C2212 buckets of NTILE: cut points first, and equal rows are divided
-- releases: 1/2 1/2
SELECT tile, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, NTILE(2) OVER (ORDER BY age, user_id) AS tile FROM users WHERE age > 0) GROUP BY tile ORDER BY tile

-- C2213 scores of users by NTILE, and a public table
-- releases: 1/3 1/3 1/3
WITH scored AS (SELECT user_id, NTILE(2) OVER (ORDER BY MAX(day) DESC) AS r, NTILE(2) OVER (ORDER BY COUNT(*)) AS f FROM visits GROUP BY user_id) SELECT r, f, COUNT(*) AS n FROM scored GROUP BY r, f ORDER BY r, f

-- C5100 rows that are joined with released groups by their key
-- releases: 1/2 1/2
WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 3) SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN t ON t.page = v.page AND v.ms > 3 WHERE v.country IN ('DE', 'FR', 'US') GROUP BY v.country ORDER BY v.country

-- C5101 the same with USING, of ranked groups
-- releases: 1/2 1/2
WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page), ranked AS (SELECT *, RANK() OVER (ORDER BY n DESC) AS r FROM t) SELECT page, COUNT(DISTINCT user_id) AS n FROM ranked JOIN visits USING (page) GROUP BY page ORDER BY page

-- C5102 DISTINCT of windows over whole partitions
-- releases: 1
SELECT DISTINCT page, COUNT(DISTINCT user_id) OVER (PARTITION BY page) AS n, 2 * COUNT(DISTINCT user_id) OVER (PARTITION BY page) AS twice FROM visits ORDER BY page

-- C5103 DISTINCT of windows over all rows, with what is constant beside them
-- releases: 1
SELECT DISTINCT 1 AS one, COUNT(DISTINCT user_id) OVER () AS n FROM (SELECT user_id FROM visits WHERE ms > 10)

-- C5104 a column of released groups beside the groups of their key
-- releases: 1/2 1/2
WITH t AS (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country) SELECT v.country, page, COUNT(DISTINCT v.user_id) * 1.0 / MAX(t.n) AS share FROM visits v JOIN t ON t.country = v.country GROUP BY v.country, page HAVING COUNT(DISTINCT v.user_id) > 0 ORDER BY 1, 2

-- C5105 the same where the column is a key, with USING and a window
-- releases: 1/2 1/2
WITH t AS (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country) SELECT country, n, COUNT(DISTINCT user_id) AS m, SUM(COUNT(DISTINCT user_id)) OVER () AS every FROM visits JOIN t USING (country) WHERE ms > 3 GROUP BY country, n ORDER BY country

-- C7101 public rows without a private row of their value, which are shown
-- releases: 1
SELECT p.page, p.category FROM pages p LEFT JOIN visits v ON v.page = p.page AND v.ms > 5 WHERE v.page IS NULL ORDER BY p.page

-- C7102 two lists, one of them of rows that are shown if they are not in it
-- releases: 1/2 1/2
SELECT page FROM pages WHERE page NOT IN (SELECT page FROM visits) AND page IN (SELECT page FROM baskets)

-- C7103 released groups whose key is in a list
-- releases: 1/2 1/2
SELECT page, n FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) WHERE page IN (SELECT page FROM baskets WHERE page < 'c') ORDER BY page


-- C5610 the share of the groups of a key: the number of its key is another release
-- releases: 1/2 1/2
SELECT country, COUNT(DISTINCT user_id) * 1.0 / (SELECT COUNT(DISTINCT w.user_id) FROM visits w WHERE w.country = v.country) AS share FROM visits v WHERE ms > 3 GROUP BY country ORDER BY country

-- C5611 the same with conditions of its own, beside another key
-- releases: 1/2 1/2
SELECT page, country, COUNT(DISTINCT user_id) AS n, (SELECT COUNT(DISTINCT user_id) FROM visits w WHERE w.page = visits.page AND w.ms > 10) AS every FROM visits GROUP BY page, country ORDER BY 1, 2

-- C5612 windows of a common table expression, of which DISTINCT leaves one row for each partition
-- releases: 1
WITH w AS (SELECT page AS k, ms, COUNT(DISTINCT user_id) OVER (PARTITION BY page) AS n FROM visits WHERE ms > 10) SELECT DISTINCT k, n AS users, 2 * n AS twice FROM w ORDER BY k

-- C5613 TOP with ORDER BY behind WITH
-- releases: 1
-- expect: WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT page, n FROM s ORDER BY page LIMIT 2
WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT TOP 2 page, n FROM s ORDER BY page

-- C5614 TOP in a subquery over a release
-- releases: 1/2 1/2
-- expect: WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT COUNT(DISTINCT user_id) AS every, (SELECT page FROM s ORDER BY page LIMIT 1) AS first FROM visits
WITH s AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT COUNT(DISTINCT user_id) AS every, (SELECT TOP 1 page FROM s ORDER BY page) AS first FROM visits

-- C5615 a call without an alias by PostgreSQL's name for it
-- releases: 1
-- expect: WITH s AS (SELECT page, ROW_NUMBER() OVER (ORDER BY page) AS row_number, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT page, n FROM s WHERE row_number > 1 ORDER BY page
WITH s AS (SELECT page, ROW_NUMBER() OVER (ORDER BY page), COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT page, n FROM s WHERE row_number > 1 ORDER BY page

-- C5616 casts in the condition of a join, of texts that are all dates
-- releases: 1
WITH m AS (SELECT strftime(day, '%Y-%m-01') AS ym, COUNT(DISTINCT user_id) AS n FROM visits WHERE day BETWEEN '2024-03-01' AND '2024-07-31' GROUP BY ym) SELECT a.ym, a.n - b.n AS more FROM m a JOIN m b ON CAST(a.ym AS DATE) = CAST(b.ym AS DATE) + INTERVAL 1 MONTH ORDER BY a.ym

-- C5617 a cast over UNION ALL of one release
-- releases: 1
WITH m AS (SELECT strftime(day, '%Y-%m-01') AS ym, COUNT(DISTINCT user_id) AS n FROM visits WHERE day BETWEEN '2024-03-01' AND '2024-04-30' GROUP BY ym) SELECT CAST(ym AS DATE) AS d, n FROM (SELECT ym, n FROM m UNION ALL SELECT ym, n FROM m) ORDER BY d

-- C5618 T-SQL's CONVERT of a released number
-- releases: 1
-- expect: SELECT country, COUNT(DISTINCT user_id) / 4::FLOAT AS quarter FROM visits GROUP BY country ORDER BY country
SELECT country, COUNT(DISTINCT user_id) / CONVERT(FLOAT, 4) AS quarter FROM visits GROUP BY country ORDER BY country

-- C7250 released numbers of each month of a series in PostgreSQL's select list
-- releases: 1
-- expect: SELECT s.month, COALESCE(v.n, 0) AS n FROM (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-05-01', INTERVAL 1 MONTH))::DATE AS month) s LEFT JOIN (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m) v ON v.m = s.month ORDER BY s.month
SELECT s.month, COALESCE(v.n, 0) AS n FROM (SELECT generate_series(DATE '2024-01-01', DATE '2024-05-01', INTERVAL 1 MONTH)::DATE AS month) s LEFT JOIN (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m) v ON v.m = s.month ORDER BY s.month

-- C7251 the same with BigQuery's array of days
-- releases: 1
-- expect: SELECT s.month, COALESCE(v.n, 0) AS n FROM (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-05-01', INTERVAL 1 MONTH))::DATE AS month) s LEFT JOIN (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m) v ON v.m = s.month ORDER BY s.month
SELECT month, COALESCE(v.n, 0) AS n FROM UNNEST(GENERATE_DATE_ARRAY('2024-01-01', '2024-05-01', INTERVAL 1 MONTH)) AS month LEFT JOIN (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY m) v ON v.m = month ORDER BY month

-- C7252 all days between a released end and a day
-- releases: 1/2 1/2
-- expect: WITH ends AS (SELECT date_trunc('month', MIN(day)) AS lo, DATE '2024-02-10' AS hi FROM visits), days AS (SELECT unnest(generate_series(lo, hi, INTERVAL 1 DAY))::DATE AS d FROM ends), daily AS (SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day) SELECT d, COALESCE(n, 0) AS n FROM days LEFT JOIN daily ON daily.day = days.d ORDER BY d
WITH ends AS (SELECT date_trunc('month', MIN(day)) AS lo, DATE '2024-02-10' AS hi FROM visits), days AS (SELECT generate_series(lo, hi, INTERVAL 1 DAY)::DATE AS d FROM ends), daily AS (SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day) SELECT d, COALESCE(n, 0) AS n FROM days LEFT JOIN daily ON daily.day = days.d ORDER BY d

-- C7253 a series in FROM whose ends are released
-- releases: 1/3 1/3 1/3
-- expect: SELECT m, COALESCE(n, 0) AS n FROM UNNEST(generate_series((SELECT MIN(day) FROM visits), (SELECT MAX(day) FROM visits), INTERVAL 1 MONTH)) AS s(m) LEFT JOIN (SELECT date_trunc('month', day) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k) v ON v.k = date_trunc('month', s.m) ORDER BY m
SELECT m, COALESCE(n, 0) AS n FROM generate_series((SELECT MIN(day) FROM visits), (SELECT MAX(day) FROM visits), INTERVAL 1 MONTH) AS s(m) LEFT JOIN (SELECT date_trunc('month', day) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k) v ON v.k = date_trunc('month', s.m) ORDER BY m

-- C7550 a count for each public row, whose keys are the candidates, with an undeclared one and NULL
-- releases: 1
-- expect: SELECT page, (SELECT COUNT(DISTINCT user_id) FROM visits v WHERE v.page = pages.page) AS n FROM pages ORDER BY page
SELECT page, (SELECT COUNT(DISTINCT user_id) FROM visits v WHERE v.page = pages.page) AS n FROM pages ORDER BY page

-- C7551 a share for each public row with a condition on it, beside its own columns
-- releases: 1/2 1/2
SELECT g.page, g.category, (SELECT COUNT(DISTINCT user_id) FROM visits WHERE visits.page = g.page AND country = 'DE') / (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE g.page = v.page) AS share FROM pages g WHERE g.category = 'news' ORDER BY 1

-- C7552 a number for each pair of two public relations, by two keys of which one is computed
-- releases: 1
SELECT p.page, m.m, (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE v.page = p.page AND month(v.day) = m.m) AS n FROM pages p, (VALUES (1), (2), (3)) AS m(m) WHERE p.category = 'news' ORDER BY 1, 2

-- C7553 a number for each row of a release
-- releases: 1/2 1/2
SELECT r.country, r.n, (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE v.country = r.country AND v.page = 'a') AS a FROM (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country) r WHERE r.country IS NOT NULL ORDER BY 1

-- C7554 a series by LATERAL between released ends
-- releases: 1/2 1/2
-- expect: WITH e AS (SELECT date_trunc('month', MIN(day)) AS lo, DATE '2024-03-01' AS hi FROM visits), a AS (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 1) SELECT g.d, COALESCE(a.n, 0) AS n FROM e, UNNEST(generate_series(e.lo, e.hi, INTERVAL 1 MONTH)) AS g(d) LEFT JOIN a ON a.m = g.d ORDER BY 1
WITH e AS (SELECT date_trunc('month', MIN(day)) AS lo, DATE '2024-03-01' AS hi FROM visits), a AS (SELECT date_trunc('month', day) AS m, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 1) SELECT g.d, COALESCE(a.n, 0) AS n FROM e, LATERAL generate_series(e.lo, e.hi, INTERVAL 1 MONTH) AS g(d) LEFT JOIN a ON a.m = g.d ORDER BY 1

-- C7555 a series whose end is a constant of a row beside it
-- releases: 1
-- expect: SELECT i AS m, COUNT(DISTINCT user_id) AS n FROM range(1, 4) AS t(i) LEFT JOIN visits ON month(day) = i GROUP BY 1 ORDER BY 1
WITH p AS (SELECT 3 AS n), r AS (SELECT g.m, COUNT(DISTINCT v.user_id) AS n FROM p, LATERAL generate_series(1, p.n) AS g(m) JOIN visits v ON month(v.day) = g.m GROUP BY g.m) SELECT m, n FROM r ORDER BY m

-- C7556 days between two constants of a common table expression
-- releases: 1
WITH p(a, b) AS (SELECT DATE '2024-02-01', DATE '2024-02-10'), s AS (SELECT UNNEST(generate_series(a, b, INTERVAL 1 DAY))::DATE AS d FROM p), r AS (SELECT s.d, COUNT(DISTINCT v.user_id) AS n FROM s LEFT JOIN visits v ON v.day = s.d GROUP BY s.d) SELECT d, n FROM r ORDER BY d

-- C7557 rows that are compared with ALL others of their unit, and with ANY
-- releases: 1
-- expect: SELECT COUNT(DISTINCT v.user_id) - 1 AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.user_id = v.user_id AND (v.ms >= w.ms) IS NOT TRUE) OR EXISTS (SELECT 1 FROM visits w WHERE w.user_id = v.user_id AND v.ms > w.ms + 100)
SELECT n - 1 AS n FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits v WHERE ms >= ALL (SELECT w.ms FROM visits w WHERE w.user_id = v.user_id) OR v.ms > ANY (SELECT w.ms + 100 FROM visits w WHERE w.user_id = v.user_id))

-- C7558 ALL of no rows, and of public ones
-- releases: 1 1
-- expect: SELECT (SELECT COUNT(DISTINCT user_id) FROM visits) AS a, (SELECT COUNT(DISTINCT user_id) FROM visits WHERE page <> 'a' AND page <> 'b') AS b
SELECT a.n AS a, b.n AS b FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) AS n FROM visits v WHERE v.page > ALL (SELECT page FROM pages WHERE category = 'none')) a, (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) AS n FROM visits v WHERE v.page <> ALL (SELECT page FROM pages WHERE category = 'news')) b
