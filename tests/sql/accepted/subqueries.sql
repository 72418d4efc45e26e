-- A43 common table expression
-- candidates: FROM page_domain
-- expect: itself
WITH long AS (SELECT user_id, page FROM visits WHERE ms > 50) SELECT page, COUNT(DISTINCT user_id) AS n FROM long GROUP BY page
ORDER BY n DESC LIMIT 2

-- A44 used twice, joined on the unit
-- candidates: FROM page_domain
-- expect: itself
WITH v AS (SELECT user_id, page, MIN(day) AS first_day FROM visits GROUP BY user_id, page) SELECT b.page, COUNT(DISTINCT a.user_id) AS n FROM v a JOIN v b ON a.user_id = b.user_id AND a.first_day < b.first_day GROUP BY b.page
ORDER BY n DESC LIMIT 2

-- A45 one that shadows a declared table, columns renamed
-- candidates: FROM page_domain
-- expect: itself
WITH visits(uid, p) AS (SELECT user_id, page FROM visits) SELECT p, COUNT(DISTINCT uid) AS n FROM visits GROUP BY p
ORDER BY n DESC LIMIT 2

-- A83 grouped by the unit, then by a bucket of its total
-- candidates: SELECT unnest(['heavy', 'light'])
-- expect: itself
SELECT b, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, CASE WHEN SUM(ms) > 100 THEN 'heavy' ELSE 'light' END AS b FROM visits GROUP BY user_id) GROUP BY b
ORDER BY n DESC LIMIT 1

-- A161 order-free aggregates of every unit
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING SUM(ms) > 10 AND COUNT(DISTINCT page) >= 1 AND MIN(day) < DATE '2024-03-01' AND BOOL_OR(country = 'DE'))
SELECT COUNT(*) FROM (SELECT user_id, SUM(ms) AS s, MAX(ms) AS mx, MIN(day) AS d, COUNT(DISTINCT page) AS p, BOOL_OR(country = 'DE') AS b, AVG(ms) AS a FROM visits GROUP BY user_id) WHERE s > 10 AND p >= 1 AND d < DATE '2024-03-01' AND b

-- A162 HAVING over aggregates that are not selected
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING COUNT(*) > 5 AND MAX(ms) < 125)
SELECT COUNT(*) FROM (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) > 5 AND MAX(ms) < 125)

-- A163 arithmetic over aggregates, FILTER inside
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING SUM(ms) FILTER (WHERE country = 'DE') * 2 > SUM(ms) - 100)
SELECT COUNT(*) FROM (SELECT user_id, SUM(ms) FILTER (WHERE country = 'DE') * 2 > SUM(ms) - 100 AS german FROM visits GROUP BY user_id) WHERE german

-- A164 UNION ALL with the unit in the same place
-- candidates: SELECT unnest(['DE', 'X', 'Y'])
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, city FROM users) GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, city FROM users) WHERE k IN ('DE', 'X', 'Y') GROUP BY k
ORDER BY n DESC LIMIT 2

-- A166 subqueries within subqueries, * written out
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM (SELECT * EXCLUDE (note) FROM visits WHERE ms > 3) AS x WHERE x.country = 'DE') AS y GROUP BY page
ORDER BY n DESC LIMIT 2

-- A167 * over a join: the merged column comes once
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM users JOIN visits USING (user_id) WHERE page = 'a') GROUP BY city
ORDER BY n DESC LIMIT 1

-- A168 table.* takes one side of a join
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT v.* FROM visits v JOIN users u ON u.user_id = v.user_id WHERE u.age > 30) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A169 an alias of the select list used further to the right, and in WHERE
-- candidates: SELECT unnest(['late', 'soon'])
-- expect: SELECT w, COUNT(DISTINCT user_id) FROM (SELECT user_id, CASE WHEN (ms + 1) * 2 > 100 THEN 'late' ELSE 'soon' END AS w FROM visits WHERE ms + 1 > 3) GROUP BY w
SELECT w, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ms + 1 AS a, a * 2 AS b, CASE WHEN b > 100 THEN 'late' ELSE 'soon' END AS w FROM visits WHERE a > 3) GROUP BY w
ORDER BY n DESC LIMIT 1

-- A170 a common table expression names those before it
-- candidates: FROM page_domain
-- expect: itself
WITH a AS (SELECT user_id, page, ms FROM visits WHERE ms > 10), b AS (SELECT user_id, page FROM a WHERE ms < 100) SELECT page, COUNT(DISTINCT user_id) AS n FROM b GROUP BY page
ORDER BY n DESC LIMIT 2

-- A171 the unit under another name
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT who) AS n FROM (SELECT user_id AS who, page FROM visits) AS x GROUP BY page
ORDER BY n DESC LIMIT 2

-- A172 columns renamed by the alias of a table
-- candidates: FROM page_domain
-- expect: itself
SELECT q, COUNT(DISTINCT who) AS n FROM visits AS v(who, q) GROUP BY q
ORDER BY n DESC LIMIT 2

-- A173 a public common table expression
-- candidates: SELECT unnest(['news', 'shop'])
-- expect: itself
WITH news AS (SELECT page, category FROM pages WHERE category IN ('news', 'shop')) SELECT category, COUNT(DISTINCT user_id) AS n FROM visits JOIN news USING (page) GROUP BY category
ORDER BY n DESC LIMIT 1

-- A174 grouped twice, by the unit each time
-- candidates: SELECT unnest([1, 2, 3])
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT user_id, COUNT(*) AS k FROM (SELECT user_id, page, SUM(ms) AS s FROM visits GROUP BY user_id, page) WHERE s > 20 GROUP BY user_id) GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, COUNT(*) AS k FROM (SELECT user_id, page, SUM(ms) AS s FROM visits GROUP BY user_id, page) WHERE s > 20 GROUP BY user_id) WHERE k IN (1, 2, 3) GROUP BY k
ORDER BY n DESC LIMIT 1

-- A175 an aggregate of public rows is public
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT category, MAX(page) AS page FROM pages GROUP BY category) AS p ON p.page = v.page GROUP BY p.category
ORDER BY n DESC LIMIT 1

-- A176 DISTINCT of public rows is public
-- candidates: FROM country_domain
-- expect: itself
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT DISTINCT category FROM pages) AS p ON p.category = 'news' GROUP BY v.country
ORDER BY n DESC LIMIT 1

-- A177 HAVING by the alias of an aggregate
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL GROUP BY user_id HAVING SUM(ms) > 10 AND COUNT(DISTINCT page) >= 1)
SELECT COUNT(*) FROM (SELECT user_id, SUM(ms) AS s, COUNT(DISTINCT page) AS p FROM visits GROUP BY user_id HAVING s > 10 AND p >= 1)

-- A34 cohort by IN
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM users WHERE age < 40) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A35 NOT IN (compiled with the inner unit IS NOT NULL)
-- candidates: FROM city_domain
-- expect: SELECT city, COUNT(DISTINCT user_id) FROM users WHERE user_id NOT IN (SELECT user_id FROM visits WHERE country = 'DE' AND user_id IS NOT NULL) GROUP BY city
SELECT city, COUNT(DISTINCT user_id) AS n FROM users WHERE user_id NOT IN (SELECT user_id FROM visits WHERE country = 'DE') GROUP BY city ORDER BY n DESC LIMIT 2

-- A37 NOT EXISTS with another correlation as well
-- candidates: FROM page_domain
-- expect: itself
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.user_id = v.user_id AND w.page = v.page AND w.day < v.day) GROUP BY v.page
ORDER BY n DESC LIMIT 2

-- A38 IN with GROUP BY unit HAVING
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) >= 2) GROUP BY page
ORDER BY n DESC LIMIT 2

-- A39 IN over public
-- candidates: SELECT page AS v0 FROM pages WHERE category = 'news' AND page IS NOT NULL
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page FROM pages WHERE category = 'news') GROUP BY page
ORDER BY n DESC LIMIT 1

-- A40 EXISTS over public, correlated with the private row
-- candidates: FROM country_domain
-- expect: itself
SELECT country, COUNT(DISTINCT user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM pages p WHERE p.page = v.page) GROUP BY country
ORDER BY n DESC LIMIT 2

-- A41 scalar aggregate subquery correlated by the unit
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(DISTINCT user_id) AS n FROM users u WHERE (SELECT COUNT(*) FROM visits v WHERE v.user_id = u.user_id) >= 2 GROUP BY city
ORDER BY n DESC LIMIT 2

-- A58 private EXCEPT public
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page NOT IN (SELECT page FROM pages WHERE category = 'news') GROUP BY page
ORDER BY n DESC LIMIT 1

-- A82 public subquery with a total order and LIMIT
-- candidates: SELECT unnest(['a', 'b'])
-- expect: itself
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT page FROM (SELECT DISTINCT page FROM pages) ORDER BY page LIMIT 2) p ON p.page = v.page GROUP BY v.page
ORDER BY n DESC LIMIT 1

-- A241 NOT IN over units that an outer join left NULL (C4)
-- expect: SELECT COUNT(DISTINCT user_id) FROM users WHERE user_id NOT IN (SELECT user_id FROM visits WHERE page IN (SELECT page FROM pages) AND user_id IS NOT NULL)
SELECT COUNT(DISTINCT user_id) FROM users WHERE user_id NOT IN (SELECT v.user_id FROM pages p LEFT JOIN visits v ON p.page = v.page)

-- A242 a visit longer than the unit's average
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits v WHERE ms > (SELECT AVG(w.ms) FROM visits w WHERE w.user_id = v.user_id)
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE ms > (SELECT AVG(w.ms) FROM visits w WHERE w.user_id = v.user_id)

-- A243 EXISTS within EXISTS, each tied to the row it stands in
-- candidates: FROM city_domain
-- expect: SELECT city, COUNT(DISTINCT user_id) FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id AND v.ms > u.age) GROUP BY city
SELECT city, COUNT(DISTINCT user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id AND EXISTS (SELECT 1 FROM visits z WHERE z.user_id = v.user_id AND z.ms > u.age)) GROUP BY city ORDER BY n DESC LIMIT 2

-- A244 two aggregates of one subquery
-- expect: SELECT COUNT(DISTINCT user_id) FROM users u WHERE (SELECT COUNT(*) + COUNT(DISTINCT page) FROM visits v WHERE v.user_id = u.user_id) > 8
SELECT COUNT(DISTINCT user_id) FROM users u WHERE (SELECT COUNT(*) + COUNT(DISTINCT page) FROM visits v WHERE v.user_id = u.user_id) > 8

-- A245 no visit at all
-- expect: SELECT COUNT(DISTINCT user_id) FROM users u WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id)
SELECT COUNT(DISTINCT user_id) FROM users u WHERE (SELECT COUNT(*) FROM visits v WHERE v.user_id = u.user_id) = 0

-- A246 public NOT IN with a NULL in the list is never true
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits WHERE page NOT IN (SELECT page FROM pages) OR ms > 100 GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page NOT IN (SELECT page FROM pages) OR ms > 100 GROUP BY page ORDER BY n DESC LIMIT 2

-- A391 grouped by a constant too, which is no place in the select list
-- candidates: SELECT MIN(page) FROM pages WHERE page IS NOT NULL GROUP BY category
-- expect: itself
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT 7 AS k, category, MIN(page) AS page FROM pages GROUP BY ALL) p ON p.page = v.page AND p.k = 7 GROUP BY v.page
ORDER BY n DESC LIMIT 2

-- A390 public rows of UNION ALL belong to nobody
-- candidates: SELECT unnest(['a', 'z'])
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT NULL, page FROM pages) WHERE page IN ('a', 'z') GROUP BY page ORDER BY n DESC LIMIT 1

-- A4231 the value of one row of a public table
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'b' AND ms > 20
SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = (SELECT page FROM pages WHERE category = 'news' ORDER BY page DESC LIMIT 1) AND ms > (SELECT DISTINCT 20 FROM prices)

-- A4232 a whole number as a condition is whether it is not 0
-- units: differ
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms % 3 <> 0 AND NOT (user_id % 2 <> 0)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms % 3 AND NOT (user_id % 2)



-- A5205 rows in a query of units: each one's first day
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE (user_id, day) IN (SELECT user_id, MIN(day) FROM visits GROUP BY user_id) AND ms > 5 GROUP BY page
ORDER BY n DESC LIMIT 2

-- A5206 rows in a list, of which a NULL is none: as DuckDB compares them
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, country) IN (('a', 'DE'), ('b', 'FR')) OR (page, ms) NOT IN (('a', 7), ('c', 14))
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, country) IN (('a', 'DE'), ('b', 'FR')) OR (page, ms) NOT IN (('a', 7), ('c', 14))

-- A5207 rows in a query of public rows
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits v WHERE EXISTS (SELECT 1 FROM pages p WHERE p.page = v.page AND p.category = CASE WHEN ms > 50 THEN 'shop' ELSE 'news' END)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, CASE WHEN ms > 50 THEN 'shop' ELSE 'news' END) IN (SELECT page, category FROM pages)

-- A5208 DISTINCT over groups of units
-- expect: SELECT COUNT(*) FROM (SELECT DISTINCT user_id, COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY user_id, page)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 100) COUNT(*) FROM (SELECT DISTINCT user_id, COUNT(*) AS c FROM visits GROUP BY user_id, page)

-- A5302 IN on the unit of one side of a FULL JOIN, which is NULL where only the other side has rows
-- expect: SELECT COUNT(DISTINCT u.user_id) FROM users u FULL JOIN visits v ON u.user_id = v.user_id AND v.ms > 5 WHERE u.user_id IN (SELECT user_id FROM visits WHERE ms < 100)
SELECT COUNT(DISTINCT u.user_id) AS n FROM users u FULL JOIN visits v ON u.user_id = v.user_id AND v.ms > 5 WHERE u.user_id IN (SELECT user_id FROM visits WHERE ms < 100)
