-- What the hint of each refusal leads to: the refused statement's number, and the statement of one who followed
-- its hint. Every hint that the refused fixtures are given must be here.

-- R302
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10

-- R115
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 5

-- R40
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r FROM visits) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R426
SELECT COUNT(DISTINCT user_id) FROM visits JOIN pages AS p ON p.page = visits.page

-- R36
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE ms > 3) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R92
SELECT COUNT(DISTINCT user_id) FROM visits WHERE length(lpad(note, 10, 'x')) > 0

-- R94
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE note = 'a' GROUP BY page ORDER BY n DESC LIMIT 2

-- R651
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '50$%' ESCAPE '$'

-- R418
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN pages p ON CAST(v.ms AS VARCHAR) = p.page

-- R322
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10

-- R713
SHOW PRIVACY BUDGET

-- R512
SELECT COUNT(*) FROM (SELECT user_id, MIN(page) AS f FROM visits GROUP BY user_id) WHERE f = 'a'

-- R617
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 2

-- R662
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ->> '$.a' = 'x'

-- R35
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v ANTI JOIN pages p ON p.page = v.page GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R321
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10 BY n

-- R711
SET dp_epsilon = 0.5

-- R725
SELECT category FROM pages

-- R61
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (user_id) user_id, page FROM visits ORDER BY user_id, ms, page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R509
SELECT COUNT(DISTINCT user_id) FROM (SELECT DISTINCT ON (user_id) user_id, country FROM visits ORDER BY user_id, day)

-- R63
SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page ORDER BY day) AS f FROM visits GROUP BY user_id) WHERE f IN ('a', 'b') GROUP BY f ORDER BY n DESC LIMIT 2

-- R511
SELECT COUNT(*) FROM (SELECT user_id, LIST(page ORDER BY day) AS f FROM visits GROUP BY user_id) WHERE len(f) > 1

-- R95
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(country, 'D.') GROUP BY page ORDER BY n DESC LIMIT 2

-- R99
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY ms ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM visits) WHERE s > 5 GROUP BY page ORDER BY n DESC LIMIT 2

-- R603
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = '5'

-- R633
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day > DATE '2024-01-01' - INTERVAL 3 MONTH

-- R639
SELECT page, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R641
SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_part('day', day) = 1

-- R658
SELECT COUNT(DISTINCT user_id) FROM (SELECT u.user_id, (SELECT MAX(day) FROM visits v WHERE v.user_id = u.user_id) AS last FROM users u) WHERE last + 7 > DATE '2024-01-01'

-- R659
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_replace(note, 'a+', 'b') = 'x'

-- R409
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT user_id, age FROM users) u ON u.user_id = v.user_id

-- R410
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT user_id AS g, MAX(age) AS age FROM users GROUP BY user_id) u ON u.g = v.user_id

-- R415
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN visits w USING (user_id)

-- R425
SELECT COUNT(DISTINCT user_id) FROM visits, pages AS p

-- R329
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10

-- R332
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 10 LIMIT 2

-- R342
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (privacy_unit_column = user_id) COUNT(DISTINCT user_id) FROM visits

-- R343
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM visits

-- R344
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (measure = 0) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 3

-- R353
SELECT page, COUNT(DISTINCT user_id) AS n, DP_STDDEV(n) FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R735
SET dp_epsilon = 1

-- R65
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(CAST(ms / 7 AS DECIMAL(18, 3))) OVER (PARTITION BY user_id ORDER BY day) AS s FROM visits) WHERE s > 3 GROUP BY page ORDER BY n DESC LIMIT 2

-- R517
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages ORDER BY page LIMIT 2) p ON p.page = v.page

-- R71
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits EXCEPT SELECT user_id, page FROM visits WHERE ms > 5)

-- R78
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits) AS t

-- R51
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT MAX(p.category) FROM pages p WHERE p.page = v.page) = 'news' GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R526
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms AS m FROM visits)

-- R562
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT NULL, page FROM pages) GROUP BY page ORDER BY n DESC LIMIT 2

-- R683
SELECT COUNT(DISTINCT user_id) FROM visits WHERE strftime(day, '%A') = 'Monday'

-- R806
SELECT c, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, upper(country) AS c FROM visits) GROUP BY c ORDER BY n DESC LIMIT 2

-- R807
SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id IN (SELECT user_id FROM users WHERE age > 30)

-- R771
SELECT page, DP_GAP() AS g FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R772
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (intervals = SIMULTANEOUS, mechanism = BOX) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 10

-- R773
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = BOX) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- R774
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 2 ORDER BY page LIMIT 2

-- R791
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = NOISY_TOP_K) page, DP_GAP() AS g FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R792
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R853
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (measure = 0.5, error = 50, base_hits = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 3 LIMIT 2

-- R854
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- R860
SHOW RELEASES

-- R861
SHOW RELEASES

-- R602
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS INTEGER) IN (5, 6)

-- R29
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id = u.user_id GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R811
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3, mechanism = LAPLACE) day, COUNT(DISTINCT user_id) FROM visits GROUP BY day

-- R59
SELECT COUNT(DISTINCT u, contribution_bounds_per_group => (0, 20)) FROM (SELECT COALESCE(v.user_id, u.user_id) AS u FROM visits v FULL JOIN users u ON u.user_id = v.user_id)

-- R54
SELECT k, COUNT(DISTINCT u) AS n FROM (SELECT u.user_id AS u, COUNT(*) AS k FROM users u LEFT JOIN visits v ON u.user_id = v.user_id GROUP BY u.user_id) GROUP BY k ORDER BY n DESC LIMIT 2

-- R57
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r FROM visits) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R541
SELECT 'c' AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 1

-- R37
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id) GROUP BY city ORDER BY n DESC LIMIT 2

-- R1970
SELECT note, page, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a', 'b') GROUP BY note, page QUALIFY ROW_NUMBER() OVER (PARTITION BY note ORDER BY n DESC) <= 3

-- R1971
SELECT country, note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a', 'b') GROUP BY country, note QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n) <= 3

-- R1972
SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC) <= 3

-- R1973
SELECT city, age > 40 AS old, COUNT(DISTINCT user_id) AS n FROM users GROUP BY city, old QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY n DESC) <= 1

-- R930
SELECT COUNT(DISTINCT user_id) FROM baskets b WHERE EXISTS (SELECT 1 FROM goods g WHERE g.basket_id = b.basket_id AND g.sku = b.page)

-- R1510
SELECT d.page, COUNT(DISTINCT user_id) AS n FROM dp_domain(visits.page) AS d JOIN visits v ON v.page = d.page GROUP BY d.page

-- R1511
SELECT page FROM dp_domain(visits.page)

-- R1512
SELECT page FROM dp_domain(visits.page)

-- R62
SELECT page, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R2101
SELECT k, n FROM (SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ms AS k FROM visits UNION ALL SELECT user_id, age FROM users) GROUP BY k ORDER BY n DESC LIMIT 2) WHERE n > 1

-- R2102
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, age AS k FROM users UNION ALL SELECT user_id, ms FROM visits) GROUP BY k ORDER BY n DESC LIMIT 2

-- R2103
SELECT COUNT(DISTINCT v.user_id) FROM (SELECT user_id, user_id AS k FROM users UNION ALL SELECT user_id, ms FROM visits) v JOIN users u ON u.user_id = v.user_id

-- R802
SELECT page, SUM(ms, contribution_bounds_per_group => (0, 100)) AS s FROM visits GROUP BY page ORDER BY s DESC

-- R2507
SELECT SUM(ms, contribution_bounds_per_group => (0, 100)) FROM visits

-- R2508
SELECT AVG(ms, contribution_bounds_per_group => (0, 100)) FROM visits

-- R2515
SELECT note, COUNT(DISTINCT user_id) AS n, SUM(ms, contribution_bounds_per_group => (0, 10)) AS s FROM visits GROUP BY note ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 3

-- R2519
SELECT STDDEV(age, contribution_bounds_per_row => (0, 100)) FROM users

-- R2407
SELECT QUANTILE_CONT(age, 0.25, contribution_bounds_per_row => (0, 100)) AS q1, QUANTILE_CONT(age, 0.75, contribution_bounds_per_row => (0, 100)) AS q3 FROM users

-- R2410
SELECT QUANTILE_CONT(age, 0.5, contribution_bounds_per_row => (0, 100)) FROM users

-- R2412
SELECT MEDIAN(age, contribution_bounds_per_row => (0, 100)) FROM users

-- R2413
SELECT MAX(day, contribution_bounds_per_row => (DATE '2024-01-01', DATE '2024-12-31')) FROM visits

-- R2415
SELECT PERCENTILE_CONT(age, 0.48, contribution_bounds_per_row => (0, 100)) AS low, PERCENTILE_CONT(age, 0.52, contribution_bounds_per_row => (0, 100)) AS high FROM users

-- R2416
SELECT city, MEDIAN(age, contribution_bounds_per_row => (0, 100)) AS m FROM users GROUP BY city ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 10

-- R2419
SELECT MEDIAN(age, contribution_bounds_per_row => (0, 100)) FROM users

-- R2420
SELECT PERCENTILE_CONT(0.5, contribution_bounds_per_row => (0, 100)) WITHIN GROUP (ORDER BY age) FROM users

-- R2422
SELECT city, MEDIAN(age, contribution_bounds_per_row => (0, 100)) FROM users GROUP BY city

-- R2425
SELECT AVG(m) FROM (SELECT note, MAX(day) - DATE '2024-01-01' AS m FROM visits WHERE note IN ('a', 'b') GROUP BY note) AS g

-- R2601
SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 12 > ms

-- R2604
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > 3

-- R2605
SELECT v.n - a.m AS more FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) v, (SELECT COUNT(*) AS m FROM users) a

-- R356
SELECT day, page, country, a.x, b.x, c.x, COUNT(DISTINCT user_id) AS n FROM visits, (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) AS a(x), (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) AS b(x), (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15),(16),(17),(18),(19),(20)) AS c(x) GROUP BY ALL ORDER BY n DESC LIMIT 10

-- R622
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > TIMESTAMP '2024-01-01'

-- R3302
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC'

-- R3303
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3304
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3305
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3306
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > CAST('2024-07-02 00:00:00+02:00' AS TIMESTAMPTZ)

-- R422
SELECT (SELECT COUNT(*) FROM pages p) - (SELECT COUNT(DISTINCT p.page, contribution_bounds_per_group => (0, 20)) FROM pages p JOIN visits v ON v.page = p.page) AS n

-- R2791
SELECT COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE page = 'a') AS m, DP_STDDEV(n) AS s FROM visits

-- R2510
SELECT SUM(ms, contribution_bounds_per_group => (0, 5)) AS n FROM visits

-- R2511
SELECT SUM(ms, contribution_bounds_per_group => (0, 100)) AS n FROM visits

-- R2590
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id, x ORDER BY ms) AS c FROM (SELECT *, CASE WHEN EXISTS (SELECT 1 FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r FROM visits) y WHERE y.user_id = v.user_id AND y.r > 1) THEN 1 ELSE 0 END AS x FROM visits v)) WHERE c = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R4322
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page = 'a'

-- R4323
SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page IN ('a', 'b')

-- R4201
SELECT COUNT(DISTINCT user_id) FROM visits WHERE WIDTH_BUCKET(ms, 0, 100, 10) = 1

-- R4324
SELECT COUNT(DISTINCT user_id) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM users u WHERE u.user_id = v.user_id)

-- R5601
SELECT PERCENTILE_DISC(x, 0.25, contribution_bounds_per_row => (0, 50)) AS q FROM (SELECT user_id, COUNT(*) AS x FROM visits GROUP BY user_id)

-- R4901
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, delta = 1e-6) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1

-- R4903
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, order_share = 0.25, mechanism = TOP_STABLE) note FROM visits GROUP BY note ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R5850
SELECT COUNT(DISTINCT user_id) FROM visits WHERE WIDTH_BUCKET(ms, 0, 100, 10) = 3

-- R5851
WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page), c AS (SELECT country, page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY country, page) SELECT c.country, SUM(t.n * c.m) AS m FROM c JOIN t ON c.page = t.page GROUP BY c.country

-- R5852
WITH t AS (SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country), v AS (SELECT page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page) SELECT SUM(v.m) AS m FROM v JOIN t ON v.page = t.page

-- R5853
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(EPOCH FROM TIMESTAMP '2025-01-01' - CAST(day AS TIMESTAMP)) > 86400

-- R5900
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM (SELECT user_id, MIN(day) AS day FROM visits GROUP BY user_id) f WHERE f.user_id = v.user_id AND f.day = v.day)

-- R5901
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.user_id = v.user_id AND w.page = v.page AND w.day = v.day AND w.ms > 5)

-- R5902
WITH v(user_id, day, current_date) AS (SELECT user_id, day, DATE '2024-01-02' FROM visits) SELECT COUNT(DISTINCT user_id) FROM v WHERE day > "current_date"

-- R513
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits GROUP BY user_id, page QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, page) = 1)


-- R6201
SELECT 'a' AS p, COUNT(DISTINCT user_id) FROM visits UNION ALL SELECT NULL AS name, COUNT(DISTINCT user_id) FROM visits

-- R6401
SELECT page = 'a' AND country = 'DE' FROM (SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country)

-- R6981
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page QUALIFY ROW_NUMBER() OVER (PARTITION BY page ORDER BY n DESC) <= 2

-- R7103
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (EXTRACT(EPOCH FROM TIME '12:00:00') - EXTRACT(EPOCH FROM TIME '10:00:00')) / 60 > ms

-- R634
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = 5

-- R4211
SELECT COUNT(DISTINCT user_id) FROM visits JOIN generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY) AS s(d) ON visits.day = s.d
