-- A1101 a calculation without a name
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) * 5 FROM visits GROUP BY page

-- A1102 a percentage, rounded, of two counts that are not selected
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50), COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, ROUND(100.0 * COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) / COUNT(DISTINCT user_id), 2) FROM visits GROUP BY page ORDER BY page

-- A1103 the same count by its alias, written out, and with another spelling of its column is one
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n, n + COUNT(DISTINCT visits.user_id) - count(DISTINCT "USER_ID") AS m FROM visits GROUP BY page ORDER BY m, 1

-- A1104 CASE, casts and constants over a count
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT 'all' AS label, CAST(COUNT(DISTINCT user_id) AS INTEGER), CASE WHEN COUNT(DISTINCT user_id) > 5 THEN 'many' ELSE 'few' END AS size FROM visits

-- A1105 the count of the period before
-- candidates: SELECT page, d FROM page_domain, day_domain
-- expect: SELECT page, day, COUNT(DISTINCT user_id) FROM visits WHERE day < '2025-01-01' OR day IS NULL GROUP BY ALL
SELECT page, day, LAG(COUNT(DISTINCT user_id)) OVER (PARTITION BY page ORDER BY day) AS before FROM visits GROUP BY 1, 2 ORDER BY 2, 1, 3

-- A1106 shares, a running total and a rank
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) / SUM(COUNT(DISTINCT user_id)) OVER () AS share, SUM(COUNT(DISTINCT user_id)) OVER (ORDER BY page) AS total, RANK() OVER w AS place FROM visits GROUP BY page WINDOW w AS (ORDER BY COUNT(DISTINCT user_id) DESC) ORDER BY page

-- A1107 HAVING on keys only is WHERE
-- candidates: VALUES ('a'), ('b')
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits WHERE page IN ('a', 'b') GROUP BY page
SELECT page AS p, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY p HAVING p IN ('a', 'b')

-- A1108 HAVING on a key leaves out candidates
-- candidates: FROM page_domain WHERE page <> 'c'
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits WHERE page <> 'c' GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING page <> 'c' ORDER BY page

-- A1109 a threshold with LIMIT, and a condition on the key
-- candidates: FROM page_domain WHERE page <> 'a'
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits WHERE page <> 'a' GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING page <> 'a' AND n >= 4 LIMIT 100

-- A1137 HAVING on two keys together
-- candidates: SELECT country, page FROM country_domain, page_domain WHERE lower(country[1]) > page
-- expect: SELECT country, page, COUNT(DISTINCT user_id) FROM visits WHERE lower(country[1]) > page GROUP BY ALL
SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page HAVING lower(country[1]) > page ORDER BY n DESC, country, page LIMIT 100

-- A1110 OR of a key and a count
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING page <> 'z' OR COUNT(DISTINCT user_id) > 10 ORDER BY CASE page WHEN 'c' THEN 0 ELSE 1 END, n DESC, page

-- A1111 two counts in HAVING, BETWEEN and <
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 1) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n BETWEEN 2 AND 30 AND COUNT(DISTINCT user_id) FILTER (WHERE ms > 1) < 6 ORDER BY n, page

-- A1112 a threshold on one count, ordered by another
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 60) FROM visits GROUP BY country
SELECT country, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 60) AS m FROM visits GROUP BY country HAVING n > 2 ORDER BY m DESC, country LIMIT 3

-- A1113 HAVING and LIMIT of a whole table
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) AS n FROM visits HAVING n > 3 ORDER BY 1 LIMIT 100

-- A1114 ORDER BY and LIMIT of one row
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM visits ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 100

-- A1115 ordered by a count, without LIMIT
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC, page

-- A1116 ordered by a key, then by a count
-- candidates: SELECT country, page FROM country_domain, page_domain
-- expect: SELECT country, page, COUNT(DISTINCT user_id) FROM visits GROUP BY ALL
SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ALL ORDER BY country, n DESC, page LIMIT 7

-- A1117 the largest by one count; the released rows sorted by another, too
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 60) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 60) AS m FROM visits GROUP BY page ORDER BY n DESC, m DESC, page LIMIT 6

-- A1118 ordered by a ratio
-- candidates: FROM country_domain
-- expect: SELECT country, COUNT(DISTINCT user_id) FILTER (WHERE ms > 60), COUNT(DISTINCT user_id) FROM visits GROUP BY country
SELECT country FROM visits GROUP BY country ORDER BY COUNT(DISTINCT user_id) FILTER (WHERE ms > 60) / COUNT(DISTINCT user_id) DESC, country LIMIT 2

-- A1119 OFFSET under a selection
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1 OFFSET 1

-- A1120 OFFSET far behind
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 10 OFFSET 1000

-- A1121 an expression of a key, ordered by a count that is not selected and not measured
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT 'page ' || page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- A1122 ranks beside a selection by the same count
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n, RANK() OVER (ORDER BY COUNT(DISTINCT user_id) DESC) AS place FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A1123 a share beside LIMIT needs all groups
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n, n / SUM(n) OVER () AS share FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A1124 QUALIFY by a rank, shown in the order of the keys
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page QUALIFY RANK() OVER (ORDER BY n DESC) <= 2 ORDER BY page

-- A1125 QUALIFY by a name of the select list
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, ROW_NUMBER() OVER (ORDER BY COUNT(DISTINCT user_id) DESC, page) AS place FROM visits GROUP BY page QUALIFY place < 3

-- A1126 the first of each partition
-- candidates: SELECT country, page FROM country_domain, page_domain
-- expect: SELECT country, page, COUNT(DISTINCT user_id) FROM visits GROUP BY ALL
SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC, page) <= 2

-- A1127 QUALIFY by more than a rank
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page QUALIFY n > AVG(n) OVER () ORDER BY page

-- A1128 DISTINCT that changes nothing
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT DISTINCT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY page

-- A1129 DISTINCT over released values
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT DISTINCT COUNT(DISTINCT user_id) > 3 AS many FROM visits GROUP BY page

-- A1130 a difference is one number, also where it orders
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') - COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') - COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS d FROM visits GROUP BY page ORDER BY ABS(d) DESC, page

-- A1131 a value of a public table, and a name of the select list in WHERE
-- candidates: SELECT DISTINCT lower(page) FROM page_domain WHERE page IS NOT NULL
-- expect: SELECT lower(page), COUNT(DISTINCT user_id) FROM visits WHERE lower(page) <> 'x' GROUP BY ALL
SELECT lower(page) AS p, upper(p) || '!' AS q, COUNT(DISTINCT user_id) * 100 / (SELECT COUNT(*) FROM pages) AS n FROM visits WHERE p <> 'x' GROUP BY p ORDER BY n DESC, p

-- A1132 a number as a key
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY ALL
SELECT 1, page, COUNT(DISTINCT user_id) + 1 AS more FROM visits GROUP BY 1, page ORDER BY more, 2

-- A1133 a threshold without LIMIT, ordered by the count
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 3 ORDER BY n DESC, page

-- A1134 a moving average of a week
-- candidates: FROM day_domain
-- expect: SELECT day, COUNT(DISTINCT user_id) FROM visits WHERE day < '2025-01-01' OR day IS NULL GROUP BY day
SELECT day, AVG(COUNT(DISTINCT user_id)) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS average FROM visits GROUP BY day ORDER BY day

-- A1135 a ratio says nothing of groups without rows
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50), COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) / COUNT(DISTINCT user_id) AS share FROM visits GROUP BY page

-- A1136 a mean of zeros and ones, written out with another number of decimals
-- candidates: FROM city_domain
-- expect: SELECT city, COUNT(*) FILTER (WHERE age > 50), COUNT(*) FROM users GROUP BY city
SELECT city, ROUND(100 * AVG(CASE WHEN age > 50 THEN 1.0 ELSE 0 END), 1) AS old FROM users GROUP BY city ORDER BY old DESC, city

-- A1138 ordered by an expression of a count
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n + 1 DESC, page LIMIT 2

-- A1139 the lowest above a threshold
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 2 ORDER BY n, page LIMIT 2

-- A1140 equal to a threshold, after rounding
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING round(n) = 2 ORDER BY page LIMIT 2
