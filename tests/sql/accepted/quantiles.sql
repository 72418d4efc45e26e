-- A4100 the median of all rows: rows by their cell, which is counted from the lower bound
-- candidates: SELECT DISTINCT LEAST(GREATEST(age, 30), 60) - 30 FROM users WHERE user_id IS NOT NULL AND age IS NOT NULL
-- expect: SELECT LEAST(GREATEST(age, 30), 60) - 30, COUNT(*) FROM users WHERE user_id IS NOT NULL AND age IS NOT NULL GROUP BY ALL
SELECT MEDIAN(age, contribution_bounds_per_row => (30, 60)) AS m FROM users

-- A4101 a quantile of each group: one without values has none in the least cell
-- candidates: SELECT c.city, COALESCE(u.age, 0) FROM city_domain AS c LEFT JOIN (SELECT DISTINCT city, LEAST(age, 100) AS age FROM users WHERE user_id IS NOT NULL AND age >= 0) AS u ON u.city IS NOT DISTINCT FROM c.city
-- expect: SELECT city, LEAST(age, 100), COUNT(*) FROM users WHERE user_id IS NOT NULL AND age >= 0 GROUP BY ALL
SELECT city, QUANTILE_CONT(age, 0.75, contribution_bounds_per_row => (0, 100)) AS q FROM users WHERE age >= 0 GROUP BY city

-- A5900 BigQuery's APPROX_QUANTILES at a place: one quantile
-- candidates: SELECT DISTINCT LEAST(GREATEST(age, 0), 120) FROM users WHERE user_id IS NOT NULL AND age IS NOT NULL
-- expect: SELECT LEAST(GREATEST(age, 0), 120), COUNT(*) FROM users WHERE user_id IS NOT NULL AND age IS NOT NULL GROUP BY ALL
SELECT APPROX_QUANTILES(age, 100)[OFFSET(90)] AS q FROM users
