-- R01 no count
-- error: the rows of a private table are counted, never shown
-- at: *
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT * FROM visits

-- R02 the unit released
-- error: the rows of a private table are counted, never shown
-- at: user_id
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT user_id, page FROM visits

-- R03 COUNT(*): one unit, many rows
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R04 COUNT of a column: the same
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(note, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT page, COUNT(note, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(note) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R05 COUNT DISTINCT of something else
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT page, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT country, COUNT(DISTINCT page, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT country, COUNT(DISTINCT page) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2

-- R06 expression of the unit
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id // 2, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT user_id // 2, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT user_id // 2) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R07 tuple with the unit
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT (user_id, page), contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT country, COUNT(DISTINCT (user_id, page), contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT country, COUNT(DISTINCT (user_id, page)) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2

-- R08 two columns
-- error: COUNT(DISTINCT ...) takes one expression
-- at: COUNT
-- hint: COUNT(DISTINCT (user_id, page), contribution_bounds_per_group => (0, 20))
SELECT country, COUNT(DISTINCT user_id, page) AS n FROM visits GROUP BY country ORDER BY n DESC LIMIT 2

-- R09 another aggregate in the select list
-- error: MAX needs bounds on the values: they are public
-- at: MAX
-- hint: MAX(ms, contribution_bounds_per_row => (0, 100))
-- rewrite: SELECT page, MAX(ms, contribution_bounds_per_row => (0, 100)), COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 100 is a guess
SELECT page, MAX(ms), COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R10 a sum that orders needs bounds
-- error: SUM needs bounds on what one user_id contributes
-- at: SUM
-- hint: SUM(ms, contribution_bounds_per_group => (0, 100))
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY SUM(ms, contribution_bounds_per_group => (0, 100)) DESC LIMIT 2 -- 100 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY SUM(ms) DESC LIMIT 2

-- R11 another aggregate in HAVING
-- error: MAX needs bounds on the values: they are public
-- at: MAX
-- hint: MAX(ms, contribution_bounds_per_row => (0, 100))
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING MAX(ms, contribution_bounds_per_row => (0, 100)) > 50 ORDER BY n DESC LIMIT 2 -- 100 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING MAX(ms) > 50 ORDER BY n DESC LIMIT 2

-- R12 CASE with an ELSE counts other values
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id ELSE ms END, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id ELSE ms END, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id ELSE ms END) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R16 CASE with two branches
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id WHEN ms < 0 THEN ms END, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id WHEN ms < 0 THEN ms END, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT CASE WHEN ms > 1 THEN user_id WHEN ms < 0 THEN ms END) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R20 CAST of the unit
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id::VARCHAR, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT user_id::VARCHAR, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT user_id::VARCHAR) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R24 COALESCE of the unit with something else
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT COALESCE(user_id, ms), contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT COALESCE(user_id, ms), contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT COALESCE(user_id, ms)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R28 SUM without bounds
-- error: SUM needs bounds on what one user_id contributes
-- at: SUM
-- hint: SUM(ms, contribution_bounds_per_group => (0, 100))
-- rewrite: SELECT page, SUM(ms, contribution_bounds_per_group => (0, 100)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 100 is a guess
SELECT page, SUM(ms) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R32 COUNT_IF of rows
-- error: a user_id can have many rows here: say how many may
-- at: COUNT_IF
-- hint: COUNT_IF(ms > 3, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT page, COUNT_IF(ms > 3, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT_IF(ms > 3) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R36 FILTER that looks at nothing
-- error: there is no column nobody
-- at: nobody
-- hint: columns here: user_id, page, country,
SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE nobody > 3) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R40 a count over a window
-- error: this is neither a group key nor a count
-- at: user_id
-- hint: select the keys of GROUP BY and counts
SELECT page, COUNT(DISTINCT user_id) OVER () AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R48 the key of another group
-- error: this is neither a group key nor a count
-- at: country
-- hint: GROUP BY page, country
-- rewrite: SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country ORDER BY n DESC LIMIT 2
SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R52 SELECT DISTINCT of values that are of one unit each
-- error: SELECT DISTINCT would release exact groups
-- at: basket_id
-- hint: SELECT COUNT(DISTINCT user_id) FROM baskets -- asks something else
SELECT DISTINCT basket_id FROM baskets

-- R56 the unit as a group key
-- error: the privacy unit cannot be a group key: it would name
-- at: user_id #3
-- hint: SELECT n, COUNT(*) AS units FROM (SELECT user_id, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY user_id) GROUP BY n ORDER BY units DESC LIMIT 2 -- asks something else: how many units have each n
SELECT user_id, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY user_id ORDER BY n DESC LIMIT 2

-- R60 the unit under another name as a key
-- error: the privacy unit cannot be a group key: it would name
-- at: who #4
-- hint: SELECT n, COUNT(*) AS units FROM (SELECT who, COUNT(DISTINCT who) AS n FROM (SELECT user_id AS who FROM visits) GROUP BY who) GROUP BY n ORDER BY units DESC LIMIT 2 -- asks something else: how many units have each n
SELECT who, COUNT(DISTINCT who) AS n FROM (SELECT user_id AS who FROM visits) GROUP BY who ORDER BY n DESC LIMIT 2

-- R64 the unit fixed by equality as a key
-- error: the privacy unit cannot be a group key: it would name
-- at: user_id #4
-- hint: SELECT n, COUNT(*) AS units FROM (SELECT user_id, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id = 5 GROUP BY user_id) GROUP BY n ORDER BY units DESC LIMIT 2 -- asks something else: how many units have each n
SELECT user_id, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id = 5 GROUP BY user_id ORDER BY n DESC LIMIT 2

-- R68 a count as a group key
-- error: a count cannot be a group key
-- at: COUNT
SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY n ORDER BY n DESC LIMIT 2

-- R72 an aggregate of nothing
-- error: COUNT(DISTINCT ...) takes one expression
-- at: COUNT
SELECT page, COUNT(DISTINCT) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R76 ordered aggregate
-- error: ORDER is not supported here over private data
-- at: user_id
SELECT page, COUNT(DISTINCT user_id ORDER BY ms) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R80 a unit that is not one after UNION ALL with public
-- error: one unit can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT 5, page FROM pages) WHERE page IN ('a', 'z') GROUP BY page ORDER BY n DESC LIMIT 1 -- 20 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT 5, page FROM pages) WHERE page IN ('a', 'z') GROUP BY page ORDER BY n DESC LIMIT 1

-- R84 constants only
-- error: the rows of a private table are counted, never shown
-- at: 1
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT 1 FROM visits

-- R88 EXPLAIN of what is refused
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: EXPLAIN SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
EXPLAIN SELECT page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R902 a sum of ones over many rows of a unit
-- error: a user_id can have many rows here: say how many may count
-- at: SUM
-- hint: SUM(CASE WHEN ms > 50 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT SUM(CASE WHEN ms > 50 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 20)) FROM visits -- 20 is a guess
SELECT SUM(CASE WHEN ms > 50 THEN 1 ELSE 0 END) FROM visits

-- R903 different values without order
-- error: different values of type INTERVAL are not counted
-- at: COUNT
SELECT COUNT(DISTINCT INTERVAL 1 DAY) FROM users

-- R6200 COUNT of a star and of something else
-- error: COUNT takes one argument
-- at: COUNT
SELECT COUNT(*, ms) FROM visits

-- R6201 a set operation of SELECTs with different numbers of columns
-- error: the SELECT before this one has another number of columns: 2, not 1
-- at: COUNT #2
-- hint: as many in each: NULL AS name stands for one it lacks
SELECT 'a' AS p, COUNT(DISTINCT user_id) FROM visits UNION ALL SELECT COUNT(DISTINCT user_id) FROM visits
