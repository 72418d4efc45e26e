-- R53 grouped by an expression of the unit
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT #2
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id) for units
-- rewrite: SELECT k, COUNT(*) AS n FROM (SELECT user_id // 2 AS g, COUNT(*, contribution_bounds_per_group => (0, 20)) AS k FROM visits GROUP BY g) GROUP BY k ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT k, COUNT(*) AS n FROM (SELECT user_id // 2 AS g, COUNT(*) AS k FROM visits GROUP BY g) GROUP BY k ORDER BY n DESC LIMIT 2

-- R54 grouped by the nullable side's unit
-- error: a key is the privacy unit or, by an outer join, NULL: its
-- at: v #5
-- hint: group by the unit of the other table, which every row has
SELECT k, COUNT(DISTINCT u) AS n FROM (SELECT v.user_id, MAX(u.user_id) AS u, COUNT(*) AS k FROM users u LEFT JOIN visits v ON u.user_id = v.user_id GROUP BY v.user_id) GROUP BY k ORDER BY n DESC LIMIT 2

-- R55 ROLLUP with the unit in a subquery
-- error: of ROLLUP, CUBE and GROUPING SETS each set is a release, and none is by the privacy unit
-- at: user_id #2
SELECT k, COUNT(*) AS n FROM (SELECT user_id, page, COUNT(*) AS k FROM visits GROUP BY ROLLUP (user_id, page)) GROUP BY k ORDER BY n DESC LIMIT 2

-- R501 grouped without the unit
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT #2
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or
-- rewrite: SELECT k, COUNT(*) AS n FROM (SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS k FROM visits GROUP BY page) WHERE k IN (1, 2) GROUP BY k ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT k, COUNT(*) AS n FROM (SELECT page, COUNT(*) AS k FROM visits GROUP BY page) WHERE k IN (1, 2) GROUP BY k ORDER BY n DESC LIMIT 2

-- R502 aggregated without groups
-- error: MAX of the privacy unit over many units is not released
-- at: MAX
SELECT COUNT(DISTINCT user_id) FROM (SELECT MAX(user_id) AS user_id FROM visits)

-- R503 grouped by a column named as the unit
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT #2
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM (SELECT page AS user_id, COUNT(*, contribution_bounds_per_group => (0, 20)) AS k FROM visits GROUP BY 1) -- 20 is a guess
SELECT COUNT(DISTINCT user_id) FROM (SELECT page AS user_id, COUNT(*) AS k FROM visits GROUP BY 1)

-- R504 an alias that hides the unit in GROUP BY
-- error: MAX of the privacy unit over many units is not released
-- at: MAX
SELECT COUNT(DISTINCT u) FROM (SELECT MAX(user_id) AS u, page AS user_id FROM visits GROUP BY 2)

-- R505 neither key nor aggregate
-- error: page is neither a group key nor inside an aggregate
-- at: page
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page, COUNT(*) AS k FROM visits GROUP BY user_id)

-- R506 an aggregate of an aggregate
-- error: COUNT is not allowed in this form over private data
-- at: COUNT #2
SELECT COUNT(*) FROM (SELECT user_id, MAX(COUNT(*)) AS k FROM visits GROUP BY user_id)

-- R507 an aggregate in WHERE
-- error: COUNT is not allowed in this form over private data
-- at: COUNT #2
-- hint: HAVING COUNT(*) > 3
-- rewrite: SELECT COUNT(*) FROM (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) > 3)
SELECT COUNT(*) FROM (SELECT user_id FROM visits WHERE COUNT(*) > 3 GROUP BY user_id)

-- R508 HAVING without GROUP BY
-- error: HAVING needs a GROUP BY
-- at: ms
SELECT COUNT(*) FROM (SELECT user_id FROM visits HAVING ms > 3)

-- R57 named window without the unit
-- error: a window over private rows must PARTITION BY their privacy
-- at: RANK
-- hint: ROW_NUMBER() OVER (PARTITION BY user_id
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, RANK() OVER w AS r FROM visits WINDOW w AS (PARTITION BY country ORDER BY ms)) WHERE r = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R58 window over an expression of the unit
-- error: a window over private rows must PARTITION BY their privacy
-- at: COUNT #2
-- hint: SELECT user_id % 2, COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits GROUP BY user_id % 2 -- asks something else: one row for each user_id % 2; 20 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, COUNT(*) OVER (PARTITION BY user_id % 2) AS c FROM visits) WHERE c < 6 GROUP BY page ORDER BY n DESC LIMIT 2

-- R59 window over one side's unit after FULL JOIN
-- error: a window over private rows must PARTITION BY their privacy
-- at: COUNT #2
-- hint: ROW_NUMBER() OVER (PARTITION BY user_id
-- obstacles: one unit can have many different values | a window over private rows
SELECT c, COUNT(DISTINCT u) AS n FROM (SELECT COALESCE(v.user_id, u.user_id) AS u, COUNT(*) OVER (PARTITION BY v.user_id) AS c FROM visits v FULL JOIN users u ON u.user_id = v.user_id) GROUP BY c ORDER BY n DESC LIMIT 2

-- R61 DISTINCT ON another column
-- error: DISTINCT ON over private rows must name their privacy unit
-- at: country
-- hint: DISTINCT ON (user_id)
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT ON (country) user_id, page FROM visits ORDER BY country, ms, user_id, page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R509 DISTINCT ON an alias that is not the unit
-- error: DISTINCT ON without ORDER BY may keep any row
-- at: user_id
-- hint: ORDER BY user_id, day
SELECT COUNT(DISTINCT u) FROM (SELECT DISTINCT ON (user_id) user_id AS u, country AS user_id FROM visits)

-- R62 DISTINCT without the unit
-- error: DISTINCT over private rows must select their privacy unit
-- at: page #2
-- hint: SELECT DISTINCT user_id, page
SELECT page, COUNT(*) AS n FROM (SELECT DISTINCT page, country FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R510 DISTINCT of the nullable side's unit
-- error: DISTINCT over private rows must select their privacy unit
-- at: v
-- hint: SELECT DISTINCT user_id, page
SELECT COUNT(DISTINCT user_id) FROM (SELECT DISTINCT v.user_id, u.city FROM users u LEFT JOIN visits v ON u.user_id = v.user_id)

-- R63 order-dependent aggregate without an order
-- error: the result of first depends on the order of rows
-- at: FIRST
-- hint: FIRST(page ORDER BY day)
SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page) AS f FROM visits GROUP BY user_id) GROUP BY f ORDER BY n DESC LIMIT 2

-- R511 LIST
-- error: the result of list depends on the order of rows
-- at: LIST
-- hint: LIST(page ORDER BY day)
SELECT COUNT(*) FROM (SELECT user_id, LIST(page) AS f FROM visits GROUP BY user_id)

-- R512 STRING_AGG
-- error: the result of string_agg depends on the order of rows
-- at: STRING_AGG
-- hint: use MIN, MAX, COUNT or SUM
SELECT COUNT(*) FROM (SELECT user_id, STRING_AGG(page, ',') AS f FROM visits GROUP BY user_id)

-- R513 MODE
-- error: the result of mode depends on the order of rows
-- at: MODE
-- hint: GROUP BY user_id, page QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, page) = 1
SELECT COUNT(*) FROM (SELECT user_id, MODE(page) AS f FROM visits GROUP BY user_id)

-- R515 SUM of text
-- error: sum does not take VARCHAR
-- at: SUM
SELECT COUNT(*) FROM (SELECT user_id, SUM(note) AS f FROM visits GROUP BY user_id)

-- R65 floating-point running sum (segment tree crosses units)
-- error: a floating-point sum in a window depends on other units'
-- at: SUM
-- hint: CAST it to BIGINT or DECIMAL
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms / 7) OVER (PARTITION BY user_id ORDER BY day) AS s FROM visits) WHERE s > 10.3 GROUP BY page ORDER BY n DESC LIMIT 2

-- R66 sampling aggregate
-- error: the result of reservoir_quantile depends on the order of
-- at: reservoir_quantile
-- hint: use MIN, MAX, COUNT or SUM
SELECT f, COUNT(*) AS n FROM (SELECT user_id, reservoir_quantile(ms, 0.5) AS f FROM visits GROUP BY user_id) GROUP BY f ORDER BY n DESC LIMIT 2

-- R67 public DISTINCT ON without a total order
-- error: DISTINCT ON without ORDER BY may keep any row
-- at: category #2
-- hint: ORDER BY user_id, day
SELECT p.category, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT DISTINCT ON (category) category, page FROM pages) p ON p.page = v.page GROUP BY p.category ORDER BY n DESC LIMIT 2

-- R516 public ANY_VALUE of unordered rows joined
-- error: the result of first depends on the order of rows
-- at: FIRST
-- hint: FIRST(page ORDER BY day)
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT category, FIRST(page) AS page FROM pages GROUP BY category) p ON p.page = v.page

-- R517 public LIMIT
-- error: LIMIT without ORDER BY may keep any rows
-- at: 2
-- hint: ORDER BY ... LIMIT
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages LIMIT 2) p ON p.page = v.page

-- R518 public sample
-- error: SAMPLE is not supported here
-- at: 2
-- hint: SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages) p ON p.page = v.page -- asks something else: all rows, not a sample of them
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages USING SAMPLE 2) p ON p.page = v.page

-- R519 public random
-- error: random is not allowed over private data: its result changes
-- at: random
-- hint: SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages) p ON p.page = v.page -- asks something else: all rows, not some of them
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT page FROM pages WHERE random() < 0.5) p ON p.page = v.page

-- R69 LIMIT over private rows
-- error: LIMIT over private rows lets one unit push out another
-- at: 5
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2 -- asks something else: all rows, not some of them
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * FROM visits ORDER BY ms, user_id, page LIMIT 5) GROUP BY page ORDER BY n DESC LIMIT 2

-- R70 UNION ALL with the columns the other way round
-- error: one unit can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) FROM (SELECT user_id, ms FROM visits UNION ALL SELECT ms, user_id FROM visits) -- 20 is a guess
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits UNION ALL SELECT ms, user_id FROM visits)

-- R71 EXCEPT with the columns the other way round
-- error: both branches of EXCEPT must select the privacy unit at the
-- at: user_id #2
-- hint: SELECT user_id, page FROM .. EXCEPT
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits EXCEPT SELECT ms, user_id FROM visits)

-- R73 public EXCEPT private
-- error: EXCEPT of public and private rows has no owner
-- at: u #2
SELECT COUNT(DISTINCT u) FROM (SELECT u FROM (VALUES (1),(2),(3),(4)) t(u) EXCEPT SELECT user_id FROM visits)

-- R520 UNION ALL BY NAME
-- error: BY NAME is not supported here
-- at: user_id #2
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits UNION ALL BY NAME SELECT age AS ms, user_id FROM users)

-- R521 UNION ALL of different widths
-- error: the branches of UNION ALL have different numbers of columns
-- at: user_id #2
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits UNION ALL SELECT user_id FROM users)

-- R522 UNION ALL of different types
-- error: INTEGER and VARCHAR are compared only after a conversion
-- at: user_id #3
-- hint: write CAST(... AS VARCHAR) around the
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms FROM visits UNION ALL SELECT user_id, city FROM users)

-- R523 UNION ALL makes rows many
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM (SELECT DISTINCT user_id, page FROM visits UNION ALL SELECT DISTINCT user_id, page FROM visits) GROUP BY page ORDER BY n DESC LIMIT 1 -- 20 is a guess
SELECT page, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits UNION ALL SELECT DISTINCT user_id, page FROM visits) GROUP BY page ORDER BY n DESC LIMIT 1

-- R74 unit hidden by CTE column names
-- error: one unit can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: WITH v(user_id, page) AS (SELECT ms, page FROM visits) SELECT page, COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) AS n FROM v GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
WITH v(user_id, page) AS (SELECT ms, page FROM visits) SELECT page, COUNT(DISTINCT user_id) AS n FROM v GROUP BY page ORDER BY n DESC LIMIT 2

-- R75 unit hidden by table alias columns
-- error: one ms can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) AS n FROM visits AS v(ms, page, country, user_id, note, day) GROUP BY page ORDER BY n DESC LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits AS v(ms, page, country, user_id, note, day) GROUP BY page ORDER BY n DESC LIMIT 2

-- R77 unit hidden by RENAME
-- error: RENAME is not supported here
-- at: *
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT * RENAME (ms AS user_id, user_id AS ms) FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R524 unit hidden by REPLACE
-- error: REPLACE is not supported here
-- at: *
SELECT COUNT(DISTINCT user_id) FROM (SELECT * REPLACE (ms AS user_id) FROM visits)

-- R525 unit hidden by an alias
-- error: one ms can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 20)) FROM (SELECT ms AS user_id, user_id AS ms FROM visits) -- 20 is a guess
SELECT COUNT(DISTINCT user_id) FROM (SELECT ms AS user_id, user_id AS ms FROM visits)

-- R78 a table alias is not the unit
-- error: there is no column user_id
-- at: user_id
-- hint: columns here: page
SELECT COUNT(DISTINCT user_id) FROM (SELECT page FROM visits) AS user_id

-- R79 COUNT(*) after a join that multiplies rows
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT p.category, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM (SELECT DISTINCT user_id, page FROM visits) v JOIN pages p USING (page) GROUP BY p.category ORDER BY n DESC LIMIT 1 -- 20 is a guess
SELECT p.category, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits) v JOIN pages p USING (page) GROUP BY p.category ORDER BY n DESC LIMIT 1

-- R81 COUNT(*) of unique (unit, page) grouped by an expression of page
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT page > 'a' AS k, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM (SELECT DISTINCT user_id, page FROM visits) GROUP BY k ORDER BY n DESC LIMIT 1 -- 20 is a guess
SELECT page > 'a' AS k, COUNT(*) AS n FROM (SELECT DISTINCT user_id, page FROM visits) GROUP BY k ORDER BY n DESC LIMIT 1

-- R527 COUNT(*) of unique (unit, page) without the key
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM (SELECT DISTINCT user_id, page FROM visits) -- 20 is a guess
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits)

-- R528 COUNT(*) of unique rows fixed by an inequality
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page >= 'a' -- 20 is a guess
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page >= 'a'

-- R529 COUNT(*) of unique rows fixed under OR
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page = 'a' OR page = 'b' -- 20 is a guess
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, page FROM visits) WHERE page = 'a' OR page = 'b'

-- R530 COUNT(*) of a table whose unit is unique, joined with another
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM users u JOIN visits v ON u.user_id = v.user_id -- 20 is a guess
SELECT COUNT(*) FROM users u JOIN visits v ON u.user_id = v.user_id

-- R531 COUNT(*) joined with public on a column that is not unique
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM users u JOIN pages p ON p.category = u.city -- 20 is a guess
SELECT COUNT(*) FROM users u JOIN pages p ON p.category = u.city

-- R532 COUNT(*) of public LEFT JOIN private
-- error: public rows that match no private row belong to no unit, and are not counted here
-- at: COUNT
-- hint: SELECT (SELECT COUNT(*) FROM pages AS p) + (SELECT COUNT(*) - COUNT(DISTINCT p.page) FROM pages AS p JOIN users AS u ON u.city = p.page) AS n
-- rewrite: SELECT (SELECT COUNT(*) FROM pages AS p) + (SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) - COUNT(DISTINCT p.page, contribution_bounds_per_group => (0, 20)) FROM pages AS p JOIN users AS u ON u.city = p.page) AS n -- 20 is a guess
SELECT COUNT(*) FROM pages p LEFT JOIN users u ON u.city = p.page

-- R82 recursive CTE
-- error: RECURSIVE is not supported here
-- at: r
WITH RECURSIVE r AS (SELECT user_id, ms FROM visits UNION ALL SELECT user_id, ms - 1 FROM r WHERE ms > 0) SELECT COUNT(DISTINCT user_id) FROM r

-- R83 pivot
-- error: PIVOT is not supported over private data
-- at: visits
SELECT COUNT(*) FROM (PIVOT visits ON country USING COUNT(*) GROUP BY page)

-- R533 a CTE that names itself
-- error: there is no table r
-- at: r #3
-- hint: tables are visits, users, pages
WITH r AS (SELECT user_id FROM r) SELECT COUNT(DISTINCT user_id) FROM r, visits

-- R534 a private table under a public name, read
-- error: the rows of a private table are counted, never shown
-- at: *
-- hint: WITH pages AS (SELECT note AS page, user_id AS category FROM visits) SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM pages -- asks something else: how many rows it has; 20 is a guess
WITH pages AS (SELECT note AS page, user_id AS category FROM visits) SELECT * FROM pages

-- R535 FOR UPDATE
-- error: FOR UPDATE is not supported here
-- at: COUNT
-- hint: leave it out
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM visits FOR UPDATE

-- R536 CONNECT BY
-- error: CONNECT BY is not supported here
-- at: ms
SELECT COUNT(DISTINCT user_id) FROM visits START WITH ms = 1 CONNECT BY PRIOR ms = user_id

-- R537 SELECT INTO
-- error: INTO is not supported here
-- at: t
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: the answer is shown, not kept
SELECT COUNT(DISTINCT user_id) INTO t FROM visits

-- R538 a subquery in the select list
-- error: MAX of VARCHAR over many units is not released
-- at: MAX
SELECT COUNT(DISTINCT user_id), (SELECT MAX(note) FROM visits) FROM visits

-- R540 a subquery in HAVING
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT #2
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > (SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits) LIMIT 2 -- 20 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > (SELECT COUNT(*) FROM visits) LIMIT 2

-- R541 a subquery as a key
-- error: a release cannot choose private rows: what is counted would
-- at: SELECT
-- hint: write $value AS k, and give it what this returns as a
SELECT (SELECT MAX(page) FROM visits) AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 1

-- R542 a CTE nobody uses is still checked for writing
-- error: a common table expression holds a SELECT: dpsql only reads
-- at: x
WITH x AS (DELETE FROM visits RETURNING *) SELECT COUNT(DISTINCT user_id) FROM visits

-- R37 unmatched rows of an outer join decide about others
-- error: a subquery over private rows must be tied to the row's own
-- at: 1
-- hint: WHERE a.user_id = b.user_id
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM pages p LEFT JOIN visits v ON v.page = p.page WHERE v.user_id IS NULL) GROUP BY city ORDER BY n DESC LIMIT 2

-- R41 IN: an aggregate of units
-- error: MAX of the privacy unit over many units is not released
-- at: MAX
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT MAX(user_id) FROM visits GROUP BY page) GROUP BY page ORDER BY n DESC LIMIT 2

-- R42 IN with LIMIT
-- error: LIMIT over private rows lets one unit push out another
-- at: 3
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2 -- asks something else: all rows, not some of them
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id IN (SELECT user_id FROM visits ORDER BY ms DESC, user_id LIMIT 3) GROUP BY page ORDER BY n DESC LIMIT 2

-- R43 quantified comparison that is not equality
-- error: a subquery over private rows must be tied to the row's own privacy unit
-- at: user_id #2
-- hint: WHERE a.user_id = b.user_id
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE user_id >= ALL (SELECT user_id FROM users) GROUP BY page ORDER BY n DESC LIMIT 2

-- R4324 EXISTS of an aggregate
-- error: an aggregate has a row in any case, so EXISTS of it is always true
-- at: COUNT #2
-- hint: EXISTS (SELECT 1 FROM ..)
SELECT COUNT(DISTINCT user_id) AS n FROM visits v WHERE EXISTS (SELECT COUNT(*) FROM users u WHERE u.user_id = v.user_id)

-- R45 EXISTS correlated by another column
-- error: a subquery over private rows must be tied to the row's own
-- at: 1
-- hint: WHERE a.user_id = b.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.page = v.page AND w.user_id <> v.user_id) GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R46 correlation under OR
-- error: a subquery over private rows must be tied to the row's own
-- at: 1
-- hint: WHERE a.user_id = b.user_id
SELECT city, COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id OR v.ms > 100) GROUP BY city ORDER BY n DESC LIMIT 2

-- R47 correlation in the ON of an outer join does not filter
-- error: there is no column o.user_id
-- at: o #3
SELECT city, COUNT(DISTINCT o.user_id) AS n FROM users o WHERE EXISTS (SELECT 1 FROM visits w LEFT JOIN users u ON w.user_id = o.user_id AND u.user_id = o.user_id) GROUP BY city ORDER BY n DESC LIMIT 2

-- R50 scalar subquery correlated by another column
-- error: a subquery over private rows must be tied to the row's own
-- at: COUNT #2
-- hint: rows are compared with one number of all rows
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.page = v.page) > 3 GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R51 scalar subquery that may return two rows (raises), even over public
-- error: a subquery used as a value selects one aggregate: any other
-- at: category
-- hint: SELECT MAX(..) or MIN(..)
SELECT v.country, COUNT(DISTINCT v.user_id) AS n FROM visits v WHERE (SELECT category FROM pages p WHERE p.page <> v.page) = 'news' GROUP BY v.country ORDER BY n DESC LIMIT 2

-- R526 two columns called like the unit
-- error: column user_id occurs twice
-- at: user_id
-- hint: give one of them another name
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms AS user_id FROM visits)

-- R551 an uncorrelated subquery among calculations of counts
-- error: MAX of VARCHAR over many units is not released
-- at: MAX
SELECT page, COUNT(DISTINCT user_id) AS n, (SELECT MAX(note) FROM visits) || 'x' AS h FROM visits GROUP BY page TOP 2

-- R552 a window beside the unit but by another column
-- error: a window over private rows must PARTITION BY their privacy
-- at: RANK
-- hint: ROW_NUMBER() OVER (PARTITION BY user_id
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, RANK() OVER (PARTITION BY page ORDER BY COUNT(*) DESC) AS r, page FROM visits GROUP BY user_id, page) WHERE r = 1

-- R553 a window in HAVING
-- error: a window function is allowed in QUALIFY, not in HAVING
-- at: RANK
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits GROUP BY user_id, page HAVING RANK() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC) = 1)

-- R554 a window in WHERE
-- error: a window function is allowed only in the select list or QUALIFY of a
-- at: RANK
-- hint: FROM (SELECT * FROM visits QUALIFY RANK() OVER (PARTITION BY user_id ORDER BY ms) = 1) AS visits
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM (SELECT * FROM visits QUALIFY RANK() OVER (PARTITION BY user_id ORDER BY ms) = 1) AS visits
SELECT COUNT(DISTINCT user_id) FROM visits WHERE RANK() OVER (PARTITION BY user_id ORDER BY ms) = 1

-- R555 a row further out
-- error: a subquery over private rows must be tied to the row's own
-- at: 1 #2
-- hint: WHERE a.user_id = b.user_id
SELECT COUNT(DISTINCT user_id) FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id AND EXISTS (SELECT 1 FROM visits z WHERE z.user_id = u.user_id AND z.ms > v.ms))

-- R556 a unit that equals itself
-- error: a subquery over private rows must be tied to the row's own
-- at: 1
-- hint: WHERE a.user_id = b.user_id
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE EXISTS (SELECT 1 FROM users WHERE user_id = user_id)

-- R557 private rows within public ones
-- error: a query over public rows cannot have a subquery over private rows
-- at: 1
SELECT COUNT(DISTINCT user_id) FROM visits WHERE page IN (SELECT page FROM pages p WHERE EXISTS (SELECT 1 FROM visits w WHERE w.page = p.page))

-- R558 NTILE of nothing
-- error: NTILE takes a positive whole number
-- at: NTILE
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, NTILE(0) OVER (PARTITION BY user_id ORDER BY day) AS t FROM visits) WHERE t = 1

-- R559 a window over private rows without any partition
-- error: a window over private rows must PARTITION BY their privacy
-- at: ROW_NUMBER
-- hint: ROW_NUMBER() OVER (PARTITION BY user_id
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ROW_NUMBER() OVER () AS r FROM visits) WHERE r < 5

-- R560 DISTINCT ON without the unit in a CTE
-- error: DISTINCT ON over private rows must name their privacy unit
-- at: page
-- hint: DISTINCT ON (user_id)
WITH v AS (SELECT DISTINCT ON (page) user_id, page FROM visits ORDER BY page, day) SELECT COUNT(DISTINCT user_id) FROM v

-- R561 a list without an order
-- error: the result of list depends on the order of rows
-- at: LIST
-- hint: LIST(page ORDER BY day)
SELECT COUNT(*) FROM (SELECT user_id, LIST(DISTINCT page) AS l FROM visits GROUP BY user_id)

-- R562 UNION of public and private
-- error: UNION of private and public rows has no owner
-- at: user_id #2
-- hint: UNION ALL
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page FROM visits UNION SELECT 1, page FROM pages)

-- R563 LIMIT of a private CTE
-- error: LIMIT over private rows lets one unit push out another
-- at: 3
-- hint: WITH v AS (SELECT user_id FROM visits) SELECT COUNT(DISTINCT user_id) FROM v -- asks something else: all rows, not some of them
WITH v AS (SELECT user_id FROM visits ORDER BY user_id LIMIT 3) SELECT COUNT(DISTINCT user_id) FROM v

-- R2601 a number of a release as a key
-- error: a release cannot choose private rows: what is counted would
-- at: COUNT #2
-- hint: write $value > ms, and give it what this returns as a
SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY (SELECT COUNT(*) FROM users) > ms

-- R2604 several rows of a release
-- error: a release cannot choose private rows: what is counted would
-- at: m #2
-- hint: write ms > $value, and give it what this returns as
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT m FROM (SELECT page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page))

-- R2605 a release by an outer join
-- error: released and private rows do not meet
-- at: visits
-- hint: count visits in a release of its own
SELECT COUNT(DISTINCT user_id) AS n FROM visits v LEFT JOIN (SELECT COUNT(*) AS m FROM users) a ON v.ms > a.m

-- R2606 private values that decide about other rows
-- error: DISTINCT over private rows must select their privacy unit
-- at: country
-- hint: FROM dp_domain(visits.country)
SELECT COUNT(DISTINCT u.user_id) AS n FROM (SELECT DISTINCT country FROM visits) c JOIN users u ON u.city < c.country

-- R2590 a subquery with a window in the definition of another one
-- error: the definition of a window has a subquery with a window in it
-- at: 1
-- hint: give the subquery a name first: OVER (.. x ..) FROM (SELECT *, (SELECT ..) AS x FROM ..)
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT v.user_id, v.page, ROW_NUMBER() OVER (PARTITION BY v.user_id, CASE WHEN EXISTS (SELECT 1 FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r FROM visits) x WHERE x.user_id = v.user_id AND x.r > 1) THEN 1 ELSE 0 END ORDER BY v.ms) AS c FROM visits v) WHERE c = 1 GROUP BY page ORDER BY n DESC LIMIT 2

-- R4321 a list of whole rows
-- error: IN takes a subquery of one column
-- at: page #2
-- hint: IN (SELECT page ..)
-- rewrite: SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page FROM pages)
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page, category FROM pages)

-- R4322 rows of a release that may be many, where one value stands
-- error: a release cannot choose private rows: what is counted would
-- at: page #2
-- hint: write page = $value, and give it what this returns as
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page = (SELECT page FROM (SELECT page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page) WHERE m > 2)

-- R4323 a released list in a key
-- error: a release cannot choose private rows: what is counted would
-- at: page #2
-- hint: write page IN ($value), and give it what this returns as
SELECT COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page IN (SELECT page FROM (SELECT page, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page) WHERE m > 2)

-- R4231 a value of several rows of a public table
-- error: a subquery used as a value has one row, and this has several
-- at: page #2
-- hint: IN (SELECT ..)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE page IN (SELECT page FROM pages)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = (SELECT page FROM pages)

-- R5601 a rank of users by a number of theirs
-- error: a window over private rows must PARTITION BY their privacy unit
-- at: ROW_NUMBER
-- hint: PERCENTILE_DISC(x, 0.25) over these groups as a subquery: what a quarter are below
SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY user_id) WHERE r < 0.25 * (SELECT COUNT(*) FROM users)

-- R5851 a column of released groups beside private rows, other than their key
-- error: released and private rows do not meet
-- at: visits #2
-- hint: count visits in a release of its own, and join the two
WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT v.country, SUM(t.n) AS m FROM visits v JOIN t ON v.page = t.page GROUP BY v.country

-- R5852 released groups with several rows of one value
-- error: released and private rows do not meet
-- at: visits #2
-- hint: count visits in a release of its own, and join the two
WITH t AS (SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country) SELECT COUNT(DISTINCT v.user_id) AS m FROM visits v JOIN t ON v.page = t.page

-- R5900 NOT IN of rows: with a NULL in the query, SQL leaves out every row
-- error: NOT IN of rows
-- at: user_id #2
-- hint: NOT EXISTS
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (user_id, day) NOT IN (SELECT user_id, MIN(day) FROM visits GROUP BY user_id)

-- R5901 rows chosen by other units' rows
-- error: a subquery over private rows must be tied to the row's own privacy unit
-- at: page
-- hint: WHERE a.user_id = b.user_id
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, day) IN (SELECT page, day FROM visits WHERE ms > 5)

-- R6401 a text of released rows as a condition could fail after the charge
-- error: a condition must be BOOLEAN, country is VARCHAR
-- at: country
-- hint: country = '..'
SELECT page AND country FROM (SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country)

-- R6402 a declared value that is no valid INTEGER would fail after the charge
-- error: a text of country may not be a valid INTEGER
-- at: CAST
-- hint: TRY_CAST
-- rewrite: SELECT TRY_CAST(country AS INTEGER), n FROM (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country)
SELECT CAST(country AS INTEGER), n FROM (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country)

-- R6403 a text of released rows is compared with a day
-- error: a text of country may not be a valid DATE
-- at: country #3
-- hint: TRY_CAST(country AS DATE)
-- rewrite: SELECT n FROM (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country) WHERE TRY_CAST(country AS DATE) = DATE '2024-01-01'
SELECT n FROM (SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country) WHERE country = DATE '2024-01-01'

-- R8250 a subquery is tied to each public row by more than equalities
-- error: this would be a release for each row of the block around it
-- at: COUNT
-- hint: LEFT JOIN
-- rewrite: SELECT p.page, COALESCE(r.n, 0) AS n FROM pages p LEFT JOIN (SELECT v.page AS k, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN pages p USING (page) WHERE v.note <> p.category GROUP BY v.page) AS r ON r.k = p.page
SELECT p.page, (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE v.page = p.page AND v.note <> p.category) AS n FROM pages p

-- R8252 a value of all rows is compared with those of all units
-- error: comparisons with ALL or ANY of a subquery are not supported
-- at: ms #2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms >= ALL (SELECT ms FROM visits)

-- R8400 a subquery in the place of a value with several groups
-- error: a subquery in the place of a value has one row, and this one has 6 groups
-- at: page
SELECT COUNT(DISTINCT user_id) / (SELECT COUNT(DISTINCT user_id) FROM visits GROUP BY page) AS part FROM users
