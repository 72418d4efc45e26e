-- A950 rows of a unit cut without groups
-- expect: SELECT SUM(LEAST(c, 5))::BIGINT FROM (SELECT user_id, COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY user_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) COUNT(*) FROM visits

-- A951 a bound over all groups that cuts nothing
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(*), COUNT(*) FILTER (WHERE ms > 50), COUNT(note) FROM visits WHERE user_id IS NOT NULL GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 100) page, COUNT(*), COUNT_IF(ms > 50), COUNT(note) FROM visits GROUP BY page

-- A952 rows of a unit beyond the bound are weighted down alike
-- candidates: FROM country_domain
-- units: differ
-- expect: WITH g AS (SELECT user_id AS u, country, COUNT(*) AS r FROM visits WHERE user_id IS NOT NULL AND (country IN ('DE', 'FR', 'US') OR country IS NULL) GROUP BY ALL), s AS (SELECT *, SUM(r) OVER (PARTITION BY u)::BIGINT AS a FROM g) SELECT country, SUM(r * LEAST(1 << 24, 3 * (1 << 24) // a)) / (1 << 24) FROM s GROUP BY country
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 3) country, COUNT(*) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2

-- A953 two bounds: over all groups, and for each group by itself
-- candidates: FROM page_domain
-- expect: SELECT page, SUM(c)::BIGINT, SUM(LEAST(c, 2))::BIGINT, COUNT(*) FROM (SELECT page, user_id, COUNT(*) AS c FROM visits WHERE user_id IS NOT NULL GROUP BY ALL) GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 100) page, COUNT(*) AS n, COUNT(*, contribution_bounds_per_group => (0, 2)) AS m, COUNT(DISTINCT user_id) AS u FROM visits GROUP BY page HAVING n >= 3 LIMIT 5

-- A954 keys without a domain
-- candidates: unknown
-- expect: SELECT note, COUNT(*) FROM visits WHERE user_id IS NOT NULL GROUP BY note
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 100, delta = 1e-6) note, COUNT(*) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 3

-- A955 a difference of weighted counts
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(*) FILTER (WHERE ms > 50) - COUNT(*) FILTER (WHERE ms <= 50) FROM visits WHERE user_id IS NOT NULL GROUP BY page
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 100) page, COUNT_IF(ms > 50) - COUNT_IF(ms <= 50) AS d FROM visits GROUP BY page ORDER BY d DESC LIMIT 2

-- A956 all groups of keys without a domain, which are there if they have a unit
-- groups: many
-- candidates: unknown
-- expect: SELECT note, COUNT(DISTINCT user_id) FROM visits GROUP BY note
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note

-- A957 a key that is a fact of the unit needs no bound on groups
-- groups: 1
-- candidates: unknown
-- expect: SELECT age, COUNT(*) FROM users WHERE user_id IS NOT NULL AND age IS NOT NULL GROUP BY age
SELECT age, COUNT(*) AS n FROM users GROUP BY age ORDER BY age DESC
