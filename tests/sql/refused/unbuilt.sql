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

-- R65 floating-point running sum (segment tree crosses units)
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms / 7) OVER (PARTITION BY user_id ORDER BY day) AS s FROM visits) WHERE s > 10.3 GROUP BY page ORDER BY n DESC LIMIT 2

-- R518 public sample
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages USING SAMPLE 2) p ON p.page = v.page

-- R98 window arguments from the data
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, NTILE(ms) OVER (PARTITION BY user_id ORDER BY day) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R99 window frame from the data
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY ms RANGE BETWEEN ms PRECEDING AND CURRENT ROW) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2
