-- R800 columns that do not exist, and a missing LIMIT
-- error: there is no column pgae
-- at: pgae
-- hint: did you mean page?
-- obstacles: there is no column pgae | there is no column cuontry | ORDER BY a count needs LIMIT k
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE country = 'DE' GROUP BY page ORDER BY n DESC LIMIT 10 -- 10 is a guess
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
-- obstacles: SUM over many units | a tuple is not supported
SELECT page, SUM(ms) AS s FROM visits WHERE (ms, page) IS NULL GROUP BY page ORDER BY s DESC

-- R803 one of each clause
-- error: there is no column nonsense
-- at: nonsense
-- hint: columns here: user_id
-- obstacles: SUM over many units | two private tables are joined only | there is no column nonsense | LIKE is not allowed with | HAVING may compare one count | OFFSET is not supported
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
-- hint: WHERE a.user_id = b.user_id
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

-- R812 another dialect
-- error: syntax error: cannot read `WITH`
-- at: WITH
-- hint: WITH DIFFERENTIAL_PRIVACY
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 3) "country", COUNT(*, contribution_bounds_per_group => (0, 5)) FROM visits GROUP BY country
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 1, kappa = 3) `country`, ANON_COUNT(* CLAMPED BETWEEN 0 AND 5) FROM visits GROUP BY country

-- R813 functions of another dialect
-- error: NVL is not among the functions
-- at: NVL
-- hint: COALESCE(page, 'NVL(x)')
-- obstacles: NVL is not among | ALIAS is not supported | there is no column MONTH
-- rewrite: SELECT COALESCE(page, 'NVL(x)') AS p, COUNT(DISTINCT user_id) AS n FROM visits v WHERE TRY_CAST(note AS BIGINT) > 3 AND date_trunc('month', (v.day)) > '2024-01-01' GROUP BY p ORDER BY n DESC LIMIT 3
SELECT NVL(page, 'NVL(x)') AS p, COUNT(DISTINCT user_id) AS n FROM visits v WHERE SAFE_CAST(note AS BIGINT) > 3 AND DATE_TRUNC((v.day), MONTH) > '2024-01-01' GROUP BY p ORDER BY n DESC LIMIT 3

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
-- obstacles: there is no column nte | OFFSET is not supported
SELECT nte, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY nte ORDER BY n DESC LIMIT 3 OFFSET 2

-- R817 EXPLAIN
-- error: ORDER BY a count needs LIMIT k
-- at: n DESC
-- hint: LIMIT 10
-- rewrite: EXPLAIN (FORMAT JSON) SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 10; -- 10 is a guess
EXPLAIN (FORMAT JSON) SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC;
