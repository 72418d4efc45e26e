-- R2501 a sum of different values: what one unit adds depends on what others have
-- error: SUM(DISTINCT ..) over many units is not released
-- at: SUM
-- hint: SELECT SUM(ms, contribution_bounds_per_group => (0, 100)) FROM visits -- asks something else: rows with equal values count each; 100 is a guess
SELECT SUM(DISTINCT ms) FROM visits

-- R2502 the same of an average, with bounds
-- error: AVG(DISTINCT ..) over many units is not released
-- at: AVG
-- hint: SELECT AVG(age, contribution_bounds_per_row => (0, 100)) FROM users -- asks something else: rows with equal values count each
SELECT AVG(DISTINCT age, contribution_bounds_per_row => (0, 100)) FROM users

-- R2506 a list of values
-- error: STRING_AGG over many units is not released
-- at: LISTAGG
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page -- asks something else: one row for each page
SELECT LISTAGG(page) FROM visits

-- R2507 bounds the wrong way round
-- error: the bounds of values are two numbers, the smaller first
-- at: 10
-- hint: SUM(ms, contribution_bounds_per_group => (0, 10))
SELECT SUM(ms, contribution_bounds_per_group => (10, 0)) FROM visits

-- R2508 equal bounds
-- error: the bounds of values are two numbers, the smaller first
-- at: 5
-- hint: AVG(ms, contribution_bounds_per_row => (0, 100))
SELECT AVG(ms, contribution_bounds_per_row => (5, 5)) FROM visits

-- R2509 bounds of the data itself
-- error: the bounds of values are two numbers, the smaller first
-- at: 0
-- hint: SUM(ms, contribution_bounds_per_group => (0, 100))
SELECT SUM(ms, contribution_bounds_per_group => (0, ms)) FROM visits

-- R2510 two kinds of bounds
-- error: SUM takes one pair of bounds
-- at: 0 #2
-- hint: SUM(ms, contribution_bounds_per_row => (0, 5)) bounds each value, SUM(ms, contribution_bounds_per_group => (0, 5)) the total of a user_id in a group
SELECT SUM(ms, contribution_bounds_per_group => (0, 5), contribution_bounds_per_row => (0, 5)) FROM visits

-- R2510a an argument that is not there
-- error: SUM has no argument contribution_bounds
-- at: 0
-- hint: SUM(ms, contribution_bounds_per_row => (0, 5))
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) SUM(ms, contribution_bounds_per_row => (0, 5)) FROM visits -- that each value is bounded and 20 are guesses
SELECT SUM(ms, contribution_bounds => (0, 5)) FROM visits

-- R2511 a bound that is no useful number
-- error: a bound is at most 2^53
-- at: 0
-- hint: SUM(x, contribution_bounds_per_group => (0, 100))
SELECT SUM(ms, contribution_bounds_per_group => (0, 1e300)) FROM visits

-- R2515 keys without a domain are not chosen by a sum
-- error: groups of undeclared keys are chosen by COUNT(DISTINCT user_id), not by a SUM
-- at: s DESC
-- hint: ORDER BY COUNT(DISTINCT user_id) DESC
SELECT note, SUM(ms, contribution_bounds_per_group => (0, 10)) AS s FROM visits GROUP BY note ORDER BY s DESC LIMIT 3

-- R2516 text
-- error: SUM of VARCHAR is not a number
-- at: SUM
-- hint: SELECT SUM(TRY_CAST(city AS DOUBLE), contribution_bounds_per_row => (0, 100)) FROM users -- the same if the texts of city are numbers; others are left out; 100 is a guess
SELECT SUM(city) FROM users

-- R2517 a variance without bounds, of units with many rows
-- error: VARIANCE needs bounds on what one user_id contributes
-- at: VARIANCE
-- hint: VARIANCE(ms, contribution_bounds_per_row => (0, 100))
-- obstacles: VARIANCE needs bounds
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) VARIANCE(ms, contribution_bounds_per_row => (0, 100)) FROM visits -- 100 and 20 are guesses
SELECT VARIANCE(ms) FROM visits

-- R2518 an average of rows of units with many rows
-- error: a user_id can have many rows here: say how many may count
-- at: AVG
-- hint: OPTIONS (max_rows_contributed = 20), or rows_per_unit in the policy
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 20) AVG(ms, contribution_bounds_per_row => (0, 100)) FROM visits -- 20 is a guess
SELECT AVG(ms, contribution_bounds_per_row => (0, 100)) FROM visits

-- R2519 a standard deviation per group
-- error: STDDEV takes bounds on the values of rows
-- at: 0
-- hint: contribution_bounds_per_row => (0, 100)
SELECT STDDEV(age, contribution_bounds_per_group => (0, 100)) FROM users

-- R2520 an unknown argument
-- error: SUM takes one expression
-- at: SUM
-- hint: ROUND(SUM(ms), 3)
-- rewrite: SELECT ROUND(SUM(ms, contribution_bounds_per_group => (0, 100)), 3) FROM visits -- that 3 is a number of digits and 100 are guesses
SELECT SUM(ms, 3) FROM visits

-- R2521 the policy allows no bounds that are found privately
-- error: the owner's policy finds no bounds privately
-- at: AUTO
-- hint: SUM(x, contribution_bounds_per_group => (0, 100))
SELECT SUM(ms, contribution_bounds => AUTO) FROM visits

-- R5770 DuckDB converts no number into a day
-- error: INTEGER is not cast to DATE
-- at: ms
-- hint: make_date(ms, 1, 1)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE make_date(ms, 1, 1) > '2024-01-01' -- the first day of the year is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(ms AS DATE) > '2024-01-01'

-- R5771 DuckDB converts no day into a number
-- error: DATE is not cast to INTEGER
-- at: day
-- hint: year(day)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE year(day) > 5 -- the year is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS INTEGER) > 5

-- R5772 a list of months
-- error: this text is not a valid DATE
-- at: '2024-01'
-- hint: ((YEAR(day) = 2024 AND MONTH(day) = 1) OR
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ((YEAR(day) = 2024 AND MONTH(day) = 1) OR (YEAR(day) = 2024 AND MONTH(day) = 2))
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day IN ('2024-01', '2024-02')

-- R6050 a day whose year has two digits
-- error: this text is not a valid DATE: its year has too few digits
-- at: day
-- hint: '2024-01-02'
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day > '2024-01-02' -- 2 January 2024 is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day > '24-1-2'
