-- R25 join on another column
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.country = u.city GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R26 join of the unit with something else
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id = u.user_id GROUP BY v.page ORDER BY n DESC LIMIT 2 -- asks something else: rows of one user_id are joined
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id = u.age GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R27 join on an expression of the unit
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id + 1 = u.user_id GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R29 OR beside the unit equality
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: join on the privacy unit: ON a.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id = u.user_id OR u.age > 60 GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R30 null-safe equality
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u ON v.user_id IS NOT DISTINCT FROM u.user_id GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R31 unit equality only in WHERE, below an outer join
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v LEFT JOIN users u ON u.age > 60 WHERE v.user_id = u.user_id OR u.user_id IS NULL GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R33 cross join of private tables
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: WHERE v.user_id = u.user_id
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v, users u WHERE u.age > 60 GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R34 positional join
-- error: POSITIONAL JOIN is not supported over private data
-- at: pages
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v POSITIONAL JOIN pages p WHERE p.category = 'news' GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R35 public ANTI JOIN private
-- error: SEMI and ANTI JOIN cannot filter public rows by private ones
-- at: visits #2
-- hint: start FROM the private table
SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v, (SELECT p.page AS q FROM pages p ANTI JOIN visits w ON w.page = p.page AND w.country = 'DE') x GROUP BY v.page ORDER BY n DESC LIMIT 2

-- R401 public SEMI JOIN private
-- error: SEMI and ANTI JOIN cannot filter public rows by private ones
-- at: visits #2
-- hint: start FROM the private table
SELECT COUNT(DISTINCT user_id) FROM visits v JOIN (SELECT p.page FROM pages p SEMI JOIN visits w ON w.page = p.page) x ON x.page = v.page

-- R402 unit equality of an outer join in WHERE alone
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v FULL JOIN users u ON v.page = u.city WHERE v.user_id = u.user_id

-- R403 unit equality in WHERE, for a third table only
-- error: two private tables are joined only on their privacy unit
-- at: visits #2
-- hint: WHERE v.user_id = w.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v, visits w, users u WHERE v.user_id = u.user_id AND w.page = v.page

-- R404 equality of the unit under NOT
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON NOT (v.user_id <> u.user_id)

-- R405 inequality of the unit
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id <= u.user_id AND v.user_id >= u.user_id

-- R406 self-join without the unit
-- error: two private tables are joined only on their privacy unit
-- at: visits #2
-- hint: ON a.user_id = b.user_id
SELECT COUNT(DISTINCT a.user_id) FROM visits a JOIN visits b ON a.page = b.page

-- R407 USING another column
-- error: two private tables are joined only on their privacy unit
-- at: visits #2
-- hint: SELECT COUNT(DISTINCT a.user_id) FROM visits a JOIN visits b USING (user_id, page) -- asks something else: rows of one user_id are joined
SELECT COUNT(DISTINCT a.user_id) FROM visits a JOIN visits b USING (page)

-- R408 equality of one side with itself
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = v.user_id

-- R409 the unit computed in a subquery
-- error: two private tables are joined only on their privacy unit
-- at: user_id #2
-- hint: select the privacy unit on both sides
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT user_id + 0 AS user_id, age FROM users) u ON u.user_id = v.user_id

-- R410 MAX of the unit in a subquery
-- error: two private tables are joined only on their privacy unit
-- at: user_id #2
-- hint: join on the privacy unit: ON a.g = b.g
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN (SELECT user_id AS g, MAX(user_id) AS user_id FROM users GROUP BY user_id) u ON u.user_id = v.user_id

-- R412 ASOF join
-- error: ASOF JOIN is not supported over private data
-- at: users
SELECT COUNT(DISTINCT v.user_id) FROM visits v ASOF JOIN users u ON v.user_id = u.user_id AND v.ms >= u.age

-- R413 lateral join
-- error: this is not supported in FROM over private data
-- at: *
SELECT COUNT(DISTINCT v.user_id) FROM visits v, LATERAL (SELECT * FROM users u WHERE u.user_id = v.user_id) w

-- R414 implicit lateral
-- error: there is no column v.page
-- at: v #4
SELECT COUNT(DISTINCT v.user_id) FROM visits v, (SELECT category FROM pages p WHERE p.page = v.page) w

-- R415 two tables under one name
-- error: two tables are called visits
-- at: visits #3
-- hint: give one another alias
SELECT COUNT(DISTINCT visits.user_id) FROM visits JOIN visits USING (user_id)

-- R416 a column in several tables
-- error: column user_id is in several tables
-- at: user_id
-- hint: write v.user_id or u.user_id
-- rewrite: SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = u.user_id
SELECT COUNT(DISTINCT user_id) FROM visits v JOIN users u ON v.user_id = u.user_id

-- R417 a condition that is no BOOLEAN
-- error: a condition must be BOOLEAN, this is VARCHAR
-- at: p #3
-- hint: ON v.page = p.page
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits v JOIN pages p ON v.page = p.page
SELECT COUNT(DISTINCT user_id) FROM visits v JOIN pages p ON p.page

-- R418 text joined with a number
-- error: INTEGER and VARCHAR are compared only after a conversion
-- at: v #4
-- hint: write CAST(... AS VARCHAR) around the
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN pages p ON v.ms = p.page

-- R419 USING of text with a number
-- error: INTEGER and VARCHAR are compared only after a conversion
-- at: page #3
-- hint: write CAST(... AS VARCHAR) around the
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, ms AS page FROM visits) v JOIN pages USING (page)

-- R420 a unit column of public data
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT u.user_id) FROM (VALUES (1), (2)) AS p(user_id) LEFT JOIN visits v ON v.user_id = p.user_id JOIN users u ON p.user_id = u.user_id

-- R421 the public side's column counted as the unit
-- error: one user_id can have many different values of this in a group
-- at: COUNT
-- hint: COUNT(DISTINCT p.user_id, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT COUNT(DISTINCT p.user_id, contribution_bounds_per_group => (0, 20)) FROM (VALUES (1), (2)) AS p(user_id) JOIN visits v ON v.user_id = p.user_id -- 20 is a guess
SELECT COUNT(DISTINCT p.user_id) FROM (VALUES (1), (2)) AS p(user_id) JOIN visits v ON v.user_id = p.user_id

-- R422 USING merges the public side's column in a RIGHT JOIN
-- error: public rows that match no private row belong to no unit, and are not counted here
-- at: COUNT
-- hint: count all public rows, and with JOIN those that match, and subtract: SELECT (SELECT COUNT(*) FROM p)
SELECT COUNT(DISTINCT user_id) FROM visits RIGHT JOIN (VALUES (1), (2)) AS p(user_id) USING (user_id)

-- R423 USING merges the public side's column in a FULL JOIN
-- error: public rows that match no private row belong to no unit, and are not counted here
-- at: COUNT
-- hint: count all public rows, and with JOIN those that match, and subtract: SELECT (SELECT COUNT(*) FROM p)
SELECT COUNT(DISTINCT user_id) FROM visits FULL JOIN (VALUES (1::BIGINT), (2)) AS p(user_id) USING (user_id)

-- R424 a join without a condition
-- error: LEFT JOIN needs a condition
-- at: pages
-- hint: ON v.page = p.page
-- rewrite: SELECT COUNT(DISTINCT v.user_id) FROM visits v LEFT JOIN pages p ON v.page = p.page
SELECT COUNT(DISTINCT v.user_id) FROM visits v LEFT JOIN pages p

-- R425 table functions
-- error: table functions are not supported over private data
-- at: read_csv
-- hint: name a declared table
SELECT COUNT(DISTINCT user_id) FROM visits, read_csv('a.csv') AS r(i)

-- R426 a file
-- error: there is no table pages.parquet
-- at: 'pages.parquet'
-- hint: tables are visits, users, pages
SELECT COUNT(DISTINCT user_id) FROM visits JOIN 'pages.parquet' AS p ON p.page = visits.page

-- R427 sample of a private table
-- error: SAMPLE is not supported here
-- at: 10
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: all rows, not a sample of them
SELECT COUNT(DISTINCT user_id) FROM visits TABLESAMPLE 10%

-- R428 time travel
-- error: AT (VERSION ..) is not supported here
-- at: 1
SELECT COUNT(DISTINCT user_id) FROM visits AT (VERSION => 1)

-- R429 unknown table
-- error: there is no table visit
-- at: visit
-- hint: did you mean visits?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM visit

-- R430 another schema
-- error: there is no table other.visits
-- at: other
-- hint: did you mean visits?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM other.visits

-- R431 another catalog
-- error: there is no table memory.main.visits
-- at: memory
-- hint: did you mean visits?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM memory.main.visits

-- R432 unit equality in the ON of another join
-- error: two private tables are joined only on their privacy unit
-- at: users
-- hint: ON v.user_id = u.user_id
SELECT COUNT(DISTINCT v.user_id) FROM visits v LEFT JOIN pages p ON p.page = v.page LEFT JOIN users u ON u.city = p.page

-- R433 the nullable side's equality, negated
-- error: two private tables are joined only on their privacy unit
-- at: visits #2
-- hint: SELECT COUNT(DISTINCT v.user_id) FROM users u LEFT JOIN visits v ON u.user_id = v.user_id JOIN visits w ON v.user_id = w.user_id AND w.page = v.page -- asks something else: rows of one user_id are joined
SELECT COUNT(DISTINCT v.user_id) FROM users u LEFT JOIN visits v ON u.user_id = v.user_id JOIN visits w ON w.page = v.page

-- R930 a subquery tied by another column than the key
-- error: a subquery over private rows must be tied to the row's own privacy unit
-- at: 1
-- hint: WHERE a.user_id = b.user_id
SELECT COUNT(DISTINCT user_id) FROM baskets b WHERE EXISTS (SELECT 1 FROM goods g WHERE g.sku = b.page)

-- R4211 a series whose end is a column
-- error: range takes constants: two ends, and a step
-- at: range
-- hint: generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY)
SELECT COUNT(DISTINCT user_id) FROM visits, range(ms) AS s(i)

-- R4212 a series that is too long
-- error: a series has at most 100,000 rows
-- at: range
SELECT COUNT(DISTINCT user_id) FROM visits, range(1000000) AS s(i)

-- R8251 a series with a value of each row
-- error: generate_series takes constants: two ends, and a step
-- at: generate_series
-- hint: generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY)
SELECT COUNT(DISTINCT user_id) FROM visits v, LATERAL generate_series(1, v.ms) AS g(i)
