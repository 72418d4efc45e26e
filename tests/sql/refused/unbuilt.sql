-- R40 a count over a window
SELECT page, COUNT(DISTINCT user_id) OVER () AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R76 ordered aggregate
SELECT page, COUNT(DISTINCT user_id ORDER BY ms) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R21 sample at the end
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page USING SAMPLE 2

-- R427 sample of a private table
SELECT COUNT(DISTINCT user_id) FROM visits TABLESAMPLE 10%

-- R57 named window without the unit
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, RANK() OVER w AS r FROM visits WINDOW w AS (PARTITION BY country ORDER BY ms)) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R58 window over an expression of the unit
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, COUNT(*) OVER (PARTITION BY user_id % 2) AS c FROM visits) WHERE c < 6 GROUP BY page ORDER BY n DESC LIMIT 2

-- R59 window over one side's unit after FULL JOIN
SELECT c, COUNT(DISTINCT u) AS n FROM (SELECT COALESCE(v.user_id, u.user_id) AS u, COUNT(*) OVER (PARTITION BY v.user_id) AS c FROM visits v FULL JOIN users u ON u.user_id = v.user_id) GROUP BY c ORDER BY n DESC LIMIT 2

-- R61 DISTINCT ON another column
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (country) user_id, page FROM visits ORDER BY country, ms, user_id, page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R509 DISTINCT ON an alias that is not the unit
SELECT COUNT(DISTINCT u) FROM (SELECT DISTINCT ON (user_id) user_id AS u, country AS user_id FROM visits)

-- R65 floating-point running sum (segment tree crosses units)
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms / 7) OVER (PARTITION BY user_id ORDER BY day) AS s FROM visits) WHERE s > 10.3 GROUP BY page ORDER BY n DESC LIMIT 2

-- R67 public DISTINCT ON without a total order
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT DISTINCT ON (category) category, page FROM pages) p ON p.page = v.page GROUP BY p.category ORDER BY n DESC LIMIT 2

-- R517 public LIMIT
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages LIMIT 2) p ON p.page = v.page

-- R518 public sample
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages USING SAMPLE 2) p ON p.page = v.page

-- R69 LIMIT over private rows
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM visits ORDER BY ms, user_id, page LIMIT 5) GROUP BY page ORDER BY n DESC LIMIT 2

-- R71 EXCEPT with the columns the other way round
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits EXCEPT SELECT ms, user_id FROM visits)

-- R73 public EXCEPT private
SELECT COUNT(DISTINCT u) FROM (SELECT u FROM (VALUES (1),(2),(3),(4)) t(u) EXCEPT SELECT user_id FROM visits)

-- R538 a subquery in the select list
SELECT COUNT(DISTINCT user_id), (SELECT MAX(note) FROM visits) FROM visits

-- R541 a subquery as a key
SELECT (SELECT MAX(page) FROM visits) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 1

-- R37 unmatched rows of an outer join decide about others
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM pages p LEFT JOIN visits v ON v.page = p.page WHERE v.user_id IS NULL) GROUP BY city ORDER BY n DESC LIMIT 2

-- R38 IN on another column
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page FROM visits WHERE country = 'DE') GROUP BY page ORDER BY n DESC LIMIT 2

-- R39 IN: the inner column is not the unit
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT age FROM users) GROUP BY page ORDER BY n DESC LIMIT 2

-- R41 IN: an aggregate of units
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT MAX(user_id) FROM visits GROUP BY page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R42 IN with LIMIT
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits ORDER BY ms DESC, user_id LIMIT 3) GROUP BY page ORDER BY n DESC LIMIT 2

-- R43 quantified comparison that is not equality
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id >= ALL (SELECT user_id FROM users) GROUP BY page ORDER BY n DESC LIMIT 2

-- R45 EXISTS correlated by another column
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.page = v.page AND w.user_id <> v.user_id) GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R46 correlation under OR
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id OR v.ms > 100) GROUP BY city ORDER BY n DESC LIMIT 2

-- R47 correlation in the ON of an outer join does not filter
SELECT city, COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 FROM visits w LEFT JOIN users u ON w.user_id = o.user_id AND u.user_id = o.user_id) GROUP BY city ORDER BY n DESC LIMIT 2

-- R49 uncorrelated scalar subquery over private
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT AVG(ms) FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R50 scalar subquery correlated by another column
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.page = v.page) > 3 GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R51 scalar subquery that may return two rows (raises), even over public
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT category FROM pages p WHERE p.page <> v.page) = 'news' GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R98 window arguments from the data
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, NTILE(ms) OVER (PARTITION BY user_id ORDER BY day) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R99 window frame from the data
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY ms RANGE BETWEEN ms PRECEDING AND CURRENT ROW) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2
