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
