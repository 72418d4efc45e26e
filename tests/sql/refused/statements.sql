-- R101 write in a CTE
-- error: a common table expression holds a SELECT: dpsql only reads
-- at: x
WITH x AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM x

-- R102 public statement with a private subquery
-- error: a user_id can have many rows here: say how many may count
-- at: COUNT
-- hint: COUNT(*, contribution_bounds_per_group => (0, 20)), or
-- rewrite: SELECT page, (SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits) FROM pages -- 20 is a guess
SELECT page, (SELECT COUNT(*) FROM visits) FROM pages

-- R103 the same in ORDER BY
-- error: MAX of VARCHAR over many units is not released
-- at: MAX
SELECT page FROM pages ORDER BY (SELECT MAX(note) FROM visits)

-- R106 row count from the catalog
-- error: the table function duckdb_tables is not supported
-- at: duckdb_tables
SELECT estimated_size FROM duckdb_tables() WHERE table_name = 'visits'

-- R107 row count from the PostgreSQL catalog
-- error: there is no table pg_class
-- at: pg_catalog
-- hint: tables are visits, users, pages
SELECT reltuples FROM pg_catalog.pg_class WHERE relname = 'visits'

-- R109 SQL in a string
-- error: the table function query is not supported
-- at: query
SELECT * FROM query('SELECT * FROM visits')

-- R110 table by name in a string
-- error: the table function query_table is not supported
-- at: query_table
SELECT * FROM query_table('visits')

-- R111 serialised SQL
-- error: the table function json_execute_serialized_sql is not
-- at: json_execute_serialized_sql
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM visits'))

-- R113 settings and variables
-- error: the function current_setting is not supported
-- at: current_setting
SELECT current_setting('temp_directory'), getvariable('x')

-- R114 the engine's own EXPLAIN ANALYZE
-- error: EXPLAIN ANALYZE would run the statement
-- at: ANALYZE
-- hint: EXPLAIN SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page -- asks something else: it is not run
EXPLAIN ANALYZE SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY page

-- R115 copy
-- error: COPY statements are not run: dpsql only reads
-- at: COPY
-- hint: statements are SELECT, EXPLAIN, SHOW,
COPY visits TO 'out.csv'

-- R701 a file
-- error: there is no table visits.parquet
-- at: 'visits.parquet'
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: how many user_id there are
SELECT * FROM 'visits.parquet'

-- R702 a file by its function
-- error: the table function read_parquet is not supported
-- at: read_parquet
SELECT * FROM read_parquet('visits.parquet')

-- R703 metadata of a file
-- error: the table function parquet_metadata is not supported
-- at: parquet_metadata
SELECT * FROM parquet_metadata('visits.parquet')

-- R704 glob
-- error: the table function glob is not supported
-- at: glob
SELECT * FROM glob('*')

-- R705 SUMMARIZE
-- error: SUMMARIZE statements are not run: dpsql only reads
-- at: SUMMARIZE
-- hint: statements are SELECT, EXPLAIN, SHOW,
SUMMARIZE visits

-- R706 PRAGMA
-- error: PRAGMA statements are not run: dpsql only reads
-- at: PRAGMA
-- hint: statements are SELECT, EXPLAIN, SHOW,
PRAGMA database_size

-- R707 ATTACH
-- error: ATTACH statements are not run: dpsql only reads
-- at: ATTACH
-- hint: statements are SELECT, EXPLAIN, SHOW,
ATTACH 'x.duckdb'

-- R708 INSERT
-- error: INSERT statements are not run: dpsql only reads
-- at: INSERT
-- hint: statements are SELECT, EXPLAIN, SHOW,
INSERT INTO pages VALUES ('q', 'q')

-- R709 CREATE
-- error: CREATE statements are not run: dpsql only reads
-- at: CREATE
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: the answer is shown, not kept; how many user_id there are
CREATE TABLE x AS SELECT * FROM visits

-- R710 CALL
-- error: CALL statements are not run: dpsql only reads
-- at: CALL
-- hint: statements are SELECT, EXPLAIN, SHOW,
CALL pragma_database_size()

-- R711 a setting of the engine
-- error: there is no setting threads
-- at: threads
-- hint: settings are dp_epsilon, dp_error,
SET threads = 1

-- R712 a variable
-- error: there is no setting variable
-- at: VARIABLE
-- hint: settings are dp_epsilon, dp_error,
SET VARIABLE x = 5

-- R713 SHOW of something else
-- error: SHOW does not support this
-- at: ALL
-- hint: SHOW PRIVACY BUDGET (BY PARTS), SHOW TABLES,
SHOW ALL

-- R714 SHOW a table
-- error: SHOW does not support this
-- at: visits
-- hint: SHOW PRIVACY BUDGET (BY PARTS), SHOW TABLES,
SHOW visits

-- R715 DESCRIBE a query
-- error: DESCRIBE takes one table
-- at: SELECT
-- hint: DESCRIBE visits
-- rewrite: DESCRIBE visits
DESCRIBE SELECT * FROM visits

-- R716 DESCRIBE what is not there
-- error: there is no table visit
-- at: visit
-- hint: did you mean visits?
-- rewrite: DESCRIBE visits
DESCRIBE visit

-- R717 two statements
-- error: one statement at a time: found `;` inside
-- at: ;
-- hint: SELECT 1 -- asks something else: the first statement alone; ask the others after it
SELECT 1; SELECT 2

-- R718 a misspelt SELECT
-- error: cannot read `SELCT`
-- at: SELCT
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: how many user_id there are
SELCT page FROM visits

-- R719 an unclosed text
-- error: a quoted text, name or comment is not closed
-- at: '
-- hint: 'a'
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'a'
SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = 'a

-- R720 an unclosed parenthesis
-- error: syntax error: cannot read `FROM` here
-- at: FROM
-- hint: user_id) FROM
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id FROM visits

-- R721 a parenthesis too many
-- error: syntax error: cannot read `)` here
-- at: ) #2
-- hint: ) FROM
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id)) FROM visits

-- R722 nothing after WHERE
-- error: syntax error: the statement ends too early
-- at: WHERE
-- hint: write what follows WHERE
-- rewrite: SELECT COUNT(DISTINCT user_id) FROM visits
SELECT COUNT(DISTINCT user_id) FROM visits WHERE

-- R724 VALUES with a private subquery
-- error: only SELECT statements are run
-- at: VALUES
VALUES ((SELECT MAX(note) FROM visits))

-- R725 options on a public statement
-- error: this statement names no private table, so there is nothing
-- at: epsilon
-- hint: leave the clause out
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) category FROM pages

-- R726 TOP on a public statement
-- error: this statement names no private table, so there is nothing
-- at: TOP
-- hint: leave the clause out
SELECT category, COUNT(*) FROM pages GROUP BY category TOP 2

-- R727 EXPLAIN of a SET
-- error: EXPLAIN takes a SELECT, a REFINE RELEASE, or OPEN, CHECK, ASK, REFILL STREAM or CLOSE STREAM
-- at: SET
EXPLAIN SET dp_epsilon = 1

-- R728 EXPLAIN in a format that is none
-- error: EXPLAIN has FORMAT JSON, FORMAT CERTIFICATE, or none
-- at: XML
EXPLAIN (FORMAT XML) SELECT 1

-- R729 an unknown table with a near name
-- error: there is no table page
-- at: page
-- hint: did you mean pages?
-- rewrite: SELECT * FROM pages
SELECT * FROM page

-- R730 SELECT INTO
-- error: SELECT INTO writes: dpsql only reads
-- at: x
SELECT * INTO x FROM pages

-- R731 recursion over public data
-- error: recursive common table expressions are not supported
-- at: t
WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT * FROM t

-- R732 the table given as a statement
-- error: TABLE statements are not run: dpsql only reads
-- at: TABLE
-- hint: statements are SELECT, EXPLAIN, SHOW,
TABLE visits

-- R733 nothing
-- error: there is no statement
-- at: ;
;

-- R734 a setting's value
-- error: option epsilon: epsilon must lie between 1e-06 and 1,000,000
-- at: 0
-- hint: 0.5
-- rewrite: SET dp_epsilon = 0.5 -- 0.5 is a guess
SET dp_epsilon = 0

-- R735 a setting without a value
-- error: SET needs a value
-- at: dp_epsilon
-- hint: write SET dp_epsilon = ...
SET dp_epsilon

-- R736 FROM without SELECT
-- error: the rows of a private table are counted, never shown
-- at: FROM
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM visits -- asks something else: how many rows there are; 20 is a guess
FROM visits

-- R737 explain of nothing
-- error: there is no statement
-- at: EXPLAIN
EXPLAIN

-- R738 SHOW of nothing
-- error: SHOW does not support this
-- at: SHOW
-- hint: SHOW PRIVACY BUDGET (BY PARTS), SHOW TABLES,
SHOW

-- R739 nextval
-- error: the function nextval is not supported
-- at: nextval
SELECT nextval('s')

-- R740 write_log
-- error: the function write_log is not supported
-- at: write_log
SELECT write_log('x')

-- R751 a name that is a CTE's elsewhere
-- error: there is no table duckdb_tables
-- at: duckdb_tables
-- hint: tables are visits, users, pages
SELECT table_name FROM duckdb_tables, (WITH duckdb_tables AS (SELECT 1 AS a) SELECT * FROM duckdb_tables) AS x

-- R752 a file by a CTE's name elsewhere
-- error: there is no table visits.parquet
-- at: "visits.parquet"
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) FROM (SELECT * FROM visits, (WITH "visits.parquet" AS (SELECT 1 AS a) SELECT * FROM "visits.parquet") AS x) -- asks something else: how many rows it has; 20 is a guess
SELECT * FROM "visits.parquet", (WITH "visits.parquet" AS (SELECT 1 AS a) SELECT * FROM "visits.parquet") AS x

-- R753 a function by its schema
-- error: this is not supported in a public statement
-- at: main
SELECT main.lower('X')

-- R754 a function as a method
-- error: this is not supported in a public statement
-- at: 'X'
SELECT 'X'.lower()

-- R755 a quoted function
-- error: the function "read_text" is not supported
-- at: "read_text"
SELECT "read_text"('/etc/passwd')

-- R756 a domain's own table
-- error: there is no table d0
-- at: dpsql_domain
-- hint: tables are visits, users, pages
SELECT * FROM dpsql_domain.d0

-- R860 a refinement of no release
-- error: you have no release 9999
-- at: 9999
-- hint: SHOW RELEASES lists yours
REFINE RELEASE 9999 TO 2

-- R861 a refinement of a release by name
-- error: REFINE takes the number of a release and an epsilon
-- at: RELEASE
-- hint: REFINE RELEASE 1 TO 0.5
REFINE RELEASE visits TO 2

-- R862 a refinement without an epsilon
-- error: REFINE takes the number of a release and an epsilon
-- at: RELEASE
-- hint: SHOW RELEASES lists the numbers
REFINE RELEASE 1

-- R863 a refinement to nothing
-- error: option epsilon: epsilon must lie between
-- at: 0
-- hint: 0.5
REFINE RELEASE 1 TO 0

-- R7702 a PIVOT statement of a subquery
-- error: PIVOT is not supported over private data
-- at: PIVOT
-- hint: SELECT page, country, COUNT(DISTINCT user_id) FROM (SELECT user_id, page, country FROM visits) AS p GROUP BY page, country -- asks something else: a row for each country, not a column
PIVOT (SELECT user_id, page, country FROM visits) ON country USING COUNT(DISTINCT user_id) GROUP BY page

-- R7703 a PIVOT statement of a table, with some values
-- error: PIVOT is not supported over private data
-- at: PIVOT
-- hint: SELECT country, COUNT(DISTINCT user_id) AS n FROM visits WHERE country IN ('DE', 'FR') GROUP BY country ORDER BY country -- asks something else: a row for each country, not a column, of all rows
PIVOT visits ON country IN ('DE', 'FR') USING COUNT(DISTINCT user_id) AS n ORDER BY country

-- R7500 a sample that reads as names of columns
-- error: SAMPLE is not supported here
-- at: SAMPLE
-- hint: SELECT COUNT(DISTINCT user_id) FROM visits -- asks something else: all rows, not a sample of them
SELECT COUNT(DISTINCT user_id) FROM visits SAMPLE (10)

-- R7501 a function of other systems with bounds by name, which other functions do not take
-- error: substr is not allowed in this form
-- at: mid
SELECT COUNT(DISTINCT user_id) FROM visits WHERE mid(note, 1, 2, contribution_bounds_per_row => (0, 9)) = 'a'

-- R7502 an option of another system, which is left out
-- error: there is no option min_group_size
-- at: min_group_size
-- hint: it without min_group_size = 20
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (min_group_size = 20) COUNT(DISTINCT user_id) FROM visits


-- R7750 an INTERVAL that is added to a released text, as MySQL reads days
-- error: an INTERVAL is added to a DATE or TIMESTAMP
-- at: b #3
-- hint: CAST(b.ym AS DATE)
-- rewrite: WITH m AS (SELECT strftime(day, '%Y-%m-01') AS ym, COUNT(DISTINCT user_id) AS n FROM visits WHERE day BETWEEN '2024-03-01' AND '2024-07-31' GROUP BY ym) SELECT a.ym, a.n - b.n AS more FROM m a JOIN m b ON a.ym = DATE_ADD(CAST(b.ym AS DATE), INTERVAL 1 MONTH) ORDER BY a.ym
WITH m AS (SELECT strftime(day, '%Y-%m-01') AS ym, COUNT(DISTINCT user_id) AS n FROM visits WHERE day BETWEEN '2024-03-01' AND '2024-07-31' GROUP BY ym) SELECT a.ym, a.n - b.n AS more FROM m a JOIN m b ON a.ym = DATE_ADD(b.ym, INTERVAL 1 MONTH) ORDER BY a.ym

-- R8200 a PIVOT statement with its values and keys
-- error: PIVOT is not supported over private data
-- at: PIVOT
-- hint: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') AS "DE", COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS "FR" FROM visits GROUP BY page
-- rewrite: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') AS "DE", COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS "FR" FROM visits GROUP BY page
PIVOT visits ON country IN ('DE', 'FR') USING COUNT(DISTINCT user_id) GROUP BY page

-- R8202 PIVOT of T-SQL with the columns that it makes
-- error: PIVOT is not supported here
-- at: COUNT
-- hint: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') AS DE, COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS FR FROM visits GROUP BY page
-- rewrite: SELECT page, COUNT(DISTINCT user_id) FILTER (WHERE country = 'DE') AS DE, COUNT(DISTINCT user_id) FILTER (WHERE country = 'FR') AS FR FROM visits GROUP BY page
SELECT page, [DE], [FR] FROM (SELECT page, country, user_id FROM visits) AS s PIVOT (COUNT(DISTINCT user_id) FOR country IN ([DE], [FR])) AS p
