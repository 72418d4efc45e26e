-- A01 plain top-k
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A02 positions, a redundant tie-breaker on the key
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY 1
ORDER BY 2 DESC, 1 LIMIT 2

-- A03 names without regard to case, quoted, qualified
-- candidates: FROM page_domain
-- expect: itself
SELECT v."Page", COUNT(DISTINCT v.USER_ID) AS N FROM main.Visits AS v GROUP BY v.page
ORDER BY n DESC LIMIT 2

-- A04 FROM first
-- candidates: FROM page_domain
-- expect: itself
FROM visits SELECT page, COUNT(DISTINCT user_id) AS n GROUP BY page
ORDER BY n DESC LIMIT 2

-- A05 GROUP BY ALL
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ALL
ORDER BY n DESC LIMIT 2

-- A06 the options clause
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.7, measure = AUTO, confidence = 0.9)
  page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 2

-- A07 above threshold
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
HAVING n >= 2 LIMIT 2

-- A08 hybrid, count expression in HAVING
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
HAVING COUNT(DISTINCT user_id) > 1 ORDER BY n DESC LIMIT 2

-- A09 argmax
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ORDER BY n DESC LIMIT 1

-- A11 one count, no GROUP BY
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE country = 'DE'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE country = 'DE'

-- A80 ascending on a public domain
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ORDER BY n ASC LIMIT 2

-- A101 TOP after GROUP BY, BY a count by its alias
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
TOP 3 BY n

-- A102 TOP BY a written count that is not selected
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page FROM visits GROUP BY page
TOP 3 BY COUNT(DISTINCT user_id)

-- A103 ARGMAX
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ARGMAX BY n

-- A104 TOP k right after SELECT
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT TOP 3 page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- A105 TOP (k) right after SELECT
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT TOP (3) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- A106 FETCH FIRST
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ORDER BY n DESC FETCH FIRST 3 ROWS ONLY

-- A107 TOP with a threshold, the explicit clauses
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
TOP 3 BY n ABOVE THRESHOLD 2

-- A108 ABOVE THRESHOLD with LIMIT
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ABOVE THRESHOLD 2 LIMIT 3

-- A109 the threshold on the left
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
HAVING (2 <= n) LIMIT 2

-- A110 a column may be called top, or argmax
-- candidates: FROM page_domain
-- expect: itself
SELECT page AS top, COUNT(DISTINCT user_id) AS argmax FROM visits GROUP BY top
ORDER BY argmax DESC LIMIT 2

-- A111 comments are no part of a statement
-- candidates: FROM page_domain
-- expect: itself
SELECT /* WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9) */ page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ORDER BY n DESC LIMIT 2

-- A112 ORDER BY the count written out, that is not selected
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page FROM visits GROUP BY page
ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- A113 the alias of the key in GROUP BY
-- candidates: FROM page_domain
-- expect: itself
SELECT page AS p, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY p
ORDER BY n DESC LIMIT 2

-- A114 an alias that hides a column: in GROUP BY the column wins, as in DuckDB
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(DISTINCT user_id) FROM visits GROUP BY country
SELECT country, COUNT(DISTINCT user_id) AS page FROM visits GROUP BY country
ORDER BY 2 DESC LIMIT 2

-- A115 names that need quotes
-- candidates: FROM page_domain
-- expect: itself
SELECT page AS "the ""page""; --", COUNT(DISTINCT user_id) AS "n'umber" FROM visits GROUP BY 1
ORDER BY "n'umber" DESC LIMIT 2

-- A10 argmax, ARG_MAX spelling
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT ARG_MAX(page, n) FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)

-- A77 QUALIFY spelling of top-k
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2

-- A304 a ratio of released counts
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) AS m, m / n AS share FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A770 above threshold without LIMIT
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
HAVING n >= 10

-- A771 ABOVE THRESHOLD without LIMIT
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page
ABOVE THRESHOLD 2

-- A772 all groups without a bound on those of a unit
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) AS m FROM visits GROUP BY page
LIMIT 5

-- A850 an error in the place of epsilon
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50, confidence = 0.9) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A920 clause, options and count of another dialect, quotes with backticks
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(n) FROM (SELECT page, LEAST(COUNT(*), 5) AS n FROM visits WHERE user_id IS NOT NULL GROUP BY page, user_id) GROUP BY page
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = v.user_id) `page`, ANON_COUNT(* CLAMPED BETWEEN 0 AND 5) FROM `main.visits` v GROUP BY page

-- A921 functions of other dialects
-- candidates: SELECT page FROM page_domain WHERE page IS NOT NULL UNION ALL SELECT 'NVL(x)'
-- expect: SELECT COALESCE(page, 'NVL(x)') AS p, COUNT(DISTINCT user_id) FROM visits WHERE (TRY_CAST(note AS BIGINT) > 3 OR CASE WHEN ms > 20 THEN TRUE ELSE FALSE END) AND date_trunc('month', day) > '2024-01-01' AND ms / NULLIF(ms - 7, 0) IS NOT NULL AND day < current_date GROUP BY p
SELECT NVL(page, 'NVL(x)') AS p, COUNT(DISTINCT user_id) AS n FROM visits v WHERE (SAFE_CAST(note AS INT64) > 3 OR IFF(ms > 20, TRUE, FALSE)) AND DATE_TRUNC((v.day), MONTH) > '2024-01-01' AND SAFE_DIVIDE(ms, ms - 7) IS NOT NULL AND DATE(v.day) < GETDATE() GROUP BY p
ORDER BY n DESC LIMIT 3

-- A922 differences and sums of dates in the order of other dialects
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_diff('day', DATE '2024-02-01', day) BETWEEN 3 AND 90 AND day + INTERVAL 7 DAY < TIMESTAMP '2024-06-01' AND day - INTERVAL 1 MONTH > TIMESTAMP '2023-12-31'
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE DATEDIFF(day, DATE '2024-02-01', v.day) >= 3 AND DATE_DIFF(v.day, DATE '2024-02-01', DAY) <= 90 AND DATEDIFF(v.day, DATE '2024-02-01') <= 90 AND DATE_ADD(v.day, INTERVAL 7 DAY) < TIMESTAMP '2024-06-01' AND DATEADD(month, -1, v.day) > TIMESTAMP '2023-12-31'

-- A923 months by the formats of other dialects
-- candidates: SELECT DISTINCT strftime(d, '%Y-%m') FROM day_domain WHERE month(d) > 1
-- expect: SELECT strftime(day, '%Y-%m'), COUNT(DISTINCT user_id) FROM visits WHERE strftime(day, '%d') > '03' AND strftime(day, '%m') > '01' GROUP BY 1
SELECT TO_CHAR(day, 'YYYY-MM') AS m, COUNT(DISTINCT user_id) AS n FROM visits WHERE FORMAT_DATE('%d', day) > '03' AND DATE_FORMAT(day, 'MM') > '01' GROUP BY 1
ORDER BY n DESC LIMIT 3

-- A924 seconds and whole days between two times, of dates and timestamps
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_diff('microsecond', TIMESTAMP '2024-02-01 00:00:00.5', TRY_CAST(day AS TIMESTAMP)) > 86399500000 AND date_sub('day', TIMESTAMP '2024-06-01 12:00:00', TRY_CAST(day AS TIMESTAMP)) >= -2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(EPOCH FROM (day - TIMESTAMP '2024-02-01 00:00:00.5')) > 86399.5 AND EXTRACT(EPOCH FROM day - DATE '2024-02-01') > 86400 AND DATE_PART('day', day - TIMESTAMP '2024-06-01 12:00:00') >= -2

-- A925 joins in parentheses, with a name and without
-- expect: SELECT COUNT(DISTINCT q.user_id) FROM visits q JOIN users u ON q.user_id = u.user_id JOIN pages p ON p.page = q.page WHERE u.age > 30 AND q.user_id IN (SELECT user_id FROM baskets)
SELECT COUNT(DISTINCT q.user_id) FROM (visits JOIN users USING (user_id)) AS q JOIN pages USING (page) WHERE q.age > 30 AND q.user_id IN (SELECT b.user_id FROM (baskets b JOIN users u ON b.user_id = u.user_id) LEFT JOIN pages USING (page))

-- A926 FILTER in a window, and windows that extend others
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, COUNT(*) FILTER (WHERE ms > 50) OVER (PARTITION BY user_id) AS n, MAX(ms) FILTER (WHERE page = 'a') OVER (PARTITION BY user_id) AS m, RANK() OVER (PARTITION BY user_id ORDER BY ms) AS r FROM visits) WHERE r = 1 AND (n > 2 OR m > 20)
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, COUNT(*) FILTER (WHERE ms > 50) OVER (PARTITION BY user_id) AS n, MAX(ms) FILTER (WHERE page = 'a') OVER w0 AS m, RANK() OVER (w ORDER BY ms) AS r FROM visits WINDOW w0 AS (PARTITION BY user_id), w AS (w0)) WHERE r = 1 AND (n > 2 OR m > 20)

-- A927 UNNEST in a select list
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, UNNEST(string_split(note, ' ')) AS w FROM visits) WHERE w = 'b'
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, UNNEST(string_split(note, ' ')) AS w FROM visits) WHERE w = 'b'

-- A928 names with their schema
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT "main"."visits"."page", COUNT(DISTINCT main.visits.user_id) AS n FROM "main"."visits" GROUP BY "main"."visits"."page"
ORDER BY n DESC LIMIT 2

-- A2600 PostgreSQL's name of the schema
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT "public"."visits"."page", COUNT(DISTINCT visits.user_id) AS n FROM "public"."visits" GROUP BY public.visits.page
ORDER BY n DESC LIMIT 2

-- A5210 functions of ClickHouse
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(DISTINCT user_id) FILTER (WHERE page = 'a') FROM visits WHERE isodow(day) <> 7 AND day(day) < 29 AND CAST(day AS DATE) > DATE '2024-01-02' AND quarter(day) < 4 GROUP BY country
SELECT country, uniqIf(user_id, page = 'a') AS n FROM visits WHERE toDayOfWeek(day) <> 7 AND toDayOfMonth(day) < 29 AND toDate(day) > DATE '2024-01-02' AND toQuarter(day) < 4 GROUP BY country ORDER BY n DESC LIMIT 2

-- A5211 Julian days, of DuckDB and of SQLite, which begin at noon
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE julian(day) - julian(DATE '2024-01-01') > 40 AND julian(day) - 0.5 < 2460490
SELECT COUNT(DISTINCT user_id) FROM visits WHERE julian(day) - julian(DATE '2024-01-01') > 40 AND julianday(day) < 2460490

-- A5212 hours of a clock of twelve
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(strftime(CAST(day AS TIMESTAMP) + INTERVAL 13 HOUR, '%I:%M')) = '01:00'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TO_CHAR(CAST(day AS TIMESTAMP) + INTERVAL 13 HOUR, 'HH:MI') = '01:00'

-- A5526 T-SQL's names in brackets, and TOP with ORDER BY, which is LIMIT
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'TSQL') TOP 2 [page] AS [the page], COUNT(DISTINCT v.[user_id]) AS n FROM visits v GROUP BY [page] ORDER BY n DESC

-- A5527 PostgreSQL's names of calls without an alias, and of casts of columns
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM (SELECT user_id, ms FROM visits WHERE day > DATE '2024-01-05') GROUP BY user_id HAVING COUNT(*) > 1 AND MAX(ms) > 20)
WITH late AS (SELECT user_id, day::date, ms FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'POSTGRES') COUNT(*) AS n FROM (SELECT user_id, COUNT(*), MAX(ms) FROM late WHERE day > DATE '2024-01-05' GROUP BY user_id) t WHERE count > 1 AND max > 20

-- A5850 FIELD of MySQL, texts behind a call and behind END as names
-- candidates: SELECT country FROM country_domain WHERE country IN ('DE', 'FR')
-- expect: SELECT country, COUNT(DISTINCT user_id) FROM visits WHERE country IN ('DE', 'FR') GROUP BY country
SELECT country, CASE WHEN country = 'DE' THEN 'home' ELSE 'x' END 'place', COUNT(DISTINCT user_id) 'users' FROM visits WHERE FIELD(country, 'DE', 'FR') > 0 GROUP BY country ORDER BY users DESC LIMIT 2

-- A5851 days of SQLite that are moved by a text
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(TRY(day - INTERVAL 1 DAY) AS DATE) = DATE '2024-03-06' OR CAST(TRY(day + INTERVAL 90 MINUTE) AS TIMESTAMP) < TIMESTAMP '2024-01-03'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE date(day, '-1 day') = '2024-03-06' OR datetime(day, '+90 minutes') < TIMESTAMP '2024-01-03'

-- A5852 texts that are days, as arguments of functions and before an interval
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= DATE '2024-06-01' - INTERVAL 3 MONTH AND date_diff('day', day, DATE '2024-06-01') > 20 AND year(DATE '2024-01-01') = 2024
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= DATE_SUB('2024-06-01', INTERVAL 3 MONTH) AND date_diff('day', day, '2024-06-01') > 20 AND YEAR('2024-01-01') = 2024

-- A5853 a series of days of texts, in PostgreSQL's select list, beside private rows
-- candidates: SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-04-01', INTERVAL 1 MONTH))
-- expect: SELECT m, COUNT(DISTINCT user_id) FROM visits JOIN (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-04-01', INTERVAL 1 MONTH)) AS m) ON m = TRY(date_trunc('month', day)) GROUP BY m
WITH months AS (SELECT generate_series('2024-01-01', '2024-04-01', '1 month') AS m) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'POSTGRES') m, COUNT(DISTINCT user_id) AS n FROM visits JOIN months ON m = date_trunc('month', day) GROUP BY m

-- A5854 MySQL's parts of two units
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day(day) * 100 + hour(day) BETWEEN 200 AND 2000 AND hour(day) * 100 + minute(day) < 30
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DAY_HOUR FROM day) BETWEEN 200 AND 2000 AND EXTRACT(HOUR_MINUTE FROM day) < 30

-- A5855 a recursive table that counts up
-- candidates: SELECT unnest(generate_series(1, 7, 2))
-- groups: many
-- expect: SELECT n, COUNT(DISTINCT user_id) FROM visits JOIN (SELECT unnest(generate_series(1, 7, 2)) AS n) ON ms % 10 = n GROUP BY n
WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 2 FROM s WHERE n <= 5) SELECT n, COUNT(DISTINCT user_id) AS c FROM visits JOIN s ON ms % 10 = n GROUP BY n

-- A5856 a recursive table of months of T-SQL
-- candidates: SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-05-01', INTERVAL 1 MONTH))::DATE
-- groups: many
-- expect: SELECT m, COUNT(DISTINCT user_id) FROM visits JOIN (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-05-01', INTERVAL 1 MONTH))::DATE AS m) ON m = TRY(date_trunc('month', day)) GROUP BY m
WITH months AS (SELECT CAST('2024-01-01' AS DATE) AS m UNION ALL SELECT DATEADD(month, 1, m) FROM months WHERE m < '2024-04-15') SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'TSQL') m, COUNT(DISTINCT user_id) AS c FROM visits JOIN months ON m = date_trunc('month', day) GROUP BY m

-- A5901 CONCAT of MySQL is NULL where an argument is
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE country || '-' || note IS NULL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'MYSQL') COUNT(DISTINCT user_id) FROM visits WHERE CONCAT(country, '-', note) IS NULL
