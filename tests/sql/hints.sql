-- What the hint of each refusal leads to: the refused statement's number, and the statement of one who followed
-- its hint. Every hint that the refused fixtures are given must be here.

-- R03
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R25
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id = u.user_id AND v.country = u.city GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R17
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10

-- R115
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 5

-- R11
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 100 LIMIT 3

-- R40
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r FROM visits) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R53
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, LEAST(COUNT(*), 3) AS k FROM visits GROUP BY user_id) WHERE k IN (1, 2, 3) GROUP BY k ORDER BY n DESC LIMIT 2

-- R01
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10

-- R601
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS INTEGER) = 5

-- R426
SELECT COUNT(DISTINCT user_id) FROM visits JOIN pages AS p ON p.page = visits.page

-- R429
SELECT COUNT(DISTINCT user_id) FROM visits

-- R36
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE ms > 3) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R80
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT NULL, page FROM pages) WHERE page IN ('a', 'z') GROUP BY page ORDER BY n DESC LIMIT 2

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

-- R69
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms, page) = 1) GROUP BY page ORDER BY n DESC LIMIT 2

-- R09
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R617
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 2

-- R662
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ->> '$.a' = 'x'

-- R35
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v ANTI JOIN pages p ON p.page = v.page GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R13
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = ADAPTIVE_SPARSE_VECTOR) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 10 LIMIT 10

-- R335
SELECT page, DP_GAP() AS g, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 2 LIMIT 10

-- R14
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a', 'b') GROUP BY note HAVING n >= 10 LIMIT 2

-- R23
SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 10

-- R321
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10 BY n

-- R325
SELECT TOP 10 page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- R711
SET dp_epsilon = 0.5

-- R725
SELECT category FROM pages

-- R61
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (user_id) user_id, page FROM visits ORDER BY user_id, ms, page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R509
SELECT COUNT(DISTINCT user_id) FROM (SELECT DISTINCT ON (user_id) user_id, country FROM visits ORDER BY user_id, day)

-- R62
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT user_id, page FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R63
SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page ORDER BY day) AS f FROM visits GROUP BY user_id) WHERE f IN ('a', 'b') GROUP BY f ORDER BY n DESC LIMIT 2

-- R511
SELECT COUNT(*) FROM (SELECT user_id, LIST(page ORDER BY day) AS f FROM visits GROUP BY user_id) WHERE len(f) > 1

-- R75
SELECT page, COUNT(DISTINCT ms) AS n FROM visits AS v(ms, page, country, user_id, note, day) GROUP BY page ORDER BY n DESC LIMIT 2

-- R38
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits WHERE country = 'DE') GROUP BY page ORDER BY n DESC LIMIT 2

-- R44
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 5) AS m, n / m AS share FROM visits GROUP BY page TOP 2 BY n

-- R48
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R52
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 5

-- R93
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS DATE) = day GROUP BY page ORDER BY n DESC LIMIT 2

-- R95
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(country, 'D.') GROUP BY page ORDER BY n DESC LIMIT 2

-- R99
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY ms ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM visits) WHERE s > 5 GROUP BY page ORDER BY n DESC LIMIT 2

-- R603
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = '5'

-- R604
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day = '2024-02-29'

-- R610
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS BIGINT) + 1 > 2

-- R624
SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'a'

-- R625
SELECT COUNT(DISTINCT user_id) FROM visits WHERE visits.page = 'a'

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

-- R414
SELECT COUNT(DISTINCT v.user_id) FROM visits v, (SELECT page, category FROM pages p WHERE p.page = p.page) w WHERE w.page = v.page

-- R415
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN visits w USING (user_id)

-- R416
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = u.user_id

-- R425
SELECT COUNT(DISTINCT user_id) FROM visits, pages AS p

-- R19
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3

-- R301
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC FETCH FIRST 10 ROWS ONLY

-- R328
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10

-- R329
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10

-- R332
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 10 LIMIT 2

-- R339
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM visits

-- R341
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE, confidence = 0.9) COUNT(DISTINCT user_id) FROM visits

-- R342
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (privacy_unit_column = user_id) COUNT(DISTINCT user_id) FROM visits

-- R343
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM visits

-- R344
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (measure = 0) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 3

-- R345
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page LIMIT 2

-- R351
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM visits UNION ALL SELECT user_id FROM users)

-- R353
SELECT page, COUNT(DISTINCT user_id) AS n, DP_STDDEV(n) FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R364
SELECT page, n FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2) AS t

-- R114
EXPLAIN SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R715
DESCRIBE visits

-- R716
SHOW TABLES

-- R718
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 2

-- R729
SELECT * FROM pages

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

-- R43
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM users) GROUP BY page ORDER BY n DESC LIMIT 2

-- R47
SELECT city, COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 FROM visits w LEFT JOIN users u ON w.user_id = u.user_id WHERE w.user_id = o.user_id) GROUP BY city ORDER BY n DESC LIMIT 2

-- R51
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT MAX(p.category) FROM pages p WHERE p.page = v.page) = 'news' GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R526
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms AS m FROM visits)

-- R562
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT NULL, page FROM pages) GROUP BY page ORDER BY n DESC LIMIT 2

-- R539
SELECT u.city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE (SELECT MAX(a.ms) FROM visits AS a WHERE a.user_id = u.user_id) > 5 GROUP BY u.city ORDER BY n DESC LIMIT 2

-- R683
SELECT COUNT(DISTINCT user_id) FROM visits WHERE strftime(day, '%A') = 'Monday'

-- R422
SELECT COUNT(DISTINCT visits.user_id) FROM visits RIGHT JOIN (VALUES (1), (2)) AS p(user_id) USING (user_id)

-- R805
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = u.user_id AND u.age > 3 WHERE note = 'x'

-- R806
SELECT c, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, upper(country) AS c FROM visits) GROUP BY c ORDER BY n DESC LIMIT 2

-- R816
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 3

-- R807
SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id IN (SELECT user_id FROM users WHERE age > 30)

-- R770
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE, max_groups_contributed = 3) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

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

-- R850
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) COUNT(DISTINCT user_id) FROM visits

-- R853
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (measure = 0.5, error = 50, base_hits = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 3 LIMIT 2

-- R854
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- R855
SET dp_epsilon = 0.1

-- R860
SHOW RELEASES

-- R861
SHOW RELEASES

-- R812
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 3) country, COUNT(*, contribution_bounds_per_group => (0, 5)) FROM visits GROUP BY country

-- R813
SELECT COALESCE(page, 'NVL(x)') AS p, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY p ORDER BY n DESC LIMIT 3

-- R348
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R05 COUNT DISTINCT of something else
SELECT country, COUNT(DISTINCT page, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2

-- R06 expression of the unit
SELECT page, COUNT(DISTINCT user_id // 2, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R12 CASE with an ELSE counts other values
SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id ELSE ms END, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R16 CASE with two branches
SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id WHEN ms < 0 THEN ms END, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R20 CAST of the unit
SELECT page, COUNT(DISTINCT user_id::VARCHAR, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R24 COALESCE of the unit with something else
SELECT page, COUNT(DISTINCT COALESCE(user_id, ms), contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R421 the public side's column counted as the unit
SELECT COUNT(DISTINCT p.user_id, contribution_bounds_per_group => (0, 20)) FROM (VALUES (1), (2)) AS p(user_id) JOIN visits v ON v.user_id = p.user_id

-- R423 USING merges the public side's column in a FULL JOIN
SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) FROM visits FULL JOIN (VALUES (1::BIGINT), (2)) AS p(user_id) USING (user_id)

-- R59
SELECT COUNT(DISTINCT u, contribution_bounds_per_group => (0, 20)) FROM (SELECT COALESCE(v.user_id, u.user_id) AS u FROM visits v FULL JOIN users u ON u.user_id = v.user_id)

-- R70 UNION ALL with the columns the other way round
SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) FROM (SELECT user_id, ms FROM visits UNION ALL SELECT ms, user_id FROM visits)

-- R74 unit hidden by CTE column names
WITH v(user_id, page) AS (SELECT ms, page FROM visits) SELECT page, COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) AS n FROM v GROUP BY page ORDER BY n DESC LIMIT 2

-- R525 unit hidden by an alias
SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) FROM (SELECT ms AS user_id, user_id AS ms FROM visits)
