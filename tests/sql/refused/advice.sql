-- Hints that are tried: functions, aggregates and windows that are refused, and what asks the same or nearly so.

-- R3401 buckets of equal width
-- error: WIDTH_BUCKET is not among the functions allowed over private data
-- at: WIDTH_BUCKET
-- hint: CASE WHEN age < 0 THEN 0 WHEN age >= 120 THEN 6 + 1 ELSE CAST(FLOOR((age - 0) * 6 / (120 - 0)) AS INTEGER) + 1 END
-- rewrite: SELECT CASE WHEN age < 0 THEN 0 WHEN age >= 120 THEN 6 + 1 ELSE CAST(FLOOR((age - 0) * 6 / (120 - 0)) AS INTEGER) + 1 END AS b, COUNT(DISTINCT user_id) AS n FROM users GROUP BY b
SELECT WIDTH_BUCKET(age, 0, 120, 6) AS b, COUNT(DISTINCT user_id) AS n FROM users GROUP BY b

-- R3402 buckets of an expression
-- error: width_bucket is not among the functions allowed over private data
-- at: width_bucket
-- hint: CASE WHEN (age + 1) < 0 THEN 0 WHEN (age + 1) >= 120 THEN 6 + 1 ELSE CAST(FLOOR(((age + 1) - 0) * 6 / (120 - 0)) AS INTEGER) + 1 END
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM users WHERE CASE WHEN (age + 1) < 0 THEN 0 WHEN (age + 1) >= 120 THEN 6 + 1 ELSE CAST(FLOOR(((age + 1) - 0) * 6 / (120 - 0)) AS INTEGER) + 1 END = 3
SELECT COUNT(DISTINCT user_id) FROM users WHERE width_bucket(age + 1, 0, 120, 6) = 3

-- R3403 a point of time of literals
-- error: MAKE_TIMESTAMP is not among the functions allowed over private data
-- at: MAKE_TIMESTAMP
-- hint: TIMESTAMP '2024-03-01 12:30:00'
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < TIMESTAMP '2024-03-01 12:30:00'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < MAKE_TIMESTAMP(2024, 3, 1, 12, 30, 0)

-- R3404 a point of time of a column
-- error: MAKE_TIMESTAMP is not among the functions allowed over private data
-- at: MAKE_TIMESTAMP
-- hint: CAST(MAKE_DATE(2024, ms, 1) AS TIMESTAMP) + INTERVAL 12 HOUR
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < CAST(MAKE_DATE(2024, ms, 1) AS TIMESTAMP) + INTERVAL 12 HOUR
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < MAKE_TIMESTAMP(2024, ms, 1, 12, 0, 0)

-- R3405 the day of microseconds
-- error: MAKE_TIMESTAMP is not among the functions allowed over private data
-- at: MAKE_TIMESTAMP
-- hint: (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400000000) AS INTEGER))
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400000000) AS INTEGER)) = day
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(MAKE_TIMESTAMP(ms) AS DATE) = day

-- R3406 the day of milliseconds
-- error: epoch_ms is not allowed with (INTEGER)
-- at: epoch_ms
-- hint: (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400000) AS INTEGER))
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400000) AS INTEGER)) = day
SELECT COUNT(DISTINCT user_id) FROM visits WHERE epoch_ms(ms)::DATE = day

-- R3407 the day of seconds
-- error: TO_TIMESTAMP is not allowed over private data: it can fail on some values, and whether it fails would be seen
-- at: TO_TIMESTAMP
-- hint: (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400) AS INTEGER))
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (DATE '1970-01-01' + CAST(FLOOR((ms) / 86400) AS INTEGER)) = day
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(TO_TIMESTAMP(ms) AS DATE) = day

-- R3408 a point of time of a number
-- error: make_timestamp is not among the functions allowed over private data
-- at: make_timestamp
SELECT COUNT(DISTINCT user_id) FROM visits WHERE make_timestamp(ms) > day

-- R3409 the years of an age
-- error: date_part is not allowed with (VARCHAR, DOUBLE)
-- at: AGE
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE DATE_SUB('year', day, DATE '2025-01-01') > 1 -- asks something else: complete years, of which 29 February to 28 February is one as well
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(YEAR FROM AGE(DATE '2025-01-01', day)) > 1

-- R3410 the years of an age until today
-- error: age is not allowed with (DATE)
-- at: age
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE DATE_SUB('year', day, CURRENT_DATE) > 1 -- asks something else: complete years, of which 29 February to 28 February is one as well
SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_part('year', age(day)) > 1

-- R3411 the day of a week
-- error: date_part is not allowed with (VARCHAR, DATE)
-- at: day
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DOW FROM day) = 1 -- asks something else: days of the week from 0, a Sunday, to 6
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DAYOFWEEK FROM day) = 1

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

-- R3416 the most frequent value
-- error: MODE over many units is not released: it is the largest group, so select that
-- at: MODE
-- hint: SELECT page FROM visits WHERE ms > 1 GROUP BY page ORDER BY COUNT(*) DESC LIMIT 1
-- rewrite: SELECT page FROM visits WHERE ms > 1 GROUP BY page ORDER BY COUNT(*, contribution_bounds_per_group => (0, 20)) DESC LIMIT 1 -- 20 is a guess
SELECT MODE(page) FROM visits WHERE ms > 1

-- R3417 how often each value occurs
-- error: HISTOGRAM over many units is not released: counts, sums, averages and quantiles are
-- at: HISTOGRAM
-- hint: SELECT page, COUNT(*) AS n FROM visits GROUP BY page
-- rewrite: SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page -- 20 is a guess
SELECT HISTOGRAM(page) FROM visits

-- R3418 whether some row meets a condition
-- error: BOOL_OR over many units is not released: counts, sums, averages and quantiles are
-- at: BOOL_OR
-- hint: SELECT COUNT_IF(ms > 1, contribution_bounds_per_group => (0, 20)) FROM visits -- asks something else: how many rows meet the condition; 20 is a guess
SELECT BOOL_OR(ms > 1) FROM visits

-- R3419 a covariance
-- error: COVAR_POP is not among the functions allowed over private data
-- at: COVAR_POP
-- hint: AVG(age * (age + 1)) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL) - AVG(age) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL) * AVG((age + 1)) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL)
-- rewrite: SELECT (AVG(age * (age + 1)) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL) - AVG(age) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL) * AVG((age + 1)) FILTER (WHERE age IS NOT NULL AND (age + 1) IS NOT NULL)) FROM users
SELECT COVAR_POP(age, age + 1) FROM users

-- R3420 what is not computed at all
-- error: SKEWNESS is not among the functions allowed over private data
-- at: SKEWNESS
SELECT SKEWNESS(age) FROM users

-- R3421 a quantile by ranks
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: PERCENT_RANK
-- hint: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM users -- asks something else: the age that half of the rows are below
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, PERCENT_RANK() OVER (ORDER BY age) AS r FROM users) WHERE r > 0.9

-- R3422 an average beside the rows
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: AVG
-- hint: SELECT AVG(age) FROM users -- asks something else: one number, without the rows beside it
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, age, AVG(age) OVER () AS a FROM users) WHERE age > a

-- R3423 an average of groups beside the rows
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: AVG
-- hint: SELECT city, AVG(age) FROM users GROUP BY city -- asks something else: one row for each city
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, age, AVG(age) OVER (PARTITION BY city) AS a FROM users) WHERE age > a

-- R3424 an average over all rows
-- error: a private table is only counted
-- at: AVG
-- hint: SELECT AVG(age) FROM users -- asks something else: one number, without the rows beside it
SELECT AVG(age) OVER () FROM users

-- R3425 a quantile with OVER
-- error: WITHIN GROUP has no OVER behind it: it is one number of all rows, or of each group
-- at: OVER
-- hint: SELECT DISTINCT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM users -- asks something else: one number, without the rows beside it
SELECT DISTINCT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) OVER () FROM users

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
-- error: each value of the key belongs to one user_id, so no group has enough of them to be shown
-- at: basket_id
-- hint: SELECT COUNT(DISTINCT user_id) AS n FROM baskets -- asks something else: all groups together
SELECT COUNT(DISTINCT user_id) AS n FROM baskets GROUP BY basket_id
