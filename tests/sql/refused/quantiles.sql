-- R2401 a quantile without bounds
-- error: MEDIAN needs bounds on the values: they are public
-- at: MEDIAN
-- hint: MEDIAN(ms, contribution_bounds_per_row => (0, 100))
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) country, MEDIAN(ms, contribution_bounds_per_row => (0, 100)) FROM visits GROUP BY country -- 100 and 20 are guesses
SELECT country, MEDIAN(ms) FROM visits GROUP BY country

-- R2402 how many rows of a unit count is not said
-- error: a user_id can have many rows here: say how many may count
-- at: QUANTILE_CONT
-- hint: OPTIONS (max_rows_contributed = 20)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) QUANTILE_CONT(ms, 0.9, contribution_bounds_per_row => (0, 100)) FROM visits -- 20 is a guess
SELECT QUANTILE_CONT(ms, 0.9, contribution_bounds_per_row => (0, 100)) FROM visits

-- R2403 the least text is one person's
-- error: MIN of VARCHAR over many units is not released: it is what one user_id has
-- at: MIN
-- hint: COUNT(DISTINCT user_id)
SELECT MIN(note) FROM visits

-- R2404 the largest unit
-- error: MAX of the privacy unit over many units is not released
-- at: MAX
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: how many user_id there are
SELECT MAX(user_id) FROM visits

-- R2407 several quantiles as a list, not all of them constant
-- error: a release has one number in a column, not a list
-- at: 0.25
-- hint: QUANTILE_CONT(x, 0.25) AS q1, QUANTILE_CONT(x, 0.75) AS q3
SELECT QUANTILE_CONT(age, [0.25, age]) FROM users

-- R2408 quantiles of equal distance
-- error: APPROX_QUANTILES makes a list
-- at: APPROX_QUANTILES
-- hint: SELECT QUANTILE_CONT(age, [0.25, 0.5, 0.75]) FROM users -- asks something else: the parts without the smallest and the largest value
SELECT APPROX_QUANTILES(age, 4) FROM users

-- R2409 a share above 1
-- error: the share of rows below a quantile is a number from 0 to 1
-- at: 90
-- hint: 0.9
-- rewrite: SELECT QUANTILE_CONT(age, 0.9) FROM users
SELECT QUANTILE_CONT(age, 90) FROM users

-- R2410 a share of the row
-- error: the share of rows below a quantile is a number from 0 to 1
-- at: age #2
-- hint: 0.5
SELECT QUANTILE_CONT(age, age) FROM users

-- R2411 no share
-- error: PERCENTILE_CONT has other arguments: it is written PERCENTILE_CONT(x, 0.5)
-- at: PERCENTILE_CONT
-- hint: PERCENTILE_CONT(age, 0.5)
-- rewrite: SELECT PERCENTILE_CONT(age, 0.5) FROM users -- 0.5 is a guess
SELECT PERCENTILE_CONT(age) FROM users

-- R2412 bounds in the wrong order
-- error: of two bounds, the smaller is first
-- at: 100
-- hint: MEDIAN(x, contribution_bounds_per_row => (0, 100))
SELECT MEDIAN(age, contribution_bounds_per_row => (100, 0)) FROM users

-- R2413 bounds of a date that are numbers
-- error: the bounds of values are two dates
-- at: 1
-- hint: MAX(x, contribution_bounds_per_row => (DATE '2024-01-01', DATE '2024-12-31'))
SELECT MAX(day, contribution_bounds_per_row => (1, 100)) FROM visits

-- R2414 bounds per group
-- error: the bounds of values are two numbers
-- at: 0
-- hint: MEDIAN(x, contribution_bounds_per_row => (0, 100))
SELECT MEDIAN(age, contribution_bounds_per_group => (0, 100)) FROM users

-- R2415 an interval of a quantile
-- error: a quantile has no interval: ask for quantiles on both sides of it
-- at: DP_INTERVAL_LOW
-- hint: PERCENTILE_CONT(x, 0.48) AS low, PERCENTILE_CONT(x, 0.52) AS high
SELECT MEDIAN(age, contribution_bounds_per_row => (0, 100)) AS m, DP_INTERVAL_LOW(m) FROM users

-- R2416 the groups with the largest quantile
-- error: groups are not chosen by MEDIAN
-- at: MEDIAN
-- hint: choose by SUM or COUNT, or among all groups that are released
SELECT city, MEDIAN(age, contribution_bounds_per_row => (0, 100)) AS m FROM users GROUP BY city TOP 1 BY m

-- R2417 quantiles of groups that nobody declared
-- error: the values of note are not declared: say in how many groups a user_id may count
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16), or list them: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, MAX(day) FROM visits GROUP BY note -- 16 is a guess
SELECT note, MAX(day) FROM visits GROUP BY note

-- R2418 the same beside a selection by a count
-- error: the values of note are not declared: say in how many groups a user_id may count
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16), or list them: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n, MIN(day) FROM visits GROUP BY note ORDER BY n DESC LIMIT 2 -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n, MIN(day) FROM visits GROUP BY note ORDER BY n DESC LIMIT 2

-- R2419 distinct values
-- error: MEDIAN has other arguments: it is written MEDIAN(x)
-- at: MEDIAN
-- hint: MEDIAN(x)
SELECT MEDIAN(DISTINCT age) FROM users

-- R2420 WITHIN GROUP of something else
-- error: WITHIN GROUP belongs to a quantile of one expression
-- at: SUM
-- hint: PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)
SELECT SUM(age) WITHIN GROUP (ORDER BY age) FROM users

-- R2421 a condition is no number
-- error: MAX of BOOLEAN over many units is not released
-- at: MAX
-- hint: COUNT(DISTINCT user_id)
SELECT MAX(late) FROM baskets

-- R2422 a mechanism of counts
-- error: mechanism LAPLACE cannot answer this
-- at: mechanism
-- hint: leave it out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE) city, MEDIAN(age, contribution_bounds_per_row => (0, 100)) FROM users GROUP BY city

-- R2424 an extreme of many groups without a bound on those of a unit
-- error: extremes of 367 groups need a bound on how many of them one unit may touch
-- at: day #2
-- hint: OPTIONS (max_groups_contributed = 3)
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3) day, MAX(ms, contribution_bounds_per_row => (0, 100)) FROM visits GROUP BY day -- 3 is a guess
SELECT day, MAX(ms, contribution_bounds_per_row => (0, 100)) FROM visits GROUP BY day

-- R2425 a mean over groups that noise finds
-- error: quantiles of groups that are not declared are not aggregated
-- at: note #2
-- hint: the owner declares the key in [tables.NAME.domain], or list its values in WHERE
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) AVG(m) FROM (SELECT note, MAX(day) - DATE '2024-01-01' AS m FROM visits GROUP BY note) AS g
