-- Hints that are tried: functions, aggregates and windows that are refused, and what asks the same or nearly so.

-- R3412 the day of a year
-- error: date_part is not allowed with (VARCHAR, DATE)
-- at: day
-- hint: EXTRACT(DOY FROM day)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DOY FROM day) = 1
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DAYOFYEAR FROM day) = 1

-- R3413 any value of a group
-- error: ANY_VALUE over many units is not released: it is the value of one unit
-- at: ANY_VALUE
-- hint: SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page -- asks something else: one row for each page
SELECT country, ANY_VALUE(page) FROM visits GROUP BY country

-- R3414 the first of all values
-- error: MIN of VARCHAR over many units is not released: it is what one user_id has
-- at: MIN
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page -- asks something else: one row for each page
SELECT MIN(page) FROM visits

-- R3415 a list of a group, beside a count
-- error: STRING_AGG over many units is not released: counts, sums, averages and quantiles are
-- at: STRING_AGG
-- hint: SELECT country, page, COUNT(DISTINCT user_id) FROM visits GROUP BY country, page -- asks something else: one row for each page
SELECT country, STRING_AGG(page, ','), COUNT(DISTINCT user_id) FROM visits GROUP BY country

-- R3416 the most frequent value of each group
-- error: MODE over many units is not released: it is the largest group, so select that
-- at: MODE
-- hint: SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > 1 GROUP BY country, page -- asks something else: one row for each page
SELECT country, MODE(page) FROM visits WHERE ms > 1 GROUP BY country

-- R3417 how often each value occurs
-- error: a user_id can have many rows here: say how many may count
-- at: HISTOGRAM
-- hint: HISTOGRAM(page, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id) for units
-- rewrite: SELECT HISTOGRAM(page, contribution_bounds_per_group => (0, 20)) FROM visits -- 20 is a guess
SELECT HISTOGRAM(page) FROM visits

-- R3447 how often each value occurs in each group
-- error: HISTOGRAM over many units is not released: counts, sums, averages and quantiles are
-- at: HISTOGRAM
-- hint: SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page -- asks something else: one row for each page
SELECT country, HISTOGRAM(page) FROM visits GROUP BY country

-- R3418 whether some row meets a condition
-- error: BOOL_OR over many units is not released: counts, sums, averages and quantiles are
-- at: BOOL_OR
-- hint: SELECT COUNT_IF(ms > 1, contribution_bounds_per_group => (0, 20)) FROM visits -- asks something else: how many rows meet the condition; 20 is a guess
SELECT BOOL_OR(ms > 1) FROM visits

-- R3420 what is not computed at all
-- error: SKEWNESS is not among the functions allowed over private data
-- at: SKEWNESS
-- hint: SELECT QUANTILE_CONT(age, [0.05, 0.25, 0.5, 0.75, 0.95]) FROM users -- asks something else: the age below which these shares of the rows are
SELECT SKEWNESS(age) FROM users

-- R3421 a quantile by ranks
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: PERCENT_RANK
-- hint: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM users -- asks something else: the age that half of the rows are below
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, PERCENT_RANK() OVER (ORDER BY age) AS r FROM users) WHERE r > 0.9

-- R3422 the largest value beside the rows
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: MAX
-- hint: SELECT MAX(age) FROM users -- asks something else: one number, without the rows beside it
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, age, MAX(age) OVER () AS a FROM users) WHERE age > a

-- R3423 an average of groups by two keys beside the rows
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: AVG
-- hint: SELECT city, age % 2, AVG(age) FROM users GROUP BY city, age % 2 -- asks something else: one row for each city, age % 2
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, age, AVG(age) OVER (PARTITION BY city, age % 2) AS a FROM users) WHERE age > a

-- R3424 an average over all rows
-- error: a private table is only counted
-- at: AVG
-- hint: SELECT AVG(age) FROM users -- asks something else: one number, without the rows beside it
SELECT AVG(age) OVER () FROM users

-- R3425 a quantile with OVER
-- error: a private table is only counted
-- at: PERCENTILE_CONT
-- hint: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM users -- asks something else: one number, without the rows beside it
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) OVER () FROM users

-- R3426 the row before, of anybody
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: LAG
-- hint: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(page) OVER (PARTITION BY user_id ORDER BY day) AS p, page FROM visits) WHERE p = page -- asks something else: the rows of one user_id
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(page) OVER (ORDER BY day) AS p, page FROM visits) WHERE p = page

-- R3427 the row before, in a group
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: LAG
-- hint: SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(page) OVER (PARTITION BY user_id, country ORDER BY day) AS p, page FROM visits) WHERE p = page -- asks something else: the rows of one user_id
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(page) OVER (PARTITION BY country ORDER BY day) AS p, page FROM visits) WHERE p = page

-- R3428 a function of a released number
-- error: upper is not allowed with (DOUBLE): released numbers are DOUBLE
-- at: upper
SELECT upper(COUNT(DISTINCT user_id)) FROM visits

-- R3429 a key of single units that is not shown
-- error: each value of basket_id belongs to one user_id, so no group has enough of them to be shown
-- at: basket_id
-- hint: SELECT COUNT(DISTINCT user_id) AS n FROM baskets -- asks something else: all values of basket_id together
SELECT COUNT(DISTINCT user_id) AS n FROM baskets GROUP BY basket_id

-- R7100 whether there is any row
-- error: no private table reaches the outermost SELECT
-- at: 1
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits WHERE ms > 5 -- asks something else: how many there are
SELECT EXISTS (SELECT 1 FROM visits WHERE ms > 5)

-- R7101 classes of units by a number of each
-- obstacles: a user_id can have many rows here | the privacy unit cannot be a group key
-- error: the privacy unit cannot be a group key: it would name single units
-- at: user_id
-- hint: SELECT k, COUNT(*) AS units FROM (SELECT CASE WHEN COUNT(*) > 3 THEN 'often' ELSE 'rarely' END AS k FROM visits GROUP BY user_id) GROUP BY k -- asks something else: how many units have each k
SELECT CASE WHEN COUNT(*) > 3 THEN 'often' ELSE 'rarely' END AS k, COUNT(*) FROM visits GROUP BY user_id

-- R7102 the same beside a sum
-- obstacles: SUM needs bounds | the privacy unit cannot be a group key
-- error: the privacy unit cannot be a group key: it would name single units
-- at: user_id #2
-- hint: SELECT k, COUNT(*) AS units FROM (SELECT CASE WHEN SUM(ms) > 3 THEN 'long' ELSE 'short' END AS k FROM visits GROUP BY user_id) GROUP BY k -- asks something else: how many units have each k
SELECT user_id, SUM(ms) AS total, CASE WHEN SUM(ms) > 3 THEN 'long' ELSE 'short' END AS k FROM visits GROUP BY user_id

-- R7103 the time between two times of day
-- error: date_diff is not allowed with (VARCHAR, TIME, TIME)
-- at: date_diff
-- hint: EXTRACT(EPOCH FROM b) - EXTRACT(EPOCH FROM a) has the seconds between two times of day
SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_diff('minute', TIME '10:00:00', TIME '12:00:00') > ms

-- R7104 more buckets than are cut
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: NTILE
-- hint: SELECT t, COUNT(*) AS n FROM (SELECT NTILE(32) OVER (ORDER BY age) AS t FROM users) GROUP BY t -- asks something else: 32 buckets, which are the most
SELECT t, COUNT(*) AS n FROM (SELECT NTILE(100) OVER (ORDER BY age) AS t FROM users) GROUP BY t
