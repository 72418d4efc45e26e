-- R1501 a list that OR joins with another condition
-- error: the values of note are not declared
-- at: note #3
-- hint: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note = 'a' OR country = 'DE' GROUP BY note -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note = 'a' OR country = 'DE' GROUP BY note

-- R1502 a list under NOT
-- error: the values of note are not declared
-- at: note #3
-- hint: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits WHERE NOT note IN ('a', 'b') GROUP BY note -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE NOT note IN ('a', 'b') GROUP BY note

-- R1503 a list of another column with the same name
-- error: the values of note are not declared
-- at: v.note #2
-- hint: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) v.note, COUNT(DISTINCT user_id) AS n FROM visits v, (SELECT category AS note FROM pages) w WHERE w.note IN ('a', 'b') GROUP BY v.note -- 16 is a guess
SELECT v.note, COUNT(DISTINCT user_id) AS n FROM visits v, (SELECT category AS note FROM pages) w WHERE w.note IN ('a', 'b') GROUP BY v.note

-- R1504 a list with a value of the row
-- error: the values of note are not declared
-- at: note #3
-- hint: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a', page) GROUP BY note -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN ('a', page) GROUP BY note

-- R1505 a range without an end
-- error: the values of ms are not declared
-- at: ms #3
-- hint: WHERE ms BETWEEN 0 AND 99
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) ms, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 5 GROUP BY ms -- 16 is a guess
SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 5 GROUP BY ms

-- R1506 a range of more values than a list has
-- error: the values of ms are not declared
-- at: ms #3
-- hint: WHERE ms BETWEEN 0 AND 99
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) ms, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms BETWEEN 1 AND 1000001 GROUP BY ms -- 16 is a guess
SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms BETWEEN 1 AND 1000001 GROUP BY ms

-- R1507 a CASE with one result that nobody declared
-- error: the values of k are not declared
-- at: k #2
-- hint: WHERE k IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) CASE WHEN ms > 5 THEN note ELSE country END AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k -- 16 is a guess
SELECT CASE WHEN ms > 5 THEN note ELSE country END AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k

-- R1508 a range that no declared value is in
-- error: no value in the public domain of the keys meets WHERE
-- at: day #3
SELECT day, COUNT(DISTINCT user_id) AS n FROM visits WHERE day > '2025-01-01' GROUP BY day

-- R1509 a condition of LEFT JOIN lists nothing
-- error: the values of note are not declared
-- at: note #3
-- hint: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits LEFT JOIN pages p ON p.page = visits.page AND note IN ('a', 'b') GROUP BY note -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits LEFT JOIN pages p ON p.page = visits.page AND note IN ('a', 'b') GROUP BY note

-- R1510 the values of a column that nobody declared
-- error: visits.note has no declared values
-- at: visits.note
-- hint: FROM dp_domain(visits.page)
SELECT d.note, COUNT(DISTINCT user_id) AS n FROM dp_domain(visits.note) AS d JOIN visits v ON v.note = d.note GROUP BY d.note

-- R1511 the values of a column without its table
-- error: DP_DOMAIN takes the name of a column, with its table
-- at: dp_domain
-- hint: FROM dp_domain(visits.page)
SELECT country FROM dp_domain(country)

-- R1512 the values of a column of an unknown table
-- error: there is no table visit
-- at: visit.country
-- hint: FROM dp_domain(visits.page)
SELECT country FROM dp_domain(visit.country)

-- R1513 a key whose values belong to one unit each
-- error: each value of basket_id belongs to one user_id, so no group has enough of them to be shown
-- at: basket_id ORDER
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 9)) AS n FROM baskets ORDER BY n DESC LIMIT 3 -- asks something else: all values of basket_id together
SELECT basket_id, COUNT(*, contribution_bounds_per_group => (0, 9)) AS n FROM baskets GROUP BY basket_id ORDER BY n DESC LIMIT 3

-- R5950 steps that go away from their cut have no last one
-- error: the values of b are not declared
-- at: b #2
-- hint: OPTIONS (max_groups_contributed = 16)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) LEAST(9 - floor(ms / 50), 3) AS b, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 0 GROUP BY b -- 16 is a guess
SELECT LEAST(9 - floor(ms / 50), 3) AS b, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= 0 GROUP BY b

-- R6000 what is chosen from an undeclared column
-- error: the values of k are not declared
-- at: k #3
-- hint: OPTIONS (max_groups_contributed = 16)
-- rewrite: WITH f AS (SELECT user_id, MIN(note) AS k FROM visits GROUP BY user_id) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) k, country, COUNT(DISTINCT user_id) AS n FROM visits JOIN f USING (user_id) GROUP BY k, country -- 16 is a guess
WITH f AS (SELECT user_id, MIN(note) AS k FROM visits GROUP BY user_id) SELECT k, country, COUNT(DISTINCT user_id) AS n FROM visits JOIN f USING (user_id) GROUP BY k, country

-- R6001 a window that chooses from an undeclared column
-- error: the values of k are not declared
-- at: k #3
-- hint: OPTIONS (max_groups_contributed = 16)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, LAG(note) OVER (PARTITION BY user_id ORDER BY day) AS k FROM visits) GROUP BY k -- 16 is a guess
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, LAG(note) OVER (PARTITION BY user_id ORDER BY day) AS k FROM visits) GROUP BY k

-- R6002 a sum of declared values is none of them
-- error: the values of k are not declared
-- at: k #3
-- hint: OPTIONS (max_groups_contributed = 16)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(month(day)) AS k FROM visits GROUP BY user_id, page) GROUP BY k -- 16 is a guess
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(month(day)) AS k FROM visits GROUP BY user_id, page) GROUP BY k

-- R6003 a branch of UNION without declared values
-- error: the values of k are not declared
-- at: k #3
-- hint: OPTIONS (max_groups_contributed = 16)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, note FROM visits) GROUP BY k -- 16 is a guess
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country AS k FROM visits UNION ALL SELECT user_id, note FROM visits) GROUP BY k
