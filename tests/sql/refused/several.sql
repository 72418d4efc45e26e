-- R800 columns that do not exist, and a missing LIMIT
-- error: there is no column pgae
-- at: pgae
-- hint: did you mean page?
-- obstacles: there is no column pgae | there is no column cuontry
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'DE' GROUP BY page ORDER BY n DESC
SELECT pgae, COUNT(DISTINCT user_id) AS n FROM visits WHERE cuontry = 'DE' GROUP BY pgae ORDER BY n DESC

-- R801 tables come first, and alone
-- error: there is no table vists
-- at: vists
-- hint: did you mean visits?
-- obstacles: there is no table vists | there is no table usres
-- rewrite: SELECT v.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN users u USING (user_id) GROUP BY v.page ORDER BY n DESC LIMIT 3
SELECT v.pgae, COUNT(DISTINCT v.user_id) AS n FROM vists v JOIN usres u USING (user_id) GROUP BY v.pgae ORDER BY n DESC LIMIT 3

-- R802 nothing is said about what a refused part may mean
-- error: a tuple is not supported
-- at: ms #2
-- obstacles: SUM needs bounds on what one user_id contributes | a tuple is not supported
SELECT page, SUM(ms) AS s FROM visits WHERE (ms, page) IS NULL GROUP BY page ORDER BY s DESC

-- R803 one of each clause
-- error: SUM needs bounds on what one user_id contributes
-- at: SUM
-- hint: SUM(ms, contribution_bounds_per_group => (0, 100))
-- obstacles: SUM needs bounds | two private tables are joined | there is no column | LIKE is not allowed with
SELECT page, COUNT(DISTINCT v.user_id) AS n, SUM(ms) AS s FROM visits v JOIN users u ON v.page = u.city
WHERE nonsense = 3 AND v.ms LIKE 'a' GROUP BY page HAVING n < 3 ORDER BY s DESC LIMIT 10 OFFSET 3

-- R804 the operands beside a refused one, of CASE as well
-- error: there is no column nonsense
-- at: nonsense
-- hint: columns here: user_id
-- obstacles: there is no column nonsense | lower is not allowed with | upper is not allowed with | there is no column bad
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CASE WHEN nonsense = 1 THEN lower(ms) ELSE upper(ms) END = 'a' OR page LIKE bad

-- R805 an unknown column of a condition says nothing about the join
-- error: there is no column u.agee
-- at: u.agee
-- hint: did you mean age?
-- obstacles: there is no column u.agee | there is no column noot
-- rewrite: SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = u.user_id AND u.age > 3 WHERE note = 'x'
SELECT COUNT(DISTINCT v.user_id) FROM visits v JOIN users u ON v.user_id = u.user_id AND u.agee > 3 WHERE noot = 'x'

-- R806 a subquery's obstacles, and the other parts of the block around it
-- error: upperr is not among the functions
-- at: upperr
-- hint: did you mean upper?
-- obstacles: upperr is not among | there is no column nothing | + is not allowed with | there is no column e
SELECT c, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, upperr(country) AS c, nothing AS d FROM visits WHERE ms = 'a' + 1)
WHERE d > 3 AND e = 2 GROUP BY c ORDER BY n DESC LIMIT 2

-- R807 subqueries in a condition
-- error: a subquery over private rows must be tied
-- at: 1
-- hint: u.user_id = visits.user_id AND u.city = 'X') -- asks something else: rows of one user_id
-- obstacles: there is no column agge | a subquery over private rows must be tied | there is no column u.cty
SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id IN (SELECT user_id FROM users WHERE agge > 30)
AND EXISTS (SELECT 1 FROM users u WHERE u.cty = 'X')

-- R808 all groups of keys without a domain
-- error: the values of note are not declared
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16)
-- obstacles: a user_id can have many rows here | the values of note
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits GROUP BY note -- 20 and 16 are guesses
SELECT note, COUNT(*) FROM visits GROUP BY note

-- R811 a bound for more groups than a unit should touch
-- error: Laplace noise on all groups needs a bound
-- at: mechanism
-- hint: OPTIONS (max_groups_contributed = 3)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE) day, COUNT(DISTINCT user_id) FROM visits GROUP BY day

-- R815 a hint that was typed
-- error: a user_id can have many rows here: say how many may
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20))
-- rewrite: SELECT page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 3 -- 20 is a guess
SELECT page, COUNT(*) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 3

-- R816 an offer that would ask for another column is not made
-- error: there is no column nte
-- at: nte
-- hint: did you mean note?
-- rewrite: SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 3 OFFSET 2
SELECT nte, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY nte ORDER BY n DESC LIMIT 3 OFFSET 2

-- R818 a wrong option, and what is wrong besides
-- error: there is no option epsilom
-- at: epsilom
-- hint: did you mean epsilon?
-- obstacles: there is no option epsilom | there is no column pgae | a user_id can have many rows here
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY page -- 20 is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilom = 1) pgae, COUNT(*) AS n FROM visits GROUP BY pgae

-- R819 an option that has no right value at once
-- error: option epsilon is given twice
-- at: epsilon #2
-- obstacles: option epsilon is given twice | there is no table vists
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, epsilon = 1) COUNT(DISTINCT user_id) FROM vists

-- R820 a spine of days from private rows
-- error: released and private rows do not meet
-- at: day #2
-- hint: FROM dp_domain(visits.day)
SELECT d.day, n FROM (SELECT DISTINCT day FROM visits) d LEFT JOIN (SELECT day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day) r ON r.day = d.day

-- R2101 a release by a key that is the unit in one branch of UNION ALL alone
-- error: a key is the privacy unit in one branch of UNION alone
-- at: k #4
-- hint: select the unit in all branches, or in none, at the place of the key
SELECT k, n FROM (SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ms AS k FROM visits UNION ALL SELECT user_id, user_id FROM users) GROUP BY k ORDER BY n DESC LIMIT 2) WHERE n > 1

-- R2102 groups by such a key
-- error: a key is the privacy unit in one branch of UNION alone
-- at: k #3
-- hint: select the unit in all branches, or in none, at the place of the key
SELECT k, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, user_id AS k FROM users UNION ALL SELECT user_id, ms FROM visits) GROUP BY k ORDER BY n DESC LIMIT 2

-- R2103 a private join on such a column
-- error: two private tables are joined only on their privacy unit
-- at: users #2
-- hint: join on the privacy unit: ON a.user_id = b.user_id
SELECT COUNT(DISTINCT v.user_id) FROM (SELECT user_id, user_id AS k FROM users UNION ALL SELECT user_id, ms FROM visits) v JOIN users u ON u.user_id = v.k
