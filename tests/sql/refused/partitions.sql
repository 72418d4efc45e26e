-- R1970 which partitions there are is private
-- error: it is not public which partitions there are
-- at: note #3
-- hint: WHERE note IN ('a', 'b')
SELECT note, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note, page QUALIFY ROW_NUMBER() OVER (PARTITION BY note ORDER BY n DESC) <= 3

-- R1971 the smallest of groups that nobody declared
-- error: the values of note are not declared
-- at: country #2
-- hint: WHERE note IN ('a', 'b')
SELECT country, note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, note QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n) <= 3

-- R1972 intervals of all partitions at once
-- error: intervals that cover all counts of all partitions at once
-- at: intervals
-- hint: leave intervals out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (intervals = SIMULTANEOUS) country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC) <= 3

-- R1973 a bound on partitions where a unit is in one
-- error: each person is in one partition
-- at: max_groups_contributed
-- hint: leave max_groups_contributed out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) city, age > 40 AS old, COUNT(DISTINCT user_id) AS n FROM users GROUP BY city, old QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY n DESC) <= 1
