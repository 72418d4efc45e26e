-- R85 row identifiers
-- error: there is no column rowid
-- at: rowid
-- hint: columns here: user_id, page, country,
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE rowid < 5 GROUP BY page ORDER BY n DESC LIMIT 2

-- R86 statistics of the whole column in one row
-- error: access to a field is not supported here over private data
-- at: stats
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE stats(ms).max > 100 GROUP BY page ORDER BY n DESC LIMIT 2

-- R87 physical vector type
-- error: vector_type is not allowed over private data: it reads the
-- at: vector_type
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE vector_type(note) = 'FLAT_VECTOR' GROUP BY page ORDER BY n DESC LIMIT 2

-- R89 raises on purpose
-- error: error is not allowed over private data: it can fail on some
-- at: error
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE CASE WHEN user_id = 3 THEN error('x') ELSE TRUE END GROUP BY page ORDER BY n DESC LIMIT 2

-- R90 memory by one row
-- error: repeat is not allowed over private data: its result can be
-- at: repeat
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE length(repeat(note, CASE WHEN user_id = 3 THEN 100 ELSE 1 END)) > 0 GROUP BY page ORDER BY n DESC LIMIT 2

-- R91 memory by one row, lists
-- error: range is not allowed over private data: its result can be
-- at: range
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE len(range(ms)) > 0 GROUP BY page ORDER BY n DESC LIMIT 2

-- R92 padding to any length
-- error: lpad is not allowed with (VARCHAR, INTEGER, VARCHAR)
-- at: lpad
-- hint: allowed: lpad(VARCHAR, literal LENGTH,
SELECT COUNT(DISTINCT user_id) FROM visits WHERE length(lpad(note, ms, 'x')) > 0

-- R93 text column against a date column
-- error: VARCHAR and DATE are compared only after a conversion that you
-- at: note
-- hint: CAST(note AS DATE), which is NULL where it does not convert
-- rewrite: SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE CAST(note AS DATE) = day GROUP BY page ORDER BY n DESC LIMIT 2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE note = day GROUP BY page ORDER BY n DESC LIMIT 2

-- R94 text as a condition
-- error: a condition must be BOOLEAN, this is VARCHAR
-- at: note
-- hint: compare it with something
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE note GROUP BY page ORDER BY n DESC LIMIT 2

-- R95 pattern from the data
-- error: regexp_matches is not allowed with (VARCHAR, VARCHAR)
-- at: regexp_matches
-- hint: allowed: regexp_matches(VARCHAR,
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE regexp_matches(country, note) GROUP BY page ORDER BY n DESC LIMIT 2

-- R96 an invalid pattern
-- error: regexp_matches does not take this literal
-- at: regexp_matches
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_matches(country, '(')

-- R97 LIKE ESCAPE with a pattern from the data
-- error: a pattern with ESCAPE is a literal text here
-- at: note
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE country LIKE note ESCAPE '$' GROUP BY page ORDER BY n DESC LIMIT 2

-- R98 window arguments from the data
-- error: NTILE takes a positive whole number
-- at: NTILE
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, NTILE(ms) OVER (PARTITION BY user_id ORDER BY day) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R6980 the value of the row itself, by LAG
-- error: LAG takes a positive whole number here
-- at: 0
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, LAG(page, 0) OVER (PARTITION BY user_id ORDER BY day) AS p FROM visits) WHERE p = 'home'

-- R6981 rows for each value of another key
-- error: LIMIT .. BY is not supported
-- at: page #3
-- hint: QUALIFY ROW_NUMBER() OVER (PARTITION BY page ORDER BY n DESC) <= 2
SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2 BY page

-- R6982 one of two conditions: this is no OR
-- error: syntax error: cannot read `XOR` here
-- at: XOR
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ((page = 'home') AND (NOT (ms > 2))) OR ((NOT (page = 'home')) AND (ms > 2)) -- that it is MySQL's SQL is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page = 'home') XOR (ms > 2)

-- R6983 bits of a number: what stands behind them is no remark
-- error: syntax error: cannot read `#` here
-- at: # 1
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms -- that it is MySQL's SQL is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms # 1 = 2

-- R99 window frame from the data
-- error: a frame's offset is a whole number of ROWS or GROUPS
-- at: ms #3
-- hint: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW
SELECT page, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, page, SUM(ms) OVER (PARTITION BY user_id ORDER BY ms RANGE BETWEEN ms PRECEDING AND CURRENT ROW) AS t FROM visits) GROUP BY page ORDER BY n DESC LIMIT 2

-- R601 text against a number
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: note
-- hint: CAST(note AS INTEGER), which is NULL where it does not convert
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS INTEGER) = 5
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note = 5

-- R602 text in a list of numbers
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: 5
-- hint: write CAST(... AS INTEGER) around the
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note IN (5, 6)

-- R603 a number that is none
-- error: this text is not a valid INTEGER
-- at: ms
-- hint: write it as a number
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = 'abc'

-- R604 a date that is none
-- error: this text is not a valid DATE
-- at: day
-- hint: '2024-02-29'
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE day = '2024-02-29' -- the last day of that month is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day = '2024-02-30'

-- R605 CASE over text with a number
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: 5
-- hint: write CAST(... AS INTEGER) around the
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CASE note WHEN 5 THEN TRUE END

-- R606 NULLIF of text and number
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: NULLIF
-- hint: write CAST(... AS INTEGER) around the
SELECT COUNT(DISTINCT user_id) FROM visits WHERE NULLIF(note, 5) = 'x'

-- R607 text AND truth
-- error: a condition must be BOOLEAN, this is VARCHAR
-- at: note
-- hint: compare it with something
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note AND TRUE

-- R608 COALESCE of text and number
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: ms
-- hint: write CAST(... AS INTEGER) around the
SELECT COUNT(DISTINCT user_id) FROM visits WHERE COALESCE(note, ms) = 'x'

-- R609 IS DISTINCT FROM of text and number
-- error: VARCHAR and INTEGER are compared only after a conversion
-- at: note
-- hint: CAST(note AS INTEGER), which is NULL where it does not convert
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS INTEGER) IS DISTINCT FROM ms
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note IS DISTINCT FROM ms

-- R610 text arithmetic
-- error: + is not allowed with (VARCHAR, INTEGER)
-- at: note
-- hint: CAST(note AS BIGINT)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS BIGINT) + 1 > 2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note + 1 > 2

-- R611 randomness
-- error: random is not allowed over private data: its result changes
-- at: random
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: all rows, not some of them
SELECT COUNT(DISTINCT user_id) FROM visits WHERE random() < 0.5

-- R612 settings
-- error: current_setting is not allowed over private data: it reads
-- at: current_setting
SELECT COUNT(DISTINCT user_id) FROM visits WHERE current_setting('threads') = '1'

-- R613 a variable
-- error: getvariable is not allowed over private data: it reads the
-- at: getvariable
SELECT COUNT(DISTINCT user_id) FROM visits WHERE getvariable('x') = 1

-- R614 sleeping
-- error: sleep_ms is not among the functions allowed over private
-- at: sleep_ms
SELECT COUNT(DISTINCT user_id) FROM visits WHERE sleep_ms(1000) IS NULL

-- R615 an unknown function
-- error: lowr is not among the functions allowed over private data
-- at: lowr
-- hint: did you mean lower?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE lower(note) = 'x'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE lowr(note) = 'x'

-- R616 collation
-- error: COLLATE is not supported here over private data
-- at: note
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note COLLATE NOCASE = 'x'

-- R617 a lambda
-- error: there is no column ms
-- at: ms
-- hint: columns here: x
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_filter([1, 2], x -> x > ms)) > 0

-- R618 COLUMNS
-- error: COLUMNS is not among the functions allowed over private data
-- at: COLUMNS
SELECT COUNT(DISTINCT user_id) FROM visits WHERE COLUMNS('n.*') = 'x'

-- R619 position by number
-- error: a column by its number is not supported here over private
-- at: 3
SELECT COUNT(DISTINCT user_id) FROM visits WHERE #1 = 3

-- R620 CAST to a type that is not allowed
-- error: columns of type HUGEINT are not supported: declare it BIGINT
-- at: ms
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms::BIGINT > 5 -- the same if all are whole numbers of 64 bits
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms::HUGEINT > 5

-- R621 CAST to an interval
-- error: columns of type INTERVAL are not supported: declare it
-- at: note
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note::INTERVAL > INTERVAL 1 DAY

-- R622 a day as an instant, without a zone
-- error: a conversion between TIMESTAMPTZ and a time without a zone says the zone
-- at: day
-- hint: CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day::TIMESTAMPTZ > TIMESTAMP '2024-01-01'

-- R623 a number too large
-- error: this number is beyond BIGINT
-- at: 99999999999999999999
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 99999999999999999999

-- R624 a column that is not there
-- error: there is no column pag
-- at: pag
-- hint: did you mean page?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE pag = 'a'

-- R625 a column of a table that is not there
-- error: there is no column w.page
-- at: w
-- hint: did you mean visits.page?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE visits.page = 'a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE w.page = 'a'

-- R626 a column of another schema
-- error: a column is named as table.column, or main.table.column
-- at: other
SELECT COUNT(DISTINCT user_id) FROM visits WHERE other.visits.page = 'a'

-- R627 names outside ASCII
-- error: names outside ASCII are not supported
-- at: pagé
SELECT COUNT(DISTINCT user_id) FROM visits WHERE pagé = 'a'

-- R628 an interval column times
-- error: an INTERVAL is added to a DATE or TIMESTAMP, or taken from
-- at: ms
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day + ms * INTERVAL 1 DAY > DATE '2024-01-01'

-- R629 tuple comparison
-- error: a tuple is not supported here over private data
-- at: page
-- obstacles: a tuple is not supported | a tuple is not supported
SELECT COUNT(DISTINCT user_id) FROM visits WHERE (page, ms) = ('a', 1)

-- R630 a struct
-- error: access to a field is not supported here over private data
-- at: ms
SELECT COUNT(DISTINCT user_id) FROM visits WHERE {'a': ms}.a = 1

-- R631 to_json nested
-- error: to_json is not among the functions allowed over private data
-- at: to_json
SELECT COUNT(DISTINCT user_id) FROM visits WHERE to_json(note) = 'x'

-- R632 TRY of the analyst's own
-- error: error is not allowed over private data: it can fail on some
-- at: error
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TRY(error(note)) IS NULL

-- R633 an interval without a number
-- error: an INTERVAL is a whole number and a unit
-- at: ms
-- hint: INTERVAL 3 MONTH
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day > DATE '2024-01-01' - INTERVAL ms DAY

-- R634 a prepared marker without a value
-- error: 0 parameters were given, here is one more `?`
-- at: ?
-- hint: write its value there, or give it with the statement
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms = ?

-- R635 nesting
-- error: parentheses are nested more than 64 deep
-- at: ( #66
SELECT COUNT(DISTINCT user_id) FROM visits WHERE ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((ms))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) > 1

-- R636 generate_series
-- error: generate_series is not allowed over private data: its
-- at: generate_series
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(generate_series(1, ms)) > 3

-- R637 format
-- error: format is not allowed over private data: it can fail on
-- at: format
SELECT COUNT(DISTINCT user_id) FROM visits WHERE format('{:9999999d}', ms) = ''

-- R638 a function with named arguments
-- error: `:=` is not supported here over private data
-- at: x
SELECT COUNT(DISTINCT user_id) FROM visits WHERE lower(x := note) = 'a'

-- R639 a count with bounds that are not built yet
-- error: a count's bounds are (0, c)
-- at: 1
-- hint: COUNT(*, contribution_bounds_per_group
SELECT page, COUNT(*, contribution_bounds_per_group => (1, 5)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- R640 DISTINCT in a scalar function
-- error: lower is not allowed in this form over private data
-- at: lower
SELECT COUNT(DISTINCT user_id) FROM visits WHERE lower(DISTINCT note) = 'a'

-- R641 date_part of a time of day from the data
-- error: date_part is not allowed with (VARCHAR, DATE)
-- at: date_part
-- hint: allowed: date_part(century, DATE);
SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_part(note, day) = 1

-- R651 ESCAPE that ends a pattern raises on some rows only
-- error: the escape must be one ASCII character, and a character must
-- at: note
-- hint: LIKE '50$%' ESCAPE '$'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE 'b$' ESCAPE '$'

-- R652 the same behind a wildcard
-- error: the escape must be one ASCII character, and a character must
-- at: note
-- hint: LIKE '50$%' ESCAPE '$'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note NOT ILIKE '%b$' ESCAPE '$'

-- R653 an ESCAPE of two letters
-- error: the escape must be one ASCII character, and a character must
-- at: note
-- hint: LIKE '50$%' ESCAPE '$'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE 'b' ESCAPE '$$'

-- R654 a lambda that grows its items
-- error: a lambda may not make longer texts
-- at: x #2
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_transform(string_split(note, ''), lambda x: x || 'yyyyyyyyyy')) > 5

-- R655 a lambda that pads its items
-- error: a lambda may not make longer texts
-- at: lpad
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_transform(string_split(note, ''), lambda x: lpad(x, 1000, 'z'))) > 5

-- R656 a lambda over another list of the row
-- error: there is no column page
-- at: page
-- hint: columns here: x
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_filter(string_split(note, ' '), lambda x: list_contains(string_split(page, ' '), x))) > 0

-- R657 an aggregate of the outer row alone
-- error: this aggregate reads nothing of its own subquery
-- at: MAX
SELECT COUNT(DISTINCT user_id) FROM visits v WHERE (SELECT MAX(v.ms) FROM pages p) > 5

-- R658 a calculation around a subquery
-- error: this calculation does not take a subquery directly
-- at: MAX
-- hint: select the value in a subquery of FROM
SELECT COUNT(DISTINCT user_id) FROM users u WHERE (SELECT MAX(day) FROM visits v WHERE v.user_id = u.user_id) + 7 > DATE '2024-01-01'

-- R659 a rewrite from the data
-- error: regexp_replace is not allowed with (VARCHAR, VARCHAR,
-- at: regexp_replace
-- hint: allowed: regexp_replace(VARCHAR,
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_replace(note, '(.*)', country) = 'x'

-- R660 padding by nothing
-- error: lpad is not allowed with (VARCHAR, INTEGER, VARCHAR)
-- at: lpad
-- hint: allowed: lpad(VARCHAR, literal LENGTH,
SELECT COUNT(DISTINCT user_id) FROM visits WHERE lpad(note, 10, '') = 'x'

-- R661 padding beyond measure
-- error: lpad is not allowed with (VARCHAR, INTEGER, VARCHAR)
-- at: lpad
-- hint: allowed: lpad(VARCHAR, literal LENGTH,
SELECT COUNT(DISTINCT user_id) FROM visits WHERE lpad(note, 100000, 'x') = 'x'

-- R662 a JSON path with a wildcard
-- error: a JSON path is a literal without `*`
-- at: note
-- hint: note ->> '$.a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ->> '$.*' = 'x'

-- R663 a JSON path from the data
-- error: a JSON path is a literal without `*`
-- at: note
-- hint: note ->> '$.a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ->> page = 'x'

-- R680 a JSON path that looks everywhere
-- error: a JSON path is a literal without `*`
-- at: note
-- hint: note ->> '$.a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note ->> '$..a' = 'x'

-- R681 a time with a zone
-- error: strptime does not take this literal
-- at: strptime
SELECT COUNT(DISTINCT user_id) FROM visits WHERE strptime(note, '%Z') IS NULL

-- R682 a long text for each item of a list
-- error: the texts in a lambda are longer than 1000 characters
-- at: x
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(list_transform(string_split(note, ','), lambda x: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')) > 1

-- R683 a long format
-- error: strftime is not allowed with (DATE, VARCHAR)
-- at: strftime
-- hint: allowed: strftime
SELECT COUNT(DISTINCT user_id) FROM visits WHERE strftime(day, '%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A%%A') = 'a'

-- R684 two intervals that compare equal: the engine takes one for the other
-- error: the engine cannot tell 30 day and 1 month apart in one statement
-- at: day #2
SELECT COUNT(DISTINCT user_id) FILTER (WHERE day - INTERVAL 1 MONTH > DATE '2024-01-31') AS a, COUNT(DISTINCT user_id) FILTER (WHERE day - INTERVAL 30 DAY > DATE '2024-01-31') AS b FROM visits

-- R760 a pattern that matches a part of a character
-- error: regexp_extract does not take \C, which matches a part of a character
-- at: regexp_extract
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_extract(note, 'a\C') = 'a'

-- R761 a pattern that splits characters of some texts
-- error: string_split_regex does not take this literal: it fails on some values
-- at: string_split_regex
SELECT COUNT(DISTINCT user_id) FROM visits WHERE len(string_split_regex(note, '\B')) = 1

-- R762 a text function of a subquery, around which no TRY can stand
-- error: this calculation does not take a subquery directly
-- at: upper
-- hint: select the value in a subquery of FROM first
SELECT COUNT(DISTINCT user_id) FROM visits WHERE upper((SELECT MAX(page) FROM pages)) = 'C'

-- R910 a part of a date that may be a column
-- error: `day` is a part of a date, and may be a column
-- at: DATEDIFF
-- hint: date_diff('day', day, CURRENT_DATE)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_diff('day', day, CURRENT_DATE) > 5
SELECT COUNT(DISTINCT user_id) FROM visits WHERE DATEDIFF(day, day, CURRENT_DATE) > 5

-- R911 a function that dialects read differently
-- error: TIMESTAMPDIFF counts full units in some dialects, and their boundaries in others
-- at: TIMESTAMPDIFF
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_sub('day', day, now()) > 5 -- the same if TIMESTAMPDIFF counts full units, as in MySQL
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TIMESTAMPDIFF(DAY, day, now()) > 5

-- R912 a format that pads its parts
-- error: TO_CHAR pads this name with blanks
-- at: TO_CHAR
-- hint: strftime(day, '%B %Y')
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE strftime(day, '%B %Y') = 'January   2024' -- the name without blanks behind it is a guess
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TO_CHAR(day, 'Month YYYY') = 'January   2024'

-- R913 a name on both sides of joins in parentheses
-- error: column page occurs twice
-- at: q #3
-- hint: give one of them another name
SELECT COUNT(DISTINCT q.user_id) FROM (visits JOIN baskets USING (user_id)) AS q WHERE q.page = 'a'

-- R914 two UNNEST in a select list
-- obstacles: more than one UNNEST in a select list, or one beside windows | more than one UNNEST in a select list, or one beside windows
-- error: more than one UNNEST in a select list, or one beside windows or groups, is not supported here over private data
-- at: UNNEST
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, UNNEST(string_split(note, ' ')), UNNEST(string_split(page, ' ')) FROM visits)

-- C7650 QUALIFY keeps rows before a list becomes rows
-- error: more than one UNNEST in a select list, or one beside windows or groups, is not supported here over private data
-- at: unnest
SELECT x, COUNT(*) FROM (SELECT unnest([1, 2, 3]) AS x, ms FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) = 1) GROUP BY x

-- C7651 so it does where the ends of a series are released
-- error: this is not supported over released numbers
-- at: unnest
SELECT COUNT(*) FROM (SELECT unnest(generate_series(a, b)) AS x FROM (SELECT MIN(ms, contribution_bounds_per_row => (0, 100)) AS a, MAX(ms, contribution_bounds_per_row => (0, 100)) AS b FROM visits) QUALIFY ROW_NUMBER() OVER () <= 1)

-- R915 a table of another database
-- error: there is no table db.other.visits
-- at: db
-- hint: did you mean visits?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM db.other.visits

-- R2301 a mistyped column in many places, all of which the rewrite changes
-- error: there is no column mss
-- at: mss
-- hint: did you mean ms?
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > 1 AND ms <> 2 AND (ms <> 3 OR ms <> 4) AND ms <> 5 AND (ms <> 6 OR ms <> 7) AND ms <> 8 AND ms <> 9
SELECT COUNT(DISTINCT user_id) FROM visits WHERE mss > 1 AND mss <> 2 AND (mss <> 3 OR mss <> 4) AND mss <> 5 AND (mss <> 6 OR mss <> 7) AND mss <> 8 AND mss <> 9

-- R3301 a text with an offset, which a TIMESTAMP has not
-- error: this text has an offset or a zone, and a TIMESTAMP has none
-- at: day
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) >= '2024-07-02 00:00:00' -- the same if times are of that zone
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) >= '2024-07-02 00:00:00+02:00'

-- R3302 an instant beside a time without a zone
-- error: a DATE has no zone, and a TIMESTAMPTZ is an instant
-- at: day
-- hint: CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC', if the DATE is of that zone; or x AT TIME ZONE 'UTC', the time in it
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > day

-- R3303 a zone from a column
-- error: the zone is a text: with a name that no zone has, a row would make the statement fail
-- at: note
-- hint: ts AT TIME ZONE 'Europe/Berlin'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE note > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3304 a zone that does not exist
-- error: there is no time zone 'Europe/Belin'
-- at: 'Europe/Belin'
-- hint: did you mean Europe/Berlin?
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Belin' > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3305 a day in a zone
-- error: AT TIME ZONE is of a TIMESTAMP or TIMESTAMPTZ, this is DATE
-- at: day
-- hint: CAST(day AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE day AT TIME ZONE 'Europe/Berlin' > TIMESTAMPTZ '2024-07-02 00:00:00+02:00'

-- R3306 a text without a sense as an instant
-- error: this text is not a valid TIMESTAMPTZ
-- at: 'soon'
-- hint: write it as '2024-07-02 00:00:00+02:00'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(day AS TIMESTAMP) AT TIME ZONE 'UTC' > CAST('soon' AS TIMESTAMPTZ)

-- R4201 buckets of a width that a column says
-- error: WIDTH_BUCKET takes a value, two numbers and how many
-- at: WIDTH_BUCKET
-- hint: WIDTH_BUCKET(cost, 0, 100, 10)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE WIDTH_BUCKET(ms, 0, user_id, 10) = 1

-- R4202 months that dialects count in two ways
-- error: TIMESTAMPDIFF counts full units in some dialects, and their boundaries in others
-- at: TIMESTAMPDIFF
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_sub('month', day, CAST('2024-02-01' AS DATE)) > 3 -- the same if TIMESTAMPDIFF counts full units, as in MySQL
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TIMESTAMPDIFF(month, day, DATE '2024-02-01') > 3

-- R4203 the name of a month that dialects write in two ways
-- error: TO_CHAR writes this name in capitals in PostgreSQL, and as Jan in Snowflake
-- at: TO_CHAR
-- hint: UPPER(strftime(day, '%b-%Y'))
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE UPPER(strftime(day, '%b-%Y')) = 'JAN-2024'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE TO_CHAR(day, 'MON-YYYY') = 'JAN-2024'

-- R5610 a rewrite with a group that the pattern has not
-- error: regexp_replace does not take this literal: it fails on some values
-- at: regexp_replace
SELECT COUNT(DISTINCT user_id) FROM visits WHERE regexp_replace(note, '(a)', '\2') = 'x'

-- R5902 a name that is a column, and the time of the statement
-- error: current_date is a column here
-- at: day #3
-- hint: "current_date", or today()
WITH v(user_id, day, current_date) AS (SELECT user_id, day, DATE '2024-01-02' FROM visits) SELECT COUNT(DISTINCT user_id) FROM v WHERE day > current_date

-- R5850 too many buckets
-- error: WIDTH_BUCKET makes 1 to 2000 buckets
-- at: 2001
-- hint: WIDTH_BUCKET(cost, 0, 100, 10)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE WIDTH_BUCKET(ms, 0, 130, 2001) = 3

-- R5853 an age that is compared with an INTERVAL
-- error: INTERVAL values are not compared
-- at: AGE
-- hint: EXTRACT(EPOCH FROM b - a) > 86400
SELECT COUNT(DISTINCT user_id) FROM visits WHERE AGE(TIMESTAMP '2025-01-01', CAST(day AS TIMESTAMP)) > INTERVAL 1 YEAR

-- R6990 several numbers behind one comparison: a number is no condition
-- error: a condition must be BOOLEAN, this is INTEGER
-- at: 2025
-- hint: YEAR(day) IN (2024, 2025)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE YEAR(day) IN (2024, 2025)
SELECT COUNT(DISTINCT user_id) FROM visits WHERE YEAR(day) = 2024 OR 2025

-- R6991 a format of TO_CHAR in strftime, which would give it for each day
-- error: a format of another function
-- at: strftime
-- hint: strftime(day, '%Y-%m')
-- rewrite: SELECT strftime(day, '%Y-%m') AS m, COUNT(DISTINCT user_id) FROM visits GROUP BY m
SELECT strftime(day, 'YYYY-MM') AS m, COUNT(DISTINCT user_id) FROM visits GROUP BY m

-- R8201 a text that an INTERVAL is added to, as MySQL reads it
-- error: an INTERVAL is added to a DATE or TIMESTAMP, or taken from one
-- at: note
-- hint: CAST(note AS TIMESTAMP)
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE CAST(note AS TIMESTAMP) + INTERVAL 2 DAY > DATE '2024-01-01'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note + INTERVAL 2 DAY > DATE '2024-01-01'
