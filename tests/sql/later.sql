-- A31 NATURAL JOIN whose only shared column is the unit
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits NATURAL JOIN users GROUP BY page ORDER BY n DESC LIMIT 2

-- A34 cohort by IN
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM users WHERE age < 40) GROUP BY page ORDER BY n DESC LIMIT 2

-- A35 NOT IN (compiled with the inner unit IS NOT NULL)
SELECT city, COUNT(DISTINCT user_id) AS n FROM users WHERE user_id NOT IN (SELECT user_id FROM visits WHERE country = 'DE') GROUP BY city ORDER BY n DESC LIMIT 2

-- A37 NOT EXISTS with another correlation as well
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.user_id = v.user_id AND w.page = v.page AND w.day < v.day) GROUP BY v.page ORDER BY n DESC LIMIT 2

-- A38 IN with GROUP BY unit HAVING
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) >= 2) GROUP BY page ORDER BY n DESC LIMIT 2

-- A39 IN over public
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page FROM pages WHERE category = 'news') GROUP BY page ORDER BY n DESC LIMIT 1

-- A40 EXISTS over public, correlated with the private row
SELECT country, COUNT(DISTINCT user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM pages p WHERE p.page = v.page) GROUP BY country ORDER BY n DESC LIMIT 2

-- A41 scalar aggregate subquery correlated by the unit
SELECT city, COUNT(DISTINCT user_id) AS n FROM users u WHERE (SELECT COUNT(*) FROM visits v WHERE v.user_id = u.user_id) >= 2 GROUP BY city ORDER BY n DESC LIMIT 2

-- A49 each unit's latest visit (the compiler completes the order with the other columns)
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day DESC, ms, page, country, note) = 1) GROUP BY page ORDER BY n DESC LIMIT 2

-- A50 each unit's favourite page
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, page) AS r FROM visits GROUP BY user_id, page) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- A51 gaps between visits
SELECT country, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country, day - LAG(day) OVER (PARTITION BY user_id ORDER BY day, ms, page, country, note) AS gap FROM visits) WHERE gap > 2 GROUP BY country ORDER BY n DESC LIMIT 2

-- A52 running total of integers
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY day RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total FROM visits) WHERE total > 100 GROUP BY page ORDER BY n DESC LIMIT 2

-- A53 named window with the unit
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, RANK() OVER w AS r FROM visits WINDOW w AS (PARTITION BY user_id ORDER BY ms DESC)) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- A55 UNION with the unit in the same place
SELECT k, COUNT(*) AS n FROM (SELECT user_id, country AS k FROM visits UNION SELECT user_id, city FROM users) WHERE k IN ('DE','X','Y') GROUP BY k ORDER BY n DESC LIMIT 2

-- A56 EXCEPT by unit
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM users EXCEPT SELECT user_id FROM visits)

-- A57 INTERSECT by unit and page
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits WHERE ms > 50 INTERSECT SELECT user_id, page FROM visits WHERE country = 'DE') GROUP BY page ORDER BY n DESC LIMIT 2

-- A58 private EXCEPT public
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page NOT IN (SELECT page FROM pages WHERE category = 'news') GROUP BY page ORDER BY n DESC LIMIT 1

-- A59 DISTINCT ON the unit with a total order
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (user_id) user_id, page FROM visits ORDER BY user_id, day, ms, page, country, note) GROUP BY page ORDER BY n DESC LIMIT 2

-- A61 lateral UNNEST, unknown domain (TOP_STABLE)
SELECT t.w, COUNT(DISTINCT v.user_id) AS n FROM visits v, UNNEST(string_split(v.note, ' ')) AS t(w) GROUP BY t.w ORDER BY n DESC LIMIT 2

-- A69 JSON with a literal path on text that may not be JSON
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE TRY_CAST(note AS JSON) ->> '$.a' = 'x' GROUP BY page ORDER BY n DESC LIMIT 2

-- A75 ordered aggregate in a subquery
SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page ORDER BY day, ms, page) AS f FROM visits GROUP BY user_id) WHERE f IN ('a','b','c') GROUP BY f ORDER BY n DESC LIMIT 2

-- A82 public subquery with a total order and LIMIT
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT page FROM (SELECT DISTINCT page FROM pages) ORDER BY page LIMIT 2) p ON p.page = v.page GROUP BY v.page ORDER BY n DESC LIMIT 1

-- A301 the clock is a literal
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= current_date - INTERVAL 30 DAY

-- A302 the clock as a function
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= today() - 30

-- A303 unknown domain: the k largest
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- A304 a ratio of released counts
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) / COUNT(DISTINCT user_id) AS share FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A305 a wrapping SELECT over a release
SELECT * FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2) AS t ORDER BY page LIMIT 1

-- A306 an element of a list
SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[1] = 'a'

-- A307 a part of a text by its position
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note[1:2] = 'a '

-- A308 a list of constants
SELECT COUNT(DISTINCT user_id) FROM visits WHERE list_contains([1, 2, 3], ms)

-- A309 LIKE with a literal escape
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%$%%' ESCAPE '$'

-- A310 SIMILAR TO
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note SIMILAR TO '[a-c].*'

-- A311 position of a text
SELECT COUNT(DISTINCT user_id) FROM visits WHERE position('a' IN note) > 0

-- A312 substring in the standard's spelling
SELECT COUNT(DISTINCT user_id) FROM visits WHERE substring(note FROM 1 FOR 2) = 'a '
