-- R950 two bounds that say the same
-- error: a bound on the rows of a unit in all groups together needs none on its groups
-- at: max_rows_contributed
-- hint: leave max_groups_contributed out, or leave max_rows_contributed out
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) page, COUNT(*) AS n FROM visits GROUP BY page -- that the bound on rows holds is a guess
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2, max_rows_contributed = 5) page, COUNT(*) AS n FROM visits GROUP BY page

-- R951 a bound on rows where none are counted
-- error: option max_rows_contributed is for counts of rows that have no bound of their own
-- at: max_rows_contributed
-- hint: leave it out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 5) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R952 every count of rows without a bound is named
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or COUNT(DISTINCT user_id)
-- obstacles: a user_id can have many rows | a user_id can have many rows
-- rewrite: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)), COUNT(NULLIF(ms, (3)), contribution_bounds_per_group => (0, 20)) FROM visits -- 20 is a guess
SELECT COUNT(*), COUNT(NULLIF(ms, (3))) FROM visits

-- R953 all groups of keys without a domain, and no bound on the groups of a unit
-- error: the values of note are not declared: say in how many groups a user_id may count
-- at: note #2
-- hint: OPTIONS (max_groups_contributed = 16), or list them
-- rewrite: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note -- 16 is a guess
SELECT note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note
