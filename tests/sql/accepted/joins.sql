-- A19 private JOIN public, key from the public side
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN pages p ON v.page = p.page GROUP BY p.category
ORDER BY n DESC LIMIT 1

-- A20 private LEFT JOIN public, a key without NULL
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL UNION SELECT 'none'
-- expect: itself
SELECT COALESCE(p.category, 'none') AS c, COUNT(DISTINCT v.user_id) AS n FROM visits v LEFT JOIN pages p USING (page) GROUP BY c
ORDER BY n DESC LIMIT 1

-- A21 public LEFT JOIN private: pages nobody visited count 0
-- candidates: FROM page_domain WHERE page IS NOT NULL
-- expect: itself
SELECT p.page, COUNT(DISTINCT v.user_id) AS n FROM pages p LEFT JOIN visits v ON v.page = p.page AND v.ms > 10 GROUP BY p.page
ORDER BY n DESC LIMIT 2

-- A22 the same, mirrored
-- candidates: FROM page_domain WHERE page IS NOT NULL
-- expect: itself
SELECT p.page, COUNT(DISTINCT v.user_id) AS n FROM visits v RIGHT JOIN pages p ON v.page = p.page GROUP BY p.page
ORDER BY n DESC LIMIT 2

-- A23 private JOIN private USING
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits JOIN users USING (user_id) WHERE age >= 18 GROUP BY page
ORDER BY n DESC LIMIT 2

-- A25 comma join, the equality is a conjunct of WHERE
-- candidates: FROM page_domain
-- expect: itself
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v, users u WHERE v.user_id = u.user_id AND u.age < 60 GROUP BY v.page
ORDER BY n DESC LIMIT 2

-- A26 users without visits
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT u.user_id) AS n FROM users u LEFT JOIN visits v ON u.user_id = v.user_id WHERE v.user_id IS NULL GROUP BY u.city
ORDER BY n DESC LIMIT 2

-- A27 FULL JOIN USING: the merged column is the unit
-- candidates: SELECT country FROM country_domain WHERE country IS NOT NULL UNION SELECT 'none'
-- expect: itself
SELECT COALESCE(country, 'none') AS c, COUNT(DISTINCT user_id) AS n FROM visits FULL JOIN users USING (user_id) GROUP BY c
ORDER BY n DESC LIMIT 2

-- A28 FULL JOIN ON: COALESCE of both units counts
-- candidates: SELECT unnest(['DE', 'FR'])
-- expect: SELECT v.country, COUNT(DISTINCT COALESCE(u.user_id, v.user_id)) FROM visits v FULL JOIN users u ON u.user_id = v.user_id AND u.age > 20 GROUP BY v.country
SELECT v.country, COUNT(DISTINCT COALESCE(u.user_id, v.user_id)) AS n FROM visits v FULL JOIN users u ON u.user_id = v.user_id AND u.age > 20 WHERE v.country IN ('DE', 'FR') GROUP BY v.country
ORDER BY n DESC LIMIT 1

-- A29 self-join: saw a, later b
-- candidates: FROM page_domain
-- expect: itself
SELECT b.page, COUNT(DISTINCT a.user_id) AS n FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.page = 'a' AND b.day >= a.day GROUP BY b.page
ORDER BY n DESC LIMIT 2

-- A32 SEMI JOIN on the unit
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(DISTINCT user_id) AS n FROM users SEMI JOIN visits USING (user_id) GROUP BY city
ORDER BY n DESC LIMIT 2

-- A33 ANTI JOIN on the unit
-- candidates: FROM city_domain
-- expect: itself
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u ANTI JOIN visits v ON u.user_id = v.user_id AND v.page = 'a' GROUP BY city
ORDER BY n DESC LIMIT 2

-- A73 cross join with a public VALUES list
-- candidates: SELECT unnest([10, 50, 100])
-- expect: itself
SELECT t.x, COUNT(DISTINCT v.user_id) AS n FROM visits v CROSS JOIN (VALUES (10), (50), (100)) AS t(x) WHERE v.ms > t.x GROUP BY t.x
ORDER BY n DESC LIMIT 1

-- A74 join with public on an inequality
-- candidates: SELECT unnest([0, 10])
-- expect: itself
SELECT t.lo, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (VALUES (0, 10), (10, 100)) AS t(lo, hi) ON v.ms >= t.lo AND v.ms < t.hi GROUP BY t.lo
ORDER BY n DESC LIMIT 1

-- A81 count of a nullable side's unit
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT v.user_id) AS n FROM users u LEFT JOIN visits v ON u.user_id = v.user_id GROUP BY u.city
ORDER BY n DESC LIMIT 1

-- A141 three tables
-- candidates: SELECT category, city FROM (SELECT DISTINCT category FROM pages WHERE page IS NOT NULL) AS c, city_domain
-- expect: itself
SELECT p.category, u.city, COUNT(DISTINCT u.user_id) AS n FROM visits v JOIN users u ON u.user_id = v.user_id JOIN pages p ON p.page = v.page GROUP BY p.category, u.city
ORDER BY n DESC LIMIT 2

-- A142 three private tables by USING
-- candidates: FROM city_domain
-- expect: itself
SELECT users.city, COUNT(DISTINCT user_id) AS n FROM visits JOIN users USING (user_id) JOIN visits AS w USING (user_id) WHERE w.page = 'b' GROUP BY users.city
ORDER BY n DESC LIMIT 1

-- A143 chained FULL JOIN USING: the second one compares the merged column
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits FULL JOIN users USING (user_id) FULL JOIN (SELECT DISTINCT user_id FROM users WHERE age > 40) AS w USING (user_id)
SELECT COUNT(DISTINCT user_id) FROM visits FULL JOIN users USING (user_id) FULL JOIN (SELECT DISTINCT user_id FROM users WHERE age > 40) AS w USING (user_id)

-- A144 SEMI JOIN with public
-- candidates: FROM country_domain
-- expect: itself
SELECT country, COUNT(DISTINCT user_id) AS n FROM visits v SEMI JOIN pages p ON v.page = p.page AND p.category = 'news' GROUP BY country
ORDER BY n DESC LIMIT 1

-- A145 ANTI JOIN with public
-- candidates: FROM country_domain
-- expect: itself
SELECT country, COUNT(DISTINCT user_id) AS n FROM visits v ANTI JOIN pages p ON v.page = p.page GROUP BY country
ORDER BY n DESC LIMIT 1

-- A146 public FULL JOIN private: rows without an owner are not counted
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL UNION ALL SELECT NULL
-- expect: itself
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM pages p FULL JOIN visits v ON p.page = v.page GROUP BY p.category
ORDER BY n DESC LIMIT 2

-- A147 RIGHT JOIN of two private tables keeps the right side's unit
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT u.user_id) AS n FROM visits v RIGHT JOIN users u ON v.user_id = u.user_id AND v.page = 'a' GROUP BY u.city
ORDER BY n DESC LIMIT 2

-- A148 a public subquery, joined
-- candidates: SELECT unnest(['news', 'shop'])
-- expect: itself
SELECT p.c, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT page, category AS c FROM pages WHERE category <> 'empty') AS p ON v.page = p.page WHERE p.c IN ('news', 'shop') GROUP BY p.c
ORDER BY n DESC LIMIT 1

-- A149 equality by WHERE reaches through three comma-joined tables
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT v.user_id) AS n FROM visits v, visits w, users u WHERE v.user_id = w.user_id AND w.user_id = u.user_id AND v.page = 'b' AND w.page = 'e' GROUP BY u.city
ORDER BY n DESC LIMIT 1

-- A31 NATURAL JOIN whose only shared column is the unit
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits NATURAL JOIN users GROUP BY page
ORDER BY n DESC LIMIT 2

-- A251 NATURAL JOIN with a public table
-- candidates: SELECT DISTINCT category FROM pages WHERE page IS NOT NULL
-- expect: itself
SELECT category, COUNT(DISTINCT user_id) AS n FROM visits NATURAL JOIN pages GROUP BY category
ORDER BY n DESC LIMIT 1

-- A930 EXISTS tied by the key of a parent table
-- expect: SELECT COUNT(DISTINCT user_id) FROM baskets b WHERE user_id IS NOT NULL AND EXISTS (SELECT 1 FROM goods g WHERE g.basket_id = b.basket_id AND g.late)
SELECT COUNT(DISTINCT user_id) FROM baskets b WHERE EXISTS (SELECT 1 FROM goods g WHERE g.basket_id = b.basket_id AND g.late)

-- A931 IN and NOT IN over the key of a parent table
-- expect: SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE basket_id NOT IN (SELECT basket_id FROM goods WHERE late)) FROM baskets WHERE basket_id IN (SELECT basket_id FROM goods WHERE sku = 'x')
SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE late_not) FROM (SELECT user_id, basket_id NOT IN (SELECT basket_id FROM goods WHERE late) AS late_not FROM baskets WHERE basket_id IN (SELECT basket_id FROM goods WHERE sku = 'x'))

-- A932 a table joined with itself on its unique key
-- expect: SELECT SUM(LEAST(n, 9)) FROM (SELECT COUNT(*) AS n FROM baskets WHERE user_id IS NOT NULL GROUP BY user_id)
SELECT COUNT(*, contribution_bounds_per_group => (0, 9)) FROM baskets a JOIN baskets b ON a.basket_id = b.basket_id

-- A933 the name of the parent's unit column means the parent's column where there is one
-- expect: SELECT COUNT(DISTINCT b.user_id), COUNT(DISTINCT b.user_id) FILTER (WHERE g.late) FROM goods g, baskets b WHERE g.basket_id = b.basket_id
SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE g.late) FROM goods g, baskets b WHERE g.basket_id = b.basket_id

-- A934 grouped by the key of a parent table: each group is of one unit
-- candidates: SELECT unnest([1, 2, 3])
-- expect: SELECT n, SUM(LEAST(m, 9)) FROM (SELECT n, user_id, COUNT(*) AS m FROM (SELECT basket_id, COUNT(*) AS n FROM goods GROUP BY basket_id) JOIN baskets USING (basket_id) WHERE user_id IS NOT NULL GROUP BY n, user_id) GROUP BY n
SELECT n, COUNT(*, contribution_bounds_per_group => (0, 9)) AS m FROM (SELECT basket_id, COUNT(*) AS n FROM goods GROUP BY basket_id) WHERE n IN (1, 2, 3) GROUP BY n
ORDER BY m DESC LIMIT 2

-- A935 the unit of a child table's rows has its name behind `*`, too
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM goods g JOIN baskets b USING (basket_id) WHERE g.late
SELECT COUNT(DISTINCT user_id) FROM (SELECT * FROM (SELECT * FROM goods) g, (SELECT user_id, page AS p FROM baskets) b WHERE g.user_id = b.user_id) WHERE late

-- A4211 a series of days as a public relation
-- candidates: SELECT DATE '2024-06-01' + i::INTEGER AS d FROM range(4) t(i)
-- groups: many
-- expect: SELECT day AS d, COUNT(DISTINCT user_id) AS n FROM visits WHERE day BETWEEN DATE '2024-06-01' AND DATE '2024-06-04' GROUP BY day
SELECT s.d, COUNT(DISTINCT user_id) AS n FROM visits JOIN UNNEST(GENERATE_DATE_ARRAY('2024-06-01', '2024-06-04')) AS s(d) ON visits.day = s.d GROUP BY s.d

-- A4212 a series of numbers, joined by a range
-- candidates: SELECT i AS lo FROM range(0, 100, 20) t(i)
-- groups: many
-- expect: SELECT lo, COUNT(DISTINCT user_id) AS n FROM visits JOIN range(0, 100, 20) t(lo) ON ms >= lo AND ms < lo + 20 GROUP BY lo
SELECT s.lo, COUNT(DISTINCT user_id) AS n FROM visits JOIN generate_series(0, 80, 20) AS s(lo) ON ms BETWEEN s.lo AND s.lo + 19 GROUP BY s.lo

-- A4241 a subquery in ON of an inner join
-- expect: SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN pages p ON p.page = v.page WHERE v.user_id IN (SELECT user_id FROM users WHERE city = 'X')
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN pages p ON p.page = v.page AND v.user_id IN (SELECT user_id FROM users WHERE city = 'X')

-- A4242 a subquery in ON of a LEFT JOIN, over its right item alone
-- expect: SELECT COUNT(DISTINCT v.user_id) FROM visits v LEFT JOIN (SELECT * FROM pages WHERE category IN ('news')) p ON p.page = v.page WHERE p.page IS NULL
SELECT COUNT(DISTINCT v.user_id) FROM visits v LEFT JOIN pages p ON p.page = v.page AND p.category IN (SELECT category FROM pages WHERE page = 'a') WHERE p.page IS NULL

-- A5360 users without certain visits
-- candidates: FROM city_domain
-- expect: itself
SELECT u.city, COUNT(DISTINCT u.user_id) AS n FROM users u LEFT JOIN visits v ON u.user_id = v.user_id AND v.ms > 90 WHERE v.user_id IS NULL AND u.age < 60 GROUP BY u.city
ORDER BY n DESC LIMIT 2

-- A5209 LEFT JOIN with the items of a list: a row without items stays, with NULL
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits v LEFT JOIN UNNEST(string_split(v.note, ' ')) AS t(w) ON TRUE WHERE t.w IS NULL OR t.w = 'b'
SELECT COUNT(DISTINCT user_id) FROM visits v LEFT JOIN UNNEST(string_split(v.note, ' ')) AS t(w) ON TRUE WHERE t.w IS NULL OR t.w = 'b'

-- A5450 rows of units of which both sides have one
-- expect: SELECT COUNT(*) FROM users u JOIN (SELECT DISTINCT user_id FROM visits) v ON u.user_id = v.user_id
SELECT COUNT(*) FROM users u JOIN (SELECT DISTINCT user_id FROM visits) v ON u.user_id = v.user_id

-- A5451 rows of a unit beside its one row are as many as they were
-- expect: SELECT COUNT(*) FROM users u LEFT JOIN (SELECT user_id, COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY user_id) v ON u.user_id = v.user_id WHERE u.user_id IS NOT NULL
SELECT COUNT(*) FROM users u LEFT JOIN (SELECT user_id, COUNT(*) AS c FROM visits GROUP BY user_id) v ON u.user_id = v.user_id
