-- R13 a sparse vector without LIMIT
-- error: ADAPTIVE_SPARSE_VECTOR needs LIMIT k: its noise depends on how many
-- at: n >= 10
-- hint: add LIMIT 10
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = ADAPTIVE_SPARSE_VECTOR) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 10 LIMIT 10 -- 10 is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = ADAPTIVE_SPARSE_VECTOR) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 10

-- R14 above threshold on an unknown domain
-- error: the values of note are not declared, and a threshold
-- at: note #2
-- hint: SELECT * FROM (SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note) WHERE n >= 10 LIMIT 2
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) * FROM (SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note) WHERE n >= 10 LIMIT 2 -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note HAVING n >= 10 LIMIT 2

-- R15 ascending on an unknown domain
-- error: the values of note are not declared, and this needs
-- at: note #2
-- hint: ORDER BY n ASC LIMIT 2 -- asks something else: the first of the groups that are shown
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n ASC LIMIT 2

-- R17 LIMIT percent
-- error: LIMIT as a percentage depends on how many groups there are
-- at: 5
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 5 -- asks something else: 5 groups
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 5%

-- R18 LIMIT subquery
-- error: LIMIT needs a positive whole number
-- at: COUNT #2
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT (SELECT COUNT(*) FROM visits)

-- R21 sample at the end
-- error: SAMPLE is not supported here
-- at: 2
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page -- asks something else: all rows, not a sample of them
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page USING SAMPLE 2

-- R301 WITH TIES
-- error: WITH TIES depends on exact counts
-- at: 2
-- hint: FETCH FIRST 2 ROWS ONLY -- asks something else: 2 groups
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC FETCH FIRST 2 ROWS WITH TIES

-- R302 LIMIT 0
-- error: LIMIT needs a positive whole number of at most 1,000,000,000
-- at: 0
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 0

-- R303 LIMIT of a fraction
-- error: LIMIT needs a positive whole number
-- at: 2
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2.5

-- R304 LIMIT of an expression
-- error: LIMIT needs a positive whole number
-- at: 1
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1 + 1

-- R305 LIMIT of a column
-- error: LIMIT needs a positive whole number
-- at: n #3
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT n

-- R315 a threshold from the data
-- error: MIN needs bounds on the values: they are public
-- at: MIN
-- hint: MIN(ms, contribution_bounds_per_row => (0, 100))
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= MIN(ms, contribution_bounds_per_row => (0, 100)) LIMIT 2 -- 100 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= MIN(ms) LIMIT 2

-- R319 TOP twice
-- error: the selection is given twice
-- at: TOP #2
SELECT TOP 2 page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3

-- R320 TOP and LIMIT
-- error: TOP k and LIMIT say the same: write one
-- at: 2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3 LIMIT 2

-- R321 TOP k BY and ORDER BY
-- error: TOP k already orders: leave ORDER BY out
-- at: page #3
-- hint: TOP 10 BY n
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3 BY n ORDER BY page

-- R322 TOP 0
-- error: TOP needs a positive whole number
-- at: TOP
-- hint: for example TOP 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 0

-- R323 TOP of a fraction
-- error: TOP needs a positive whole number
-- at: TOP
-- hint: for example TOP 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 1.5

-- R324 TOP of a negative number
-- error: TOP needs a positive whole number
-- at: TOP
-- hint: for example TOP 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP -3

-- R325 TOP percent
-- error: TOP k PERCENT depends on the data
-- at: PERCENT
-- hint: SELECT TOP 10 page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page -- asks something else: 10 groups
SELECT TOP 10 PERCENT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- R326 TOP with ties
-- error: TOP k WITH TIES depends on the data
-- at: WITH
-- hint: SELECT TOP 3 page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page -- asks something else: 3 groups
SELECT TOP 3 WITH TIES page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- R327 TOP within a subquery
-- error: TOP selects groups: it belongs into the SELECT that counts
-- at: TOP
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id FROM visits GROUP BY user_id TOP 3)

-- R328 TOP before GROUP BY
-- error: TOP selects groups and needs a GROUP BY before it
-- at: TOP
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits TOP 3 GROUP BY page

-- R329 TOP BY a key
-- error: the value that orders must be a count of the select list
-- at: page #3
-- hint: ORDER BY n DESC LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3 BY page

-- R330 TOP without saying by which count
-- error: there are several counts: say which one orders
-- at: TOP
-- hint: TOP 10 BY n
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 1) AS m FROM visits GROUP BY page TOP 3

-- R331 ARGMAX and TOP
-- error: the selection is given twice
-- at: ARGMAX
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3 ARGMAX

-- R332 ABOVE THRESHOLD without a number
-- error: expected a number after ABOVE THRESHOLD
-- at: LIMIT
-- hint: for example ABOVE THRESHOLD 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD LIMIT 2

-- R333 ABOVE THRESHOLD twice
-- error: the threshold is given twice
-- at: ABOVE #2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 2 ABOVE THRESHOLD 3 LIMIT 2

-- R334 ABOVE THRESHOLD and HAVING
-- error: the threshold is given twice
-- at: n #2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 3 ABOVE THRESHOLD 2 LIMIT 2

-- R335 gaps above a threshold without LIMIT
-- error: box noise on every group, which has no DP_GAP
-- at: ABOVE
-- hint: add LIMIT 10
-- rewrite: SELECT page, DP_GAP() AS g, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 2 LIMIT 10 -- 10 is a guess
SELECT page, DP_GAP() AS g, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ABOVE THRESHOLD 2

-- R336 options in a subquery of private rows
-- error: WITH DIFFERENTIAL_PRIVACY belongs right after the outermost
-- at: WITH
-- hint: write it right after the outermost SELECT
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM (SELECT user_id FROM visits)
SELECT COUNT(DISTINCT user_id) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) user_id FROM visits)

-- R337 options twice
-- error: WITH DIFFERENTIAL_PRIVACY belongs right after a SELECT, once
-- at: WITH #2
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(DISTINCT user_id) FROM visits

-- R338 options in a common table expression of private rows
-- error: WITH DIFFERENTIAL_PRIVACY belongs right after the outermost
-- at: WITH #2
-- hint: write it right after the outermost SELECT
-- rewrite: WITH v AS (SELECT user_id FROM visits) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM v
WITH v AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) user_id FROM visits) SELECT COUNT(DISTINCT user_id) FROM v

-- R339 an unknown option
-- error: there is no option epsilom
-- at: epsilom
-- hint: did you mean epsilon?
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilom = 1) COUNT(DISTINCT user_id) FROM visits

-- R340 no noise
-- error: option noise: expected one of EXPONENTIAL, LAPLACE,
-- at: NONE
-- hint: it without noise = NONE
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (noise = NONE) COUNT(DISTINCT user_id) FROM visits

-- R341 a seed
-- error: there is no option seed
-- at: seed
-- hint: it without seed = 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (seed = 1) COUNT(DISTINCT user_id) FROM visits

-- R342 another privacy unit
-- error: privacy_unit_column may only repeat what the policy declares
-- at: privacy_unit_column
-- hint: leave it out, or name user_id
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (privacy_unit_column = page) COUNT(DISTINCT user_id) FROM visits

-- R343 a mechanism that cannot serve it
-- error: mechanism NOISY_TOP_K cannot answer this
-- at: mechanism
-- hint: leave it out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = NOISY_TOP_K) COUNT(DISTINCT user_id) FROM visits

-- R344 a count that nobody pays for
-- error: measure = 0 pays for no count, and a count is selected
-- at: measure
-- hint: leave measure out, or select the keys
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (measure = 0) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3

-- R345 grouped without a count
-- error: every group of the domain would be shown: select a count
-- at: SELECT
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page, country LIMIT 2 -- asks something else
SELECT page FROM visits GROUP BY page, country LIMIT 2

-- R346 order by something unselected
-- error: this is neither a group key nor a count
-- at: ms
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY AVG(ms, contribution_bounds_per_group => (0, 100)) DESC LIMIT 2 -- asks something else: in the order of the average ms
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY ms DESC LIMIT 2

-- R350 a position beyond the list
-- error: GROUP BY 3: the select list has 2 items
-- at: 3
-- hint: GROUP BY 1
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 1 ORDER BY n DESC LIMIT 2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 3 ORDER BY n DESC LIMIT 2

-- R352 a gap without groups
-- error: DP_GAP(): nothing is selected here, so there is no such thing
-- at: DP_GAP
SELECT COUNT(DISTINCT user_id) AS n, DP_GAP() FROM visits

-- R353 DP_STDDEV of a key
-- error: this is not a count of the select list
-- at: page #2
-- hint: name a count by its alias
SELECT page, COUNT(DISTINCT user_id) AS n, DP_STDDEV(page) FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R354 DP_GAP takes nothing
-- error: DP_GAP takes no argument
-- at: DP_GAP
SELECT page, COUNT(DISTINCT user_id) AS n, DP_GAP(n) FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R355 DP_RANK in WHERE
-- error: DP_RANK is not among the functions allowed over private data
-- at: DP_RANK
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE DP_RANK() < 3 GROUP BY page ORDER BY n DESC LIMIT 2

-- R356 domain too large
-- error: the keys have more than 10,000,000 groups in their domains together
-- at: day
-- hint: ORDER BY n DESC LIMIT 10, which selects among up to 1,000,000,000,000
SELECT day, page, country, a.x, b.x, c.x, COUNT(DISTINCT user_id) AS n FROM visits, (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) AS a(x), (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) AS b(x), (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15),(16),(17),(18),(19),(20)) AS c(x) GROUP BY ALL

-- R539 a tie-breaker that is no key
-- error: MAX of VARCHAR over many units is not released
-- at: MAX
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC, (SELECT MAX(note) FROM visits) LIMIT 2

-- R361 what follows BY
-- error: expected one expression
-- at: n #2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 3 BY n WHERE ms > 5

-- R362 a tie-breaker that is no key, a column
-- error: this is neither a group key nor a count
-- at: ms
-- hint: ORDER BY n DESC, AVG(ms, contribution_bounds_per_group => (0, 100)) LIMIT 2 -- asks something else: in the order of the average ms
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC, ms LIMIT 2

-- R363 a number of thousands of digits in LIMIT
-- error: LIMIT needs a positive whole number of at most 1,000,000,000
-- at: 99999999999999999999999999999999999999999999999999
-- hint: LIMIT 10
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 99999999999999999999999999999999999999999999999999

-- R364 a wrapper that names what is not released
-- at: m
-- error: there is no column m
SELECT page, m FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2) AS t

-- R365 a wrapper around rows
-- error: the rows of a private table are counted, never shown
-- at: 3
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM (SELECT page FROM (SELECT page, user_id FROM visits) AS t) -- asks something else: how many rows it has; 20 is a guess
SELECT page FROM (SELECT page, user_id FROM visits) AS t LIMIT 3

-- R770 Laplace noise on many groups without a bound
-- error: Laplace noise on all groups needs a bound on how many of them
-- at: mechanism
-- hint: OPTIONS (max_groups_contributed = 3), or leave mechanism out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE) day, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY day

-- R771 gaps of box noise
-- error: box noise on every group has no DP_GAP
-- at: mechanism
-- hint: leave mechanism out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = BOX) page, DP_GAP() AS g FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R772 intervals of all counts at once from the gaps of a sparse vector
-- error: intervals that cover all counts at once need one noise for all
-- at: intervals
-- hint: leave intervals out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (intervals = SIMULTANEOUS, base_hits = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 10

-- R773 a bound on groups that box noise does not need
-- error: box noise on every group needs no bound on how many of them
-- at: max_groups_contributed
-- hint: leave max_groups_contributed out, or mechanism
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = BOX, max_groups_contributed = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page

-- R774 the largest groups above a threshold, ordered by a key
-- error: HYBRID_TOP_K orders the groups by their counts, not by keys
-- at: mechanism
-- hint: leave mechanism out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = HYBRID_TOP_K) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 2 ORDER BY page LIMIT 2

-- R791 a gap of a mechanism that has none
-- error: g: the joint exponential mechanism has no gaps
-- at: mechanism
-- hint: mechanism = NOISY_TOP_K
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT) page, DP_GAP() AS g FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R792 noise for a mechanism that adds none
-- error: option noise has no meaning for mechanism JOINT
-- at: noise
-- hint: leave it out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = JOINT, noise = LAPLACE) page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R850 an error and an epsilon
-- error: options epsilon and error exclude each other
-- at: error
-- hint: leave epsilon out, or leave error out
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) COUNT(DISTINCT user_id) FROM visits -- that the error decides is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, error = 50) COUNT(DISTINCT user_id) FROM visits

-- R851 an error in percent
-- error: a relative error is not supported: give it in counts
-- at: '5%'
-- hint: 50
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) COUNT(DISTINCT user_id) FROM visits -- 50 is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = '5%') COUNT(DISTINCT user_id) FROM visits

-- R852 no error
-- error: option error: it must be more than 0
-- at: 0
-- hint: 50
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) COUNT(DISTINCT user_id) FROM visits -- 50 is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 0) COUNT(DISTINCT user_id) FROM visits

-- R853 the error of what the gaps of a sparse vector say
-- error: the error of this answer cannot be predicted
-- at: error
-- hint: measure the counts: OPTIONS (measure = 0.5
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50, base_hits = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n >= 3 LIMIT 2

-- R854 the error of keys without a domain
-- error: the error of this answer cannot be predicted
-- at: error
-- hint: select a count as well
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50) note FROM visits GROUP BY note ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R1101 ordered by a count over undeclared keys, without LIMIT
-- error: the values of note are not declared: say in how many groups a user_id may count
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16), or list them: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC

-- R1102 a share over undeclared keys needs all groups
-- error: the values of note are not declared: say in how many groups a user_id may count
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16), or list them: WHERE note IN ('a', 'b')
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, n / SUM(n) OVER () AS share, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC -- 16 is a guess
SELECT note, n / SUM(n) OVER () AS share, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note ORDER BY n DESC

-- R1103 a column that is no key, beside a count
-- error: this is neither a group key nor a count
-- at: ms
-- hint: select the keys of GROUP BY and counts
SELECT page, COUNT(DISTINCT user_id) + ms AS x FROM visits GROUP BY page

-- R1104 a condition on rows in HAVING
-- error: this is neither a group key nor a count
-- at: ms
-- hint: select the keys of GROUP BY and counts
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 3 OR ms > 3

-- R1105 a window over private rows in a grouped block
-- error: this is neither a group key nor a count
-- at: ms
-- hint: SELECT page, COUNT(DISTINCT user_id) AS n, AVG(AVG(ms, contribution_bounds_per_group => (0, 100))) OVER () AS a FROM visits GROUP BY page -- asks something else: a number of the numbers of groups; 100 is a guess
SELECT page, COUNT(DISTINCT user_id) AS n, AVG(ms) OVER () AS a FROM visits GROUP BY page

-- R1106 an expression over a count that does not bind
-- error: + adds numbers, and one of these is a text
-- at: +
-- hint: ||
-- rewrite: SELECT page, COUNT(DISTINCT user_id) || page AS x FROM visits GROUP BY page
SELECT page, COUNT(DISTINCT user_id) + page AS x FROM visits GROUP BY page

-- R1107 a function that is not for released values
-- error: the function getenv is not supported
-- at: getenv
SELECT page, getenv('HOME') || COUNT(DISTINCT user_id) AS x FROM visits GROUP BY page

-- R2607 a function that is not known, of a number that has a name
-- error: the function dp_low is not supported
-- at: dp_low
SELECT page, COUNT(DISTINCT user_id) AS n, dp_low(n) AS low FROM visits GROUP BY page

-- R2708 a threshold that nothing can be computed with
-- error: a threshold is at most 1e100
-- at: n > 1e400
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page HAVING n > 1e400 LIMIT 2

-- R2791 the interval of one of two columns with one name
-- error: several columns are called n
-- at: n) AS s
-- hint: give them different names, or write it out
SELECT COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE page = 'a') AS n, DP_STDDEV(n) AS s FROM visits

-- R4901 a count is no exact answer
-- error: an exact answer is of keys: n is a number, which one
-- at: mechanism
-- hint: leave it out of the select list, or ask with noise
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, delta = 1e-6) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1

-- R4903 an order for another mechanism
-- error: option order_share orders the set of Top Stable
-- at: order_share
-- hint: OPTIONS (.., mechanism = TOP_STABLE)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, order_share = 0.25) note FROM visits GROUP BY note ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2

-- R7700 a text behind a released number by +, whose text is no number
-- error: + adds numbers, and one of these is a text
-- at: + ' min'
-- hint: ||
-- rewrite: SELECT CAST(COUNT(DISTINCT user_id) AS INT) || ' min' AS m FROM visits
SELECT CAST(COUNT(DISTINCT user_id) AS INT) + ' min' AS m FROM visits

-- R7701 texts on both sides of a released number by +
-- error: + adds numbers, and one of these is a text
-- at: + COUNT
-- hint: ||
-- rewrite: SELECT 'about ' || COUNT(DISTINCT user_id) || ' people' AS m FROM visits
SELECT 'about ' + COUNT(DISTINCT user_id) + ' people' AS m FROM visits
