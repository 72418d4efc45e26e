-- A334 ASOF JOIN by the unit
SELECT u.city, COUNT(DISTINCT v.user_id) AS n FROM visits v ASOF JOIN users u ON v.user_id = u.user_id AND v.ms >= u.age GROUP BY u.city ORDER BY n DESC LIMIT 1

-- A335 LATERAL over a public table
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM visits v, LATERAL (SELECT category FROM pages WHERE pages.page = v.page) AS p GROUP BY p.category ORDER BY n DESC LIMIT 1

-- A337 a quantile of each unit's values
SELECT COUNT(*) FROM (SELECT user_id, quantile_cont(ms, 0.5) AS q FROM visits GROUP BY user_id) WHERE q > 50

-- A338 texts put together, in a given order
SELECT COUNT(*) FROM (SELECT user_id, STRING_AGG(page, ',' ORDER BY day) AS pages FROM visits GROUP BY user_id) WHERE pages LIKE 'a,%'

-- A339 comparison of tuples
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, country) = ('a', 'DE')
