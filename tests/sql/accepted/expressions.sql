-- A16 ordinary predicates
-- candidates: FROM page_domain WHERE page <> 'd'
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE (country IN ('DE', 'FR') OR country IS NULL) AND note LIKE '%a%' AND ms BETWEEN 1 AND 1000 AND NOT (page = 'd') GROUP BY page
ORDER BY n DESC LIMIT 2

-- A67 a cast that fails for some rows is NULL there
-- candidates: FROM page_domain
-- expect: SELECT page, COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS INTEGER) = 5 OR TRY_CAST(note AS DATE) > DATE '2024-01-01' GROUP BY page
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS INTEGER) = 5 OR note::DATE > DATE '2024-01-01' GROUP BY page
ORDER BY n DESC LIMIT 2

-- A68 literal regular expressions
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(note, '^[a-c]') AND regexp_extract(note, '([a-z])', 1) IN ('a', 'b') GROUP BY page
ORDER BY n DESC LIMIT 2

-- A70 string functions
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE lower(trim(country)) = 'de' AND length(note) > 0 AND substring(note, 1, 1) <> 'z' AND split_part(note, ' ', 1) <> '' GROUP BY page
ORDER BY n DESC LIMIT 2

-- A71 dates as literals, and texts where a date is meant
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE day >= '2024-01-01' AND day < DATE '2024-03-01' + INTERVAL 1 MONTH GROUP BY page
ORDER BY n DESC LIMIT 2

-- A201 integer arithmetic that would overflow is NULL
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (ms::HUGEINT * ms + 1) // 3 % 7 = 2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (ms * ms + 1) // 3 % 7 = 2

-- A202 division gives a DOUBLE, by zero NULL
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms / 4 > 10.5 OR ms / (ms - ms) IS NULL
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms / 4 > 10.5 OR ms / (ms - ms) IS NULL

-- A203 a text with a quote, braces and an umlaut
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note = 'It''s 50% {0} Ä'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note = 'It''s 50% {0} Ä'

-- A204 braces and quotes as arguments of a function
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE contains(note, '{0} ') AND upper(concat('{', note, '''}')) LIKE '{IT''S%'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE contains(note, '{0} ') AND upper(concat('{', note, '''}')) LIKE '{IT''S%'

-- A205 numbers of every shape
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 1e1 AND ms <= 0100.50 AND ms <> .5 AND ms < 3000000000 AND -ms <= -5 AND ms > -2.5e-3
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 1e1 AND ms <= 0100.50 AND ms <> .5 AND ms < 3000000000 AND -ms <= -5 AND ms > -2.5e-3

-- A206 three-valued logic
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page = 'a') IS NOT TRUE AND (country <> 'DE' OR NULL) IS NULL AND NOT (note IS NULL)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page = 'a') IS NOT TRUE AND (country <> 'DE' OR NULL) IS NULL AND NOT (note IS NULL)

-- A207 IS DISTINCT FROM
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE country IS NOT DISTINCT FROM NULL OR page IS DISTINCT FROM note
SELECT COUNT(DISTINCT user_id) FROM visits WHERE country IS NOT DISTINCT FROM NULL OR page IS DISTINCT FROM note

-- A208 IN a list with NULL, and NOT IN
-- expect: SELECT COUNT(DISTINCT user_id) FILTER (WHERE page IN ('a', NULL)), COUNT(DISTINCT user_id) FILTER (WHERE page NOT IN ('a', 'b')), COUNT(DISTINCT user_id) FILTER (WHERE page NOT IN ('a', NULL)) FROM visits
SELECT COUNT(DISTINCT user_id) FILTER (WHERE page IN ('a', NULL)), COUNT(DISTINCT user_id) FILTER (WHERE page NOT IN ('a', 'b')), COUNT(DISTINCT user_id) FILTER (WHERE page NOT IN ('a', NULL)) FROM visits

-- A209 CASE with an operand, nested
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CASE country WHEN 'DE' THEN ms WHEN 'FR' THEN CASE WHEN ms > 50 THEN 0 ELSE 99 END ELSE -1 END > 20
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CASE country WHEN 'DE' THEN ms WHEN 'FR' THEN CASE WHEN ms > 50 THEN 0 ELSE 99 END ELSE -1 END > 20

-- A210 COALESCE, NULLIF, GREATEST, LEAST
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE COALESCE(page, country, '?') <> '?' AND NULLIF(page, 'a') IS NOT NULL AND GREATEST(ms, 3) < LEAST(ms::BIGINT + 100, 120)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE COALESCE(page, country, '?') <> '?' AND NULLIF(page, 'a') IS NOT NULL AND GREATEST(ms, 3) < LEAST(ms + 100, 120)

-- A211 parts of dates
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE year(day) = 2024 AND EXTRACT(month FROM day) <= 3 AND date_part('quarter', day) = 1 AND strftime(day, '%d') < '20'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE year(day) = 2024 AND EXTRACT(month FROM day) <= 3 AND date_part('quarter', day) = 1 AND strftime(day, '%d') < '20'

-- A212 date arithmetic near the end of time is NULL, not an error
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < DATE '300000-01-01' AND day + 7 > DATE '2024-02-01' AND day - INTERVAL 1 YEAR < DATE '2023-05-01'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day + 7 > DATE '2024-02-01' AND day - INTERVAL 1 YEAR < DATE '2023-05-01'

-- A213 operators bind as written
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE NOT ms > 50 AND country = 'DE' OR page = 'b' AND ms - 10 - 5 > 2 * (3 + 4)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE NOT ms > 50 AND country = 'DE' OR page = 'b' AND ms - 10 - 5 > 2 * (3 + 4)

-- A214 the unit itself may be compared
-- units: differ
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id > 3 AND user_id % 2 = 1
SELECT COUNT(DISTINCT user_id) FROM visits WHERE user_id > 3 AND user_id % 2 = 1

-- A215 LIKE, ILIKE, GLOB, starts_with
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ILIKE 'A%' OR note GLOB 'It*' OR starts_with(note, '20') OR note NOT LIKE '%'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ILIKE 'A%' OR note GLOB 'It*' OR starts_with(note, '20') OR note NOT LIKE '%'

-- A216 parameters that are literals: positions in text and exact decimals
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms * 0.1 > 4.9 AND ms * 0.25 < 25
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms * 0.1 > 4.9 AND ms * 0.25 < 25

-- A217 TRY_CAST and CAST to several types
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS DOUBLE) > 1 OR CAST(ms AS VARCHAR) LIKE '1%' OR CAST(day AS VARCHAR) < '2024-02' OR (ms > 5)::INTEGER = 0
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(note AS DOUBLE) > 1 OR CAST(ms AS VARCHAR) LIKE '1%' OR CAST(day AS VARCHAR) < '2024-02' OR (ms > 5)::INTEGER = 0

-- A69 JSON with a literal path on text that may not be JSON
-- candidates: FROM page_domain
-- expect: itself
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE TRY_CAST(note AS JSON) ->> '$.a' = 'x' GROUP BY page
ORDER BY n DESC LIMIT 2

-- A301 the clock is a literal
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= current_date - INTERVAL 30 DAY
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= current_date - INTERVAL 30 DAY

-- A302 the clock as a function
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= today() - 30
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= today() - 30

-- A306 an element of a list
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[1] = 'a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[1] = 'a'

-- A307 a part of a text by its position
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note[1:2] = 'a '
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note[1:2] = 'a '

-- A308 a list of constants
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE list_contains([1, 2, 3], ms)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE list_contains([1, 2, 3], ms)

-- A309 LIKE with a literal escape
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%$%%' ESCAPE '$'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%$%%' ESCAPE '$'

-- A310 SIMILAR TO
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note SIMILAR TO '[a-c].*'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note SIMILAR TO '[a-c].*'

-- A311 position of a text
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE position('a' IN note) > 0
SELECT COUNT(DISTINCT user_id) FROM visits WHERE position('a' IN note) > 0

-- A312 substring in the standard's spelling
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE substring(note FROM 1 FOR 2) = 'a '
SELECT COUNT(DISTINCT user_id) FROM visits WHERE substring(note FROM 1 FOR 2) = 'a '

-- A321 an element from the end, and by a column's value
-- units: differ
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[-1] = 'b' OR string_split(note, ' ')[user_id] = 'x'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[-1] = 'b' OR string_split(note, ' ')[user_id] = 'x'

-- A322 lambdas
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_filter(string_split(note, ' '), lambda w: w > 'a')) = 1 AND list_contains(list_transform(string_split(note, ' '), lambda w: length(w)), 1)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_filter(string_split(note, ' '), lambda w: w > 'a')) = 1 AND list_contains(list_transform(string_split(note, ' '), lambda w: length(w)), 1)

-- A323 an item beyond the column's width is equal to nothing
-- expect: SELECT COUNT(DISTINCT user_id) FILTER (WHERE ms NOT IN (3000000000)), COUNT(DISTINCT user_id) FILTER (WHERE ms IN (7, 3000000000)), COUNT(DISTINCT user_id) FILTER (WHERE ms NOT IN (7, 3000000000, 0.5)) FROM visits
SELECT COUNT(DISTINCT user_id) FILTER (WHERE ms NOT IN (3000000000)), COUNT(DISTINCT user_id) FILTER (WHERE ms IN (7, 3000000000)), COUNT(DISTINCT user_id) FILTER (WHERE ms NOT IN (7, 3000000000, 0.5)) FROM visits

-- A324 TRIM, LPAD, OVERLAY
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE trim(BOTH 'a' FROM note) = ' b' OR lpad(note, 3, '-') = '--x' OR note NOT LIKE '%a%'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE trim(BOTH 'a' FROM note) = ' b' OR lpad(note, 3, '-') = '--x' OR note NOT LIKE '%a%'

-- A325 a pattern with ESCAPE
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%50$%%' ESCAPE '$' AND note NOT ILIKE 'x$%' ESCAPE '$'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%50$%%' ESCAPE '$' AND note NOT ILIKE 'x$%' ESCAPE '$'

-- A326 numbers with leading zeros
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms <= 0100.50 AND ms > 00.5 AND ms <> 007
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms <= 0100.50 AND ms > 00.5 AND ms <> 007

-- A392 a part of a date that is always NULL
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE COALESCE(LEAST(EXTRACT(month FROM NULLIF(DATE '2024-01-01', DATE '2024-01-01')), EXTRACT(year FROM day)), 5) > 3 OR day IS NULL

-- A393 a number with a point and nothing behind it
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 5
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > 5. AND ms < 999999999999999999.

-- A394 the same interval in two words, and different ones
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(day - INTERVAL 7 DAY) < DATE '2024-02-01' AND TRY(day + INTERVAL 1 MONTH) > DATE '2023-01-01'
SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE day - INTERVAL 1 WEEK < DATE '2024-02-01' AND day - INTERVAL 7 DAY < DATE '2024-02-01' AND day + INTERVAL 1 MONTH > DATE '2023-01-01'

-- A760 arithmetic and comparisons with a subquery, beside functions of the row
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE (ms + (SELECT MIN(length(page)) FROM pages)) * 2 > 10 AND NOT (upper(note) = 'B')
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (ms + (SELECT MIN(length(page)) FROM pages)) * 2 > 10 AND NOT (upper(note) = 'B')

-- A3301 a local time as an instant, compared with one of another offset
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY_CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' >= TIMESTAMPTZ '2024-04-02 00:00:00+02:00'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' >= TIMESTAMPTZ '2024-04-02 00:00:00+02:00'

-- A3302 an instant as a local time, in one zone and in another one
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE hour(timezone('America/New_York', timezone('Europe/Berlin', TRY_CAST(day AS TIMESTAMP)))) = 18 AND year(day) < 2038
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(HOUR FROM (CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'America/New_York') = 18 AND year(day) < 2038

-- A3303 a constant without an offset, beside an instant
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day < DATE '2024-03-01'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' < '2024-03-01'

-- A3911 an instant of a public table
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits JOIN moments USING (page) WHERE TRY(timezone('UTC', TRY_CAST(day AS TIMESTAMP))) > since
SELECT COUNT(DISTINCT user_id) AS n FROM visits JOIN moments USING (page) WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > since

-- A4201 buckets of equal width, of whole numbers
-- candidates: SELECT unnest([0, 1, 2, 3, 4, 5, 6, 7, NULL]) AS b
-- groups: 1
-- expect: SELECT CASE WHEN age < 20 THEN 0 WHEN age >= 90 THEN 7 ELSE (age - 20) * 6 // 70 + 1 END AS b, COUNT(DISTINCT user_id) AS n FROM users GROUP BY b
SELECT WIDTH_BUCKET(age, 20, 90, 6) AS b, COUNT(DISTINCT user_id) AS n FROM users GROUP BY b

-- A4202 buckets downwards, of DECIMAL
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits JOIN prices USING (page) WHERE price <= 3 AND price > 2 OR price <= 1.5 AND price > 0.75
SELECT COUNT(DISTINCT user_id) FROM visits JOIN prices USING (page) WHERE WIDTH_BUCKET(price, 3, 0, 4) IN (1, 3) AND price <> 2.25

-- A4203 points of time of numbers since 1970
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(DATE '2024-01-01' + ms) < day AND ms BETWEEN -1000 AND 1000 AND ms * 86400 // 86400 % 7 <> 2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(TIMESTAMP_SECONDS(1704067200 + ms * 86400) AS DATE) < day AND MAKE_TIMESTAMP(ms) > TIMESTAMP '1969-01-01' AND EPOCH_MS(ms) < TIMESTAMP '1970-01-02' AND ms BETWEEN -1000 AND 1000 AND isodow(FROM_UNIXTIME(ms * 86400)) <> 6 AND TO_TIMESTAMP(ms) IS NOT NULL

-- A4204 a part of an age
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(date_part('month', age(TIMESTAMP '2025-01-31', CAST(day AS TIMESTAMP)))) = 11 OR TRY(date_part('day', age(TIMESTAMP '2025-01-31', CAST(day AS TIMESTAMP)))) > 20
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(MONTH FROM AGE(DATE '2025-01-31', day)) = 11 OR DATE_PART('day', AGE(DATE '2025-01-31', day)) > 20

-- A4205 an amount of an interval that is computed of whole numbers
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(day - INTERVAL 1 MONTH) < DATE '2024-02-01' AND TRY(day + INTERVAL 6 DAY) > DATE '2024-01-04'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day + INTERVAL (-1) MONTH < DATE '2024-02-01' AND day + 3 * INTERVAL '2' DAY > DATE '2024-01-04'

-- A4206 a week of another dialect
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(CAST(strftime(day, '%U') AS INTEGER)) = 5
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = MYSQL) COUNT(DISTINCT user_id) FROM visits WHERE WEEK(day) = 5

-- A4207 a week day that dialects number in other ways
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(isodow(day)) = 7 OR TRY(isodow(day)) = 1 OR TRY(isodow(day)) = 2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXTRACT(DAYOFWEEK FROM day) = 0 OR DATEPART(weekday, day) = 2 OR DAYOFWEEKISO(day) = 2

-- A4208 buckets of time from an origin
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(time_bucket(INTERVAL 10 DAY, CAST(day AS TIMESTAMP), TIMESTAMP '2001-01-01')) = TIMESTAMP '2024-01-21'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE DATE_BIN(INTERVAL '10 days', CAST(day AS TIMESTAMP), TIMESTAMP '2001-01-01') = TIMESTAMP '2024-01-21'

-- A4209 the names of a month
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(month(day)) = 1 OR TRY(month(day)) = 2
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = POSTGRES) COUNT(DISTINCT user_id) FROM visits WHERE TO_CHAR(day, 'MON-YYYY') = 'JAN-2024' OR TO_CHAR(day, 'FMMonth') = 'February'

-- A4210 a text with a group that a pattern finds
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_replace(note, '^(\w)\w*$', '<\1>') = '<a>' OR regexp_replace(note, 'b+', '[\0]', 'g') LIKE '[b%'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_replace(note, '^(\w)\w*$', '<\1>') = '<a>' OR regexp_replace(note, 'b+', '[\0]', 'g') LIKE '[b%'

-- A5214 numbers and days in CONCAT and CONCAT_WS are their texts
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE concat(page, '-', ms) IN ('a-7', 'b-0') OR concat_ws('/', day, ms) LIKE '2024-01-0%/7' OR concat('m', month(day), NULL) = 'm2'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CONCAT(page, '-', ms) IN ('a-7', 'b-0') OR CONCAT_WS('/', day, ms) LIKE '2024-01-0%/7' OR CONCAT('m', MONTH(day), NULL) = 'm2'

-- A5216 a column that is named like a function without parentheses
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day >= DATE '2024-01-02' AND page = 'a'
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, page AS session_user, DATE '2024-01-02' AS current_date, day FROM visits) WHERE day >= current_date AND session_user = 'a' AND day < current_timestamp

-- A5100 names that a format pads, and days by their number
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(month(day)) = 1 OR TRY(isodow(day)) = 1 OR TRY(month(day)) = 3 OR day = DATE '2024-03-31'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TO_CHAR(day, 'Month') = 'January  ' OR TRIM(TO_CHAR(day, 'Day')) = 'Monday' OR TO_CHAR(day, 'MONTH') LIKE 'MARCH%' OR JULIANDAY(day) = 2460400.5 OR JULIAN(day) = 2460401

-- A5101 more than a thousand buckets
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms >= 47
SELECT COUNT(DISTINCT user_id) FROM visits WHERE WIDTH_BUCKET(ms, 0, 130, 1400) >= 500

-- A5102 the time between two points, compared with INTERVALs, and its parts
-- expect: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day BETWEEN DATE '2024-01-08' AND DATE '2024-02-04'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) - TIMESTAMP '2024-01-05 12:00:00' BETWEEN INTERVAL '2 days' AND INTERVAL 1 MONTH AND EXTRACT(HOUR FROM CAST(day AS TIMESTAMP) - TIMESTAMP '2024-01-01 22:30:00') = 1 AND DATE_PART('minute', TIMESTAMP '2024-01-01 22:30:00' - CAST(day AS TIMESTAMP)) = -30

-- A5525 a BOOLEAN is compared with 1 and 0, as databases with bits write it
-- expect: SELECT COUNT(DISTINCT user_id) FROM baskets WHERE late OR NOT late
SELECT COUNT(DISTINCT user_id) FROM baskets WHERE late = 1 OR 0 = late AND late <> 1
