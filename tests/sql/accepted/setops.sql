-- A55 UNION with the unit in the same place
-- candidates: SELECT unnest(['DE', 'X', 'Y'])
-- expect: SELECT k, COUNT(*) FROM (SELECT user_id, country AS k FROM visits WHERE user_id IS NOT NULL UNION SELECT user_id, city FROM users) GROUP BY k
SELECT k, COUNT(*) AS n FROM (SELECT user_id, country AS k FROM visits UNION SELECT user_id, city FROM users) WHERE k IN ('DE','X','Y') GROUP BY k ORDER BY n DESC LIMIT 2

-- A56 EXCEPT by unit
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM users EXCEPT SELECT user_id FROM visits)
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM users EXCEPT SELECT user_id FROM visits)

-- A57 INTERSECT by unit and page
-- candidates: SELECT page FROM page_domain UNION SELECT NULL
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits WHERE ms > 50 INTERSECT SELECT user_id, page FROM visits WHERE country = 'DE') GROUP BY page
ORDER BY n DESC LIMIT 2

-- A231 a private branch less a public one
-- units: differ
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits EXCEPT SELECT x, page FROM pages, (VALUES (1), (2)) AS t(x))
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits EXCEPT SELECT x, page FROM pages, (VALUES (1), (2)) AS t(x))

-- A232 a private branch and a public one
-- units: differ
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id IN (1, 2) AND page IN (SELECT page FROM pages)
SELECT COUNT(DISTINCT user_id) FROM (SELECT page, user_id FROM visits INTERSECT SELECT page, x FROM pages, (VALUES (1), (2)) AS t(x))

-- A233 rows of a UNION are single
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE user_id IS NOT NULL UNION SELECT user_id FROM users)
SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION SELECT user_id FROM users)

-- A234 EXCEPT ALL takes one row for each
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits EXCEPT ALL SELECT user_id, page FROM visits WHERE ms > 20)
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits EXCEPT ALL SELECT user_id, page FROM visits WHERE ms > 20)

-- A5520 the constants of the branches of a UNION are the values of its column
-- candidates: VALUES ('slow'), ('late'), ('any')
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT 'slow' AS k, user_id FROM visits WHERE ms > 20 UNION ALL SELECT 'late', user_id FROM visits WHERE day > DATE '2024-01-20' UNION ALL SELECT 'any', user_id FROM users) GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT 'slow' AS k, user_id FROM visits WHERE ms > 20 UNION ALL SELECT 'late', user_id FROM visits WHERE day > DATE '2024-01-20' UNION ALL SELECT 'any', user_id FROM users) GROUP BY k
ORDER BY n DESC LIMIT 2

-- A5521 the declared values of both branches, which can be NULL
-- candidates: SELECT unnest(['DE', 'FR', 'US', 'X', 'Y', NULL])
-- expect: SELECT k, COUNT(DISTINCT user_id) FROM (SELECT country AS k, user_id FROM visits UNION SELECT city, user_id FROM users) WHERE k IS NULL OR k IN ('DE', 'FR', 'US', 'X', 'Y') GROUP BY k
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT country AS k, user_id FROM visits UNION SELECT city, user_id FROM users) GROUP BY k
ORDER BY n DESC LIMIT 2
