-- Statements over the tables of the SQL fixtures whose bound plans have words that no form and no fixture has.

-- W01 aggregates of bits and conditions within one unit
SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, BIT_AND(ms) AS a, BIT_OR(ms) AS b, BIT_XOR(ms) AS c, BOOL_AND(ms > 3) AS d, BOOL_OR(ms > 9) AS e FROM visits GROUP BY user_id) AS u WHERE a = 1 OR b = 2 OR c = 3 OR d OR e

-- W02 the median within one unit
SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, MEDIAN(ms) AS m FROM visits GROUP BY user_id) AS u WHERE m > 100

-- W03 windows within one unit
SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, LEAD(ms) OVER w AS a, FIRST_VALUE(ms) OVER w AS b, LAST_VALUE(ms) OVER w AS c, NTH_VALUE(ms, 2) OVER w AS d, NTILE(3) OVER w AS e FROM visits WINDOW w AS (PARTITION BY user_id ORDER BY day, ms, page)) AS u WHERE a > b OR c > d OR e = 2

-- W04 patterns with an escape character, negated
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note NOT LIKE 'a$%' ESCAPE '$' AND note NOT ILIKE 'b$%' ESCAPE '$' AND note NOT LIKE '%c_' AND note NOT ILIKE '%d_'

-- W05 a scalar subquery over the rows of one unit
SELECT COUNT(DISTINCT user_id) AS n FROM users WHERE (SELECT COUNT(*) FROM visits AS v WHERE v.user_id = users.user_id) > 2

-- W06 EXISTS over the rows of one unit
SELECT COUNT(DISTINCT user_id) AS n FROM users WHERE EXISTS (SELECT 1 FROM visits AS v WHERE v.user_id = users.user_id AND v.ms > users.age)

-- W07 elements as rows
SELECT COUNT(DISTINCT user_id) AS n FROM visits, UNNEST(string_split(note, ' ')) AS w(word) WHERE word = 'x'

-- W08 an outer query over released rows with a correlated subquery
SELECT r.page, r.n FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) AS r WHERE r.n > (SELECT AVG(p.price) FROM prices AS p WHERE p.page = r.page)

-- W09 ranks within one unit
SELECT COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) AS r FROM visits) AS u WHERE r = 2
