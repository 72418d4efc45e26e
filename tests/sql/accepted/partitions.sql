-- A1970 the largest groups of each partition, which is a fact of the unit
-- candidates: SELECT city, page FROM city_domain, page_domain
-- expect: itself
SELECT u.city, v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u USING (user_id) GROUP BY 1, 2
QUALIFY ROW_NUMBER() OVER (PARTITION BY u.city ORDER BY n DESC) <= 3

-- A1971 partitions of events, and a threshold
-- candidates: SELECT page, country FROM page_domain, country_domain
-- expect: SELECT page, country, COUNT(DISTINCT user_id) FROM visits GROUP BY ALL
SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country HAVING n >= 2
QUALIFY 2 >= DENSE_RANK() OVER (PARTITION BY country ORDER BY n DESC)

-- A1972 keys without a domain within partitions of a declared key
-- candidates: unknown
-- expect: itself
SELECT country, note, COUNT(DISTINCT user_id) AS n FROM visits WHERE country IN ('DE', 'FR', 'US') GROUP BY country, note
QUALIFY RANK() OVER (PARTITION BY country ORDER BY n DESC) <= 2

-- A1973 the smallest group of each partition of two keys
-- candidates: SELECT country, b, page FROM country_domain, boolean_domain, page_domain WHERE b IS NOT NULL
-- expect: SELECT country, ms > 50, page, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 9) FROM visits WHERE ms IS NOT NULL GROUP BY ALL
SELECT country, ms > 50 AS slow, page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 9) AS m FROM visits WHERE ms IS NOT NULL GROUP BY ALL
QUALIFY ROW_NUMBER() OVER (PARTITION BY slow, country ORDER BY n) = 1
