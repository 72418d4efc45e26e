-- M01 a table's name in the singular
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visit GROUP BY clinic

-- M02 two letters of a table exchanged
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(DISTINCT patient_id) FROM vists WHERE clinic = 'Summit'

-- M03 the singular of a public table, with an alias
-- meant: SELECT d.chapter, COUNT(DISTINCT v.patient_id) AS patients FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY d.chapter
SELECT d.chapter, COUNT(DISTINCT v.patient_id) AS patients
FROM visits v JOIN diagnosis d ON v.diagnosis_code = d.code GROUP BY d.chapter

-- M04 a table that is called otherwise
-- meant: SELECT COUNT(*) FROM patients
SELECT COUNT(*) FROM users

-- M05 a schema in front of the table
-- meant: SELECT sex, COUNT(*) FROM patients GROUP BY sex
SELECT sex, COUNT(*) FROM dbo.patients GROUP BY sex

-- M06 a typo in a key
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5
SELECT clinc, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinc ORDER BY n DESC LIMIT 5

-- M07 an underscore forgotten
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patientid) AS n FROM visits GROUP BY clinic

-- M08 an underscore forgotten in a condition
-- meant: SELECT region, COUNT(*) AS n FROM patients WHERE birth_year >= 1990 GROUP BY region
SELECT region, COUNT(*) AS n FROM patients WHERE birthyear >= 1990 GROUP BY region

-- M09 the key is called otherwise on one side
-- meant: SELECT p.region, COUNT(DISTINCT p.patient_id) AS n FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.region
SELECT p.region, COUNT(DISTINCT p.patient_id) AS n FROM patients p JOIN visits v ON p.id = v.patient_id GROUP BY p.region

-- M10 the unit is called otherwise
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY clinic

-- M11 a synonym
-- meant: SELECT sex, COUNT(*) FROM patients GROUP BY sex
SELECT gender, COUNT(*) FROM patients GROUP BY gender

-- M12 a part of the column's name
-- meant: SELECT date_trunc('month', visit_date) AS month, COUNT(DISTINCT patient_id) FROM visits GROUP BY 1
SELECT date_trunc('month', date) AS month, COUNT(DISTINCT patient_id) FROM visits GROUP BY 1

-- M13 the column of another table
-- meant: SELECT region, COUNT(DISTINCT patient_id) FROM visits JOIN patients USING (patient_id) GROUP BY region
SELECT region, COUNT(DISTINCT patient_id) FROM visits GROUP BY region

-- M14 the column of a public table that was not joined
-- meant: SELECT chapter, COUNT(DISTINCT patient_id) AS n FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code GROUP BY chapter ORDER BY n DESC LIMIT 5
SELECT chapter, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY chapter ORDER BY n DESC LIMIT 5

-- M15 a condition on the other table
-- meant: SELECT COUNT(DISTINCT patient_id) FROM patients JOIN visits USING (patient_id) WHERE visit_date >= '2024-01-01'
SELECT COUNT(DISTINCT patient_id) FROM patients WHERE visit_date >= '2024-01-01'

-- M16 the wrong alias
-- meant: SELECT p.region, COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN patients p USING (patient_id) GROUP BY p.region
SELECT v.region, COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN patients p USING (patient_id) GROUP BY v.region

-- M17 a typo in COUNT
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT clinic, CUONT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic

-- M18 a typo in a function
-- meant: SELECT UPPER(clinic) AS c, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY c ORDER BY n DESC LIMIT 3
SELECT UPER(clinic) AS c, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY c ORDER BY n DESC LIMIT 3

-- M19 a letter of date_trunc forgotten
-- meant: SELECT date_trunc('month', visit_date) AS m, COUNT(DISTINCT patient_id) FROM visits GROUP BY m
SELECT date_trunk('month', visit_date) AS m, COUNT(DISTINCT patient_id) FROM visits GROUP BY m

-- M20 a typo in SELECT
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELCT COUNT(DISTINCT patient_id) FROM visits

-- M21 FORM
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) FORM visits GROUP BY clinic

-- M22 WERE
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(DISTINCT patient_id) FROM visits WERE clinic = 'Summit'

-- M23 GRUOP
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GRUOP BY clinic

-- M24 a missing comma
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic

-- M25 a missing parenthesis
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(DISTINCT patient_id FROM visits

-- M26 a missing quote
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit

-- M27 double quotes around a text
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = "Summit"

-- M28 a comma before FROM, and && for AND
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits WHERE minutes > 30 AND clinic <> 'Summit' GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits WHERE minutes > 30 && clinic <> 'Summit' GROUP BY clinic

-- M29 HAVING before GROUP BY
-- meant: itself
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits HAVING n > 1000 GROUP BY clinic

-- M30 WHERE after GROUP BY
-- meant: itself
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic WHERE minutes > 30

-- M31 a missing GROUP BY
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) FROM visits

-- M32 a missing GROUP BY of one of two keys
-- meant: SELECT region, sex, COUNT(*) FROM patients GROUP BY region, sex
SELECT region, sex, COUNT(*) FROM patients GROUP BY region

-- M33 an aggregate in WHERE
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic HAVING COUNT(DISTINCT patient_id) > 1000
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits WHERE COUNT(DISTINCT patient_id) > 1000 GROUP BY clinic

-- M34 a missing epsilon
-- policy: no defaults
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(DISTINCT patient_id) FROM visits

-- M35 a missing epsilon and delta
-- policy: no defaults
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-8, epsilon = 0.5) note, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 10
SELECT note, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 10

-- M36 an epsilon above the cap
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(DISTINCT patient_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5) COUNT(DISTINCT patient_id) FROM visits

-- M37 a typo in an option
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilom = 1) COUNT(DISTINCT patient_id) FROM visits

-- M38 a typo in the clause
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits
SELECT WITH DIFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits

-- M39 OPTIONS forgotten
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits

-- M40 the clause at the end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(DISTINCT patient_id) FROM visits WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)

-- M41 T-SQL's TOP
-- meant: itself
SELECT TOP 5 clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC

-- M42 T-SQL's brackets and date functions
-- meant: SELECT "clinic", COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= DATEADD(day, -30, GETDATE()) GROUP BY "clinic"
SELECT [clinic], COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date >= DATEADD(day, -30, GETDATE()) GROUP BY [clinic]

-- M43 MySQL's LIMIT
-- meant: itself
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 0, 5

-- M44 MySQL's DATE_FORMAT and backticks
-- meant: itself
SELECT DATE_FORMAT(`visit_date`, '%Y-%m') AS m, COUNT(DISTINCT `patient_id`) AS n FROM `visits` GROUP BY m

-- M45 Oracle's and PostgreSQL's TO_CHAR
-- meant: itself
SELECT TO_CHAR(visit_date, 'YYYY-MM') AS m, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY m

-- M46 GROUP_CONCAT
-- meant: SELECT clinic, note, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic, note
SELECT clinic, GROUP_CONCAT(note) FROM visits GROUP BY clinic

-- M47 rows counted without a bound
-- meant: SELECT clinic, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5

-- M48 a look at the rows
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT * FROM visits LIMIT 10

-- M49 the values of a column
-- meant: SELECT clinic FROM dp_domain(visits.clinic)
SELECT DISTINCT clinic FROM visits

-- M50 one line a patient
-- meant: SELECT n, COUNT(*) AS units FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY n ORDER BY units DESC LIMIT 10
SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id ORDER BY n DESC LIMIT 10

-- M51 the last month of the data
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits WHERE visit_date > $value - INTERVAL 30 DAY GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits
WHERE visit_date > (SELECT MAX(visit_date) FROM visits) - INTERVAL 30 DAY GROUP BY clinic

-- M52 longer than the average
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE minutes > $value
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE minutes > (SELECT AVG(minutes) FROM visits)

-- M53 an average
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, AVG(minutes) FROM visits GROUP BY clinic

-- M54 a sum
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE visit_date >= '2024-01-01'
SELECT SUM(cost) FROM visits WHERE visit_date >= '2024-01-01'

-- M55 a private join on the wrong column
-- meant: SELECT COUNT(DISTINCT v.patient_id) FROM visits v JOIN patients p ON v.patient_id = p.patient_id WHERE p.sex = 'F'
SELECT COUNT(DISTINCT v.patient_id) FROM visits v JOIN patients p ON v.visit_id = p.patient_id WHERE p.sex = 'F'

-- M56 a private join without a condition
-- meant: SELECT p.sex, COUNT(DISTINCT v.patient_id) FROM visits v, patients p WHERE v.patient_id = p.patient_id AND v.clinic = 'Summit' GROUP BY p.sex
SELECT p.sex, COUNT(DISTINCT v.patient_id) FROM visits v, patients p WHERE v.clinic = 'Summit' GROUP BY p.sex

-- M57 LIKE on a number
-- meant: SELECT COUNT(*) FROM patients WHERE CAST(birth_year AS VARCHAR) LIKE '19%'
SELECT COUNT(*) FROM patients WHERE birth_year LIKE '19%'

-- M58 several at once
-- meant: SELECT clinic, COUNT(*) AS n, MEDIAN(minutes) FROM visits WHERE year(visit_date) = 2024 GROUP BY clinic ORDER BY n DESC
SELECT clinc, COUNT(*) AS n, MEDAIN(minutes) FROM visits WHERE yera(visit_date) = 2024 GROUP BY clinc ORDER BY n DESC

-- M59 an aggregate of an aggregate
-- meant: SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT AVG(COUNT(*)) FROM visits GROUP BY patient_id

-- M60 the name that another system gives a count
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 3
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY count DESC LIMIT 3

-- M61 a condition on rows in HAVING
-- meant: SELECT clinic, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY clinic HAVING n > 100
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING n > 100 AND cost > 50

-- M62 two conditions on rows in HAVING, one of them an OR
-- meant: SELECT clinic, COUNT(*) AS n FROM visits WHERE minutes > 5 AND (cost > 50 OR cost < 9) GROUP BY clinic HAVING n > 100
SELECT clinic, COUNT(*) AS n FROM visits WHERE minutes > 5 GROUP BY clinic HAVING (cost > 50 OR cost < 9) AND n > 100

-- M63 a window in the place of GROUP BY
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) OVER (PARTITION BY clinic) AS n FROM visits

-- M64 a list as a value
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE diagnosis_code IN (SELECT code FROM diagnoses WHERE chapter = 'Neoplasms')
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE diagnosis_code = (SELECT code FROM diagnoses WHERE chapter = 'Neoplasms')

-- M65 an average in WHERE
-- meant: SELECT clinic, AVG(cost) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) GROUP BY clinic
SELECT clinic, AVG(cost) FROM visits WHERE cost > AVG(cost) GROUP BY clinic

-- M66 MySQL's different pairs
-- meant: SELECT COUNT(DISTINCT (clinic, minutes)) FROM visits
SELECT COUNT(DISTINCT clinic, minutes) FROM visits

-- M67 rows joined by a value that many share
-- meant: SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.clinic = b.clinic
SELECT COUNT(*) FROM visits a JOIN visits b ON a.clinic = b.clinic

-- M68 the most frequent value of each group
-- meant: SELECT region, clinic, COUNT(DISTINCT visits.patient_id) AS n FROM visits JOIN patients USING (patient_id) GROUP BY region, clinic
SELECT region, MODE(clinic) FROM visits JOIN patients USING (patient_id) GROUP BY region

-- M69 a list of each group
-- meant: SELECT region, clinic, COUNT(DISTINCT visits.patient_id) AS n FROM visits JOIN patients USING (patient_id) GROUP BY region, clinic
SELECT region, STRING_AGG(DISTINCT clinic, ', ') FROM visits JOIN patients USING (patient_id) GROUP BY region

-- M70 the condition on a count of one patient
-- meant: SELECT COUNT(*) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id HAVING SUM(cost) > 1000)
SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id HAVING SUM(cost) > 1000

-- M71 the alias of a count that was not given
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY count DESC LIMIT 5

-- M72 a comma forgotten before a call
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic COUNT(*) FROM visits GROUP BY clinic

-- M73 CASE without END
-- meant: SELECT clinic, SUM(CASE WHEN cost > 50 THEN 1 END) AS n FROM visits GROUP BY clinic
SELECT clinic, SUM(CASE WHEN cost > 50 THEN 1) AS n FROM visits GROUP BY clinic

-- M74 EXTRACT without FROM
-- meant: SELECT EXTRACT(MONTH FROM visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT EXTRACT(MONTH visit_date), COUNT(*) FROM visits GROUP BY 1

-- M75 ROLLUP without parentheses
-- meant: SELECT clinic, COUNT(*) n FROM visits GROUP BY ROLLUP (clinic)
SELECT clinic, COUNT(*) n FROM visits GROUP BY ROLLUP clinic

-- M76 NULLS without an end
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY clinic DESC NULLS LAST
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY clinic DESC NULLS

-- M77 BETWEEN with a comma
-- meant: SELECT COUNT(*) FROM visits WHERE cost BETWEEN 10 AND 20
SELECT COUNT(*) FROM visits WHERE cost BETWEEN 10, 20

-- M78 a comparison the other way round
-- meant: SELECT COUNT(*) FROM visits WHERE cost >= 10
SELECT COUNT(*) FROM visits WHERE cost => 10

-- M79 a second text without its comparison
-- meant: SELECT diagnosis_code, COUNT(*) FROM visits WHERE diagnosis_code LIKE 'C%' OR diagnosis_code LIKE 'D%' GROUP BY diagnosis_code
SELECT diagnosis_code, COUNT(*) FROM visits WHERE diagnosis_code LIKE 'C%' OR 'D%' GROUP BY diagnosis_code

-- M80 IN without parentheses
-- meant: SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit')
SELECT COUNT(*) FROM visits WHERE clinic IN 'Summit'

-- M81 a date compared with a year
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) = 2024
SELECT COUNT(*) FROM visits WHERE visit_date = 2024

-- M82 a date cast to its month
-- meant: SELECT date_trunc('month', visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT visit_date::month, COUNT(*) FROM visits GROUP BY 1

-- M83 a window in HAVING
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic QUALIFY AVG(cost) > AVG(AVG(cost)) OVER ()
SELECT clinic, AVG(cost) FROM visits GROUP BY clinic HAVING AVG(cost) > AVG(AVG(cost)) OVER ()

-- M84 the percentile in percent
-- meant: SELECT clinic, PERCENTILE(cost, 0.5) FROM visits GROUP BY clinic
SELECT clinic, PERCENTILE(cost, 50) FROM visits GROUP BY clinic

-- M85 a join on one column alone
-- meant: SELECT clinic, COUNT(*) FROM visits AS v JOIN patients AS p USING (patient_id) GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits AS v JOIN patients AS p ON patient_id GROUP BY clinic

-- M86 IS with a text
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic IS 'Summit'

-- M87 several patterns behind LIKE
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE (clinic LIKE 'S%' OR clinic LIKE 'B%') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE clinic LIKE ANY ('S%', 'B%') GROUP BY clinic

-- M88 buckets within groups
-- meant: SELECT clinic, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM visits GROUP BY clinic
SELECT quartile, COUNT(*) FROM (SELECT NTILE(4) OVER (PARTITION BY clinic ORDER BY cost) AS quartile FROM visits) GROUP BY quartile

-- M89 a key that is not grouped by
-- meant: SELECT YEAR(visit_date), MONTH(visit_date), COUNT(*) FROM visits GROUP BY YEAR(visit_date), MONTH(visit_date)
SELECT YEAR(visit_date), MONTH(visit_date), COUNT(*) FROM visits GROUP BY YEAR(visit_date)

-- M90 how often each note occurs
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) HISTOGRAM(note) FROM visits
SELECT HISTOGRAM(note) FROM visits

-- M91 GROUPBY in one word
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUPBY clinic

-- M92 ORDER BY without what follows
-- meant: SELECT clinic, COUNT(*), FROM visits GROUP BY clinic
SELECT clinic, COUNT(*), FROM visits GROUP BY clinic ORDER BY

-- M93 one line a unit, of a number without a name
-- meant: SELECT n, COUNT(*) AS units FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY n ORDER BY units DESC LIMIT 10
SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id

-- M94 a list of units by DISTINCT
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE diagnosis_code = 'J45'
SELECT DISTINCT patient_id FROM visits WHERE diagnosis_code = 'J45'

-- M95 a number beside the keys
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
SELECT clinic, cost FROM visits GROUP BY clinic

-- M96 a public table's key is called as the column that refers to it
-- meant: SELECT d.diagnosis, COUNT(*) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY d.diagnosis
SELECT d.diagnosis, COUNT(*) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.diagnosis_code GROUP BY d.diagnosis

-- M97 skewness
-- meant: SELECT STDDEV(cost), VARIANCE(cost), QUANTILE_CONT(cost, [0.05, 0.25, 0.5, 0.75, 0.95]) FROM visits
SELECT STDDEV(cost), VARIANCE(cost), SKEWNESS(cost) FROM visits

-- M98 a percentile without its value
-- meant: SELECT clinic, PERCENTILE_CONT(cost, 0.5) FROM visits GROUP BY clinic
SELECT clinic, PERCENTILE_CONT(0.5) FROM visits GROUP BY clinic

-- M99 the average number of groups, in HAVING
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) / COUNT(*) FROM visits GROUP BY clinic HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY clinic))
SELECT clinic, COUNT(DISTINCT patient_id) / COUNT(*) FROM visits GROUP BY clinic HAVING COUNT(*) > (SELECT AVG(COUNT(*)) FROM visits GROUP BY clinic)

-- M100 a share of all groups, without a window
-- meant: SELECT clinic, 100 * COUNT(*) / SUM(COUNT(*)) OVER () FROM visits GROUP BY clinic
SELECT clinic, 100 * COUNT(*) / SUM(COUNT(*)) FROM visits GROUP BY clinic

-- M101 a key that the subquery does not have
-- meant: SELECT AVG(n) FROM (SELECT clinic, patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id, clinic) WHERE n > 3 GROUP BY clinic
SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) WHERE n > 3 GROUP BY clinic

-- M102 the average of sums of each unit
-- meant: SELECT AVG(n) FROM (SELECT SUM(cost) AS n FROM visits GROUP BY patient_id)
SELECT AVG(SUM(cost)) FROM visits GROUP BY patient_id

-- M103 the average of each row's own group
-- meant: SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits)
SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits WHERE clinic = v.clinic)

-- M104 CASE without END before a name
-- meant: SELECT CASE WHEN birth_year < 1960 THEN 'old' WHEN birth_year < 1990 THEN 'middle' ELSE 'young' END AS grp, COUNT(*) FROM patients GROUP BY grp
SELECT CASE WHEN birth_year < 1960 THEN 'old' WHEN birth_year < 1990 THEN 'middle' ELSE 'young' AS grp, COUNT(*) FROM patients GROUP BY grp

-- M105 PIVOT
-- meant: SELECT SUM(minutes) FILTER (WHERE clinic = 'Summit') AS Summit, SUM(minutes) FILTER (WHERE clinic = 'Orchard') AS Orchard FROM visits
SELECT * FROM (SELECT clinic, minutes FROM visits) PIVOT (SUM(minutes) FOR clinic IN ('Summit', 'Orchard'))

-- M106 the first of a text
-- meant: SELECT MODE(clinic), MODE(visit_date) FROM visits
SELECT FIRST(clinic), LAST(visit_date) FROM visits

-- M107 a set operation ordered by a name that nothing has
-- meant: SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex UNION SELECT 'total', COUNT(*) FROM patients ORDER BY n
SELECT sex, COUNT(*) FROM patients GROUP BY sex UNION SELECT 'total', COUNT(*) FROM patients ORDER BY n

-- M108 a hint for another system's locks
-- meant: SELECT COUNT(*) FROM visits WHERE clinic LIKE '%ferry%'
SELECT COUNT(*) FROM visits WITH (NOLOCK) WHERE clinic LIKE '%ferry%'

-- M109 HAVING calls a number by a name that it lacks
-- meant: SELECT clinic, COUNTIF(cost > 100) AS n FROM visits GROUP BY clinic HAVING n > 10
SELECT clinic, COUNTIF(cost > 100) FROM visits GROUP BY clinic HAVING n > 10

-- M110 a text without quotes
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic = Summit

-- M111 curled quotes
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic = ‘Summit’

-- M112 IN without parentheses
-- meant: SELECT COUNT(DISTINCT(patient_id)) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT COUNT(DISTINCT(patient_id)) FROM visits WHERE clinic IN 'Summit', 'Orchard'

-- M113 COUNT DISTINCT without parentheses
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT DISTINCT patient_id FROM visits

-- M114 a comparison without its left side
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > 10 AND minutes < 20
SELECT COUNT(*) FROM visits WHERE minutes > 10 AND < 20

-- M115 NOT =
-- meant: SELECT COUNT(*) FROM visits WHERE clinic <> 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic NOT = 'Summit'

-- M116 a column of a table that is joined by its domain
-- meant: SELECT diagnosis, AVG(minutes) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code WHERE diagnosis LIKE 'Asthma%' GROUP BY diagnosis
SELECT diagnosis, AVG(minutes) FROM visits WHERE diagnosis LIKE 'Asthma%' GROUP BY diagnosis

-- M117 a short name of a month's part
-- meant: SELECT DATE_TRUNC('month', visit_date) m, COUNT(*) FROM visits GROUP BY m
SELECT DATE_TRUNC('mon', visit_date) m, COUNT(*) FROM visits GROUP BY m

-- M118 the name of a month
-- meant: SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) = 3
SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) = 'March'

-- M119 a date without its type
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > DATE_SUB(DATE '2024-12-31', INTERVAL 1 MONTH)
SELECT COUNT(*) FROM visits WHERE visit_date > DATE_SUB('2024-12-31', INTERVAL 1 MONTH)

-- M120 HAVING with the largest number
-- meant: SELECT clinic FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 1
SELECT clinic FROM visits GROUP BY clinic HAVING COUNT(*) = MAX(COUNT(*))

-- M121 a median of counts without groups
-- meant: SELECT COUNT(*) / COUNT(DISTINCT patient_id) AS visits_per_patient, (SELECT MEDIAN(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY patient_id)) FROM visits
SELECT COUNT(*) / COUNT(DISTINCT patient_id) AS visits_per_patient, MEDIAN(COUNT(*)) FROM visits

-- M122 a parenthesis that is not closed, at the end
-- meant: SELECT MEDIAN(n) FROM (SELECT COUNT(*) n FROM visits GROUP BY patient_id)
SELECT MEDIAN(n) FROM (SELECT COUNT(*) n FROM visits GROUP BY patient_id

-- M123 value and share of a percentile exchanged
-- meant: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM visits
SELECT PERCENTILE_CONT(cost) WITHIN GROUP (ORDER BY 0.5) FROM visits

-- M124 a quantile without its share
-- meant: SELECT QUANTILE(cost, 0.5) FROM visits
SELECT QUANTILE(cost) FROM visits

-- M125 FILTER WHERE without parentheses
-- meant: SELECT clinic, COUNT(*) FILTER (WHERE cost > 100) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FILTER WHERE cost > 100 FROM visits GROUP BY clinic

-- M126 an aggregate in WHERE over released rows
-- meant: WITH t AS (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic) SELECT clinic FROM t WHERE n = (SELECT MAX(n) FROM t)
WITH t AS (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic) SELECT clinic FROM t WHERE n = MAX(n)

-- M127 IN with a table
-- meant: SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits)
SELECT COUNT(*) FROM patients WHERE patient_id NOT IN visits

-- M128 two letters of COUNT(*) exchanged
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, CUONT(*) FROM visits GROUP BY clinic

-- M129 a date without quotes
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= DATE '2024-01-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= 2024-01-01

-- M130 BETWEEN .. TO
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2024-01-01' AND '2024-02-01'
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2024-01-01' TO '2024-02-01'

-- M131 a number with commas
-- meant: SELECT clinic, SUM(cost) / COUNT(patient_id) FROM visits GROUP BY clinic HAVING SUM(cost) > 1000000
SELECT clinic, SUM(cost) / COUNT(patient_id) FROM visits GROUP BY clinic HAVING SUM(cost) > 1,000,000

-- M132 an average in WHERE of groups
-- meant: SELECT clinic, ROUND(AVG(cost), 2) FROM visits GROUP BY clinic HAVING AVG(cost) > 50
SELECT clinic, ROUND(AVG(cost), 2) FROM visits WHERE AVG(cost) > 50 GROUP BY clinic

-- M133 a share by the name of a number
-- meant: SELECT clinic, COUNT(*) AS n, n / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) AS n, n / SUM(n) AS share FROM visits GROUP BY clinic

-- M134 UNIQUE for DISTINCT
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(UNIQUE patient_id) FROM visits

-- M135 the largest name of a unit
-- meant: SELECT COUNT(DISTINCT patient_id) FROM patients
SELECT MAX(patient_id) FROM patients

-- M136 a list of units by HAVING
-- meant: SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 100)
SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 100

-- M137 the rows with the largest value
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE cost = (SELECT MAX(cost) FROM visits)
SELECT * FROM visits WHERE cost = (SELECT MAX(cost) FROM visits)

-- M138 COUNT of all columns of a table
-- meant: SELECT p.region, COUNT(v.patient_id) FROM patients p LEFT JOIN visits v USING (patient_id) GROUP BY p.region
SELECT p.region, COUNT(v.*) FROM patients p LEFT JOIN visits v USING (patient_id) GROUP BY p.region

-- M139 a join by columns that one side lacks
-- meant: SELECT d.chapter, COUNT(*) FROM visits v, diagnoses d WHERE v.diagnosis_code = d.code GROUP BY d.chapter
SELECT d.chapter, COUNT(*) FROM visits v, diagnoses d WHERE v.diagnosis = d.diagnosis GROUP BY d.chapter

-- M140 several shares in one call
-- meant: SELECT clinic, QUANTILE_CONT(cost, [0.25, 0.75]) FROM visits GROUP BY clinic
SELECT clinic, PERCENTILE_CONT(cost, 0.25, 0.75) FROM visits GROUP BY clinic

-- M141 per cent behind a number
-- meant: SELECT clinic, COUNT_IF(cost > 100) / COUNT(*) * 100 FROM visits GROUP BY clinic
SELECT clinic, COUNT_IF(cost > 100) / COUNT(*) * 100% FROM visits GROUP BY clinic

-- M142 IF without parentheses
-- meant: SELECT clinic, SUM(CASE WHEN cost > 100 THEN 1 ELSE 0 END) FROM visits GROUP BY clinic
SELECT clinic, SUM(IF cost > 100 THEN 1 ELSE 0) FROM visits GROUP BY clinic

-- M143 CASE without WHEN
-- meant: SELECT clinic, COUNT(CASE WHEN cost > 100 THEN 1 END) FROM visits GROUP BY clinic
SELECT clinic, COUNT(CASE cost > 100 THEN 1 END) FROM visits GROUP BY clinic

-- M144 the pattern of a file name
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE clinic LIKE 'S%' GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE clinic LIKE 'S*' GROUP BY clinic

-- M145 a list of texts without quotes
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE clinic IN ('Summit', 'Orchard') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE clinic IN (Summit, Orchard) GROUP BY clinic

-- M146 T-SQL's name of a week day
-- meant: itself
SELECT DATENAME(weekday, visit_date) AS wd, COUNT(*) FROM visits GROUP BY DATENAME(weekday, visit_date)

-- M147 T-SQL's CONVERT with a style
-- meant: itself
SELECT CONVERT(varchar(7), visit_date, 120) AS ym, COUNT(*) FROM visits GROUP BY CONVERT(varchar(7), visit_date, 120)

-- M148 MySQL's text as a day
-- meant: itself
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN STR_TO_DATE('01.03.2024', '%d.%m.%Y') AND STR_TO_DATE('31.03.2024', '%d.%m.%Y')

-- M149 Oracle's ROWNUM beside groups
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 10
SELECT clinic, COUNT(*) FROM visits WHERE ROWNUM <= 10 GROUP BY clinic

-- M150 Oracle's outer join
-- meant: SELECT v.clinic, COUNT(*) FROM visits v LEFT JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY v.clinic
SELECT v.clinic, COUNT(*) FROM visits v, diagnoses d WHERE v.diagnosis_code = d.code(+) GROUP BY v.clinic

-- M151 Oracle's TRUNC of a day
-- meant: itself
SELECT TRUNC(visit_date, 'MM') m, SUM(cost) FROM visits GROUP BY TRUNC(visit_date, 'MM')

-- M152 Oracle's DECODE
-- meant: itself
SELECT DECODE(sex, 'F', 'female', 'M', 'male', 'other') s, COUNT(*) FROM patients GROUP BY DECODE(sex, 'F', 'female', 'M', 'male', 'other')

-- M153 SYSDATE
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date = current_date - 1
SELECT COUNT(*) FROM visits WHERE visit_date = SYSDATE - 1

-- M154 DISTINCT ON the unit
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT DISTINCT ON (patient_id) patient_id, visit_date, cost FROM visits ORDER BY patient_id, visit_date DESC

-- M155 a window in WHERE
-- meant: SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date) = 1) AS visits
SELECT COUNT(*) FROM visits WHERE ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date) = 1

-- M156 a window in WHERE beside another condition
-- meant: SELECT COUNT(*) FROM (SELECT * FROM visits WHERE cost > 10 QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date) = 1) AS visits
SELECT COUNT(*) FROM visits WHERE cost > 10 AND ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date) = 1

-- M157 groups in the order of a column of rows
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY AVG(cost)
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY cost

-- M158 the unit beside a group, of several tables
-- meant: SELECT COUNT(DISTINCT v.patient_id), COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY region
SELECT patient_id, COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY region

-- M159 a number with its unit
-- meant: SELECT COUNT(*) FROM visits WHERE cost > 100
SELECT COUNT(*) FROM visits WHERE cost > '100 EUR'

-- M160 a month 13
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > '2024-01-13'
SELECT COUNT(*) FROM visits WHERE visit_date > '2024-13-01'

-- M161 a day as in England
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= '2024-03-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= '01/03/2024'

-- M162 a day as Oracle shows it
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= '2024-03-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= '01-MAR-2024'

-- M163 USING a column of one table
-- meant: SELECT chapter, AVG(cost) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code GROUP BY chapter
SELECT chapter, AVG(cost) FROM visits JOIN diagnoses USING (diagnosis_code) GROUP BY chapter

-- M164 JOIN without ON
-- meant: SELECT chapter, AVG(cost) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code GROUP BY chapter
SELECT chapter, AVG(cost) FROM visits JOIN diagnoses GROUP BY chapter

-- M165 options at the end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' OPTIONS (epsilon = 1)

-- M166 a semicolon inside
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits; WHERE clinic = 'Summit'

-- M167 MySQL's SEPARATOR
-- meant: SELECT GROUP_CONCAT(DISTINCT clinic , ', ') FROM visits
SELECT GROUP_CONCAT(DISTINCT clinic SEPARATOR ', ') FROM visits

-- M168 MINUS
-- meant: SELECT clinic FROM visits EXCEPT SELECT clinic FROM visits WHERE cost > 300
SELECT clinic FROM visits MINUS SELECT clinic FROM visits WHERE cost > 300

-- M169 a comparison in CASE of a value
-- meant: SELECT clinic, SUM(CASE WHEN cost > 100 THEN 1 ELSE 0 END) FROM visits GROUP BY clinic
SELECT clinic, SUM(CASE cost WHEN > 100 THEN 1 ELSE 0 END) FROM visits GROUP BY clinic

-- M170 a name with blanks in brackets
-- meant: SELECT clinic, COUNT(*) AS "number of visits" FROM visits GROUP BY clinic ORDER BY "number of visits" DESC
SELECT clinic, COUNT(*) AS [number of visits] FROM visits GROUP BY clinic ORDER BY [number of visits] DESC

-- M171 groups above the average of all
-- meant: SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic QUALIFY n > AVG(COUNT(*)) OVER ()
SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic HAVING n > AVG(n)

-- M172 days without INTERVAL
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= CURRENT_DATE - INTERVAL 365 DAYS
SELECT COUNT(*) FROM visits WHERE visit_date >= CURRENT_DATE - 365 DAYS

-- M173 the place of a number in GROUP BY
-- meant: SELECT region, sex, COUNT(*) FROM patients GROUP BY 1, 2
SELECT region, sex, COUNT(*) FROM patients GROUP BY 1, 2, 3

-- M174 a value between two in one comparison
-- meant: SELECT COUNT(*) FROM visits WHERE 100 < cost AND cost < 200
SELECT COUNT(*) FROM visits WHERE 100 < cost < 200

-- M175 how many patients have more than five visits
-- meant: SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(visit_id) > 5)
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE COUNT(visit_id) > 5

-- M176 a column as the list of IN
-- meant: SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits)
SELECT COUNT(*) FROM patients WHERE patient_id NOT IN visits.patient_id

-- M177 NOT EXISTS that is not tied to the row
-- meant: SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT * FROM visits v WHERE v.patient_id = p.patient_id AND v.clinic = 'Summit')
SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT * FROM visits v WHERE v.clinic = 'Summit')

-- M178 IS for =
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex = 'F' GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex IS 'F' GROUP BY region

-- M179 GROUP BY of nothing
-- meant: SELECT MEDIAN(cost) FROM visits WHERE clinic ILIKE '%hill%'
SELECT MEDIAN(cost) FROM visits WHERE clinic ILIKE '%hill%' GROUP BY

-- M180 a number of groups in WHERE by its name
-- meant: SELECT clinic, AVG(cost) a FROM visits GROUP BY clinic HAVING a > 10
SELECT clinic, AVG(cost) a FROM visits WHERE a > 10 GROUP BY clinic

-- M181 a rank in WHERE by its name
-- meant: SELECT clinic, RANK() OVER (ORDER BY COUNT(*) DESC) r, COUNT(*) FROM visits GROUP BY clinic QUALIFY r <= 3
SELECT clinic, RANK() OVER (ORDER BY COUNT(*) DESC) r, COUNT(*) FROM visits WHERE r <= 3 GROUP BY clinic

-- M183 texts added
-- meant: SELECT clinic || '/' || diagnosis_code AS k, COUNT(*) FROM visits GROUP BY clinic || '/' || diagnosis_code
SELECT clinic + '/' + diagnosis_code AS k, COUNT(*) FROM visits GROUP BY clinic + '/' + diagnosis_code

-- M184 an amount in CONCAT
-- meant: SELECT COUNT(DISTINCT CONCAT(CAST(clinic AS VARCHAR), '-', CAST(cost AS VARCHAR))) FROM visits
SELECT COUNT(DISTINCT CONCAT(clinic, '-', cost)) FROM visits

-- M185 LIKE of several patterns
-- meant: SELECT COUNT(*) FROM visits WHERE (clinic LIKE 'Sum%' OR clinic LIKE 'Qua%')
SELECT COUNT(*) FROM visits WHERE clinic LIKE ('Sum%', 'Qua%')

-- M186 CONTAINS
-- meant: SELECT COUNT(*) FROM visits WHERE contains(clinic, 'Hill')
SELECT COUNT(*) FROM visits WHERE clinic CONTAINS 'Hill'

-- M187 STARTS WITH
-- meant: SELECT COUNT(*) FROM visits WHERE starts_with(clinic, 'S')
SELECT COUNT(*) FROM visits WHERE clinic STARTS WITH 'S'

-- M188 IS EMPTY
-- meant: SELECT COUNT(*) FROM visits WHERE note = ''
SELECT COUNT(*) FROM visits WHERE note IS EMPTY

-- M189 COUNT without parentheses
-- meant: SELECT COUNT(*) FROM visits
SELECT COUNT * FROM visits

-- M190 SUM of all rows
-- meant: SELECT COUNT(*) FROM visits
SELECT SUM(*) FROM visits

-- M191 WHERE before FROM
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 10 GROUP BY clinic
SELECT clinic, COUNT(*) WHERE cost > 10 FROM visits GROUP BY clinic

-- M192 WITH without AS
-- meant: WITH t AS (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic) SELECT * FROM t
WITH t (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic) SELECT * FROM t

-- M193 seconds of MySQL
-- meant: SELECT epoch(visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT UNIX_TIMESTAMP(visit_date), COUNT(*) FROM visits GROUP BY 1

-- M194 TOP of a percentage
-- meant: SELECT TOP 10 clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC
SELECT TOP 10 PERCENT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC

-- M195 typo column, distinct on wrong
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinc, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinc

-- M196 typo table
-- meant: SELECT COUNT(*) FROM visits WHERE cost > 100
SELECT COUNT(*) FROM visit WHERE cost > 100

-- M197 per row select
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE clinic = 'Summit'
SELECT patient_id, visit_date, cost FROM visits WHERE clinic = 'Summit' ORDER BY visit_date DESC LIMIT 20

-- M198 select star
-- meant: SELECT COUNT(DISTINCT patient_id) FROM patients
SELECT * FROM patients LIMIT 10

-- M199 missing group by
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits

-- M200 aggregates in WHERE
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING COUNT(*) > 1000
SELECT clinic, COUNT(*) AS n FROM visits WHERE COUNT(*) > 1000 GROUP BY clinic

-- M201 row condition in HAVING
-- meant: SELECT clinic, COUNT(*) AS n FROM visits WHERE visit_date >= '2024-01-01' GROUP BY clinic
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING visit_date >= '2024-01-01'

-- M202 wrong quotes
-- meant: SELECT COUNT(*) FROM patients WHERE region = 'Old Town'
SELECT COUNT(*) FROM patients WHERE region = "Old Town"

-- M203 oracle TO_CHAR quarter
-- meant: SELECT strftime(visit_date, '%Y-Q') || quarter(visit_date) AS q, COUNT(*) FROM visits GROUP BY strftime(visit_date, '%Y-Q') || quarter(visit_date)
SELECT TO_CHAR(visit_date, 'YYYY-"Q"Q') AS q, COUNT(*) FROM visits GROUP BY TO_CHAR(visit_date, 'YYYY-"Q"Q')

-- M204 oracle NVL, DECODE, ROWNUM
-- meant: SELECT NVL(region, 'unknown') AS r, COUNT(*) AS n FROM patients GROUP BY NVL(region, 'unknown') ORDER BY n DESC LIMIT 5
SELECT NVL(region, 'unknown') AS r, COUNT(*) AS n FROM patients WHERE ROWNUM <= 5 GROUP BY NVL(region, 'unknown')

-- M206 nested aggregates max of count
-- meant: SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY clinic)
SELECT MAX(COUNT(*)) AS most FROM visits GROUP BY clinic

-- M207 wrong options keyword
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (eps = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M208 options at end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic OPTIONS (epsilon = 0.5)

-- M209 options without parentheses
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY epsilon = 0.5 COUNT(*) FROM visits

-- M210 string_agg
-- meant: SELECT clinic, note, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic, note
SELECT clinic, STRING_AGG(note, '; ') FROM visits GROUP BY clinic

-- M211 group by text function
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) SUBSTR(note, 1, 10) AS start, COUNT(*) FROM visits GROUP BY 1 ORDER BY 2 DESC
SELECT SUBSTR(note, 1, 10) AS start, COUNT(*) FROM visits GROUP BY 1 ORDER BY 2 DESC

-- M212 median mysql style group_concat
-- meant: SELECT cost AS "GROUP_CONCAT(cost ORDER BY cost)", COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY cost
SELECT SUBSTRING_INDEX(GROUP_CONCAT(cost ORDER BY cost), ',', 1) FROM visits

-- M213 row number over all rows
-- meant: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM visits
SELECT clinic, ROW_NUMBER() OVER (ORDER BY cost DESC) AS r FROM visits

-- M214 LAG over patient rows
-- meant: SELECT AVG(visit_date - w) FROM (SELECT *, LAG(visit_date) OVER (PARTITION BY patient_id ORDER BY visit_date) AS w FROM visits) AS visits
SELECT AVG(visit_date - LAG(visit_date) OVER (PARTITION BY patient_id ORDER BY visit_date)) FROM visits

-- M215 WHERE n = MAX(n)
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic QUALIFY n = MAX(COUNT(*)) OVER ()
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING n = MAX(n)

-- M216 DISTINCT abuse
-- meant: SELECT DISTINCT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT DISTINCT clinic, COUNT(DISTINCT patient_id) FROM visits

-- M217 COUNT DISTINCT two args
-- meant: SELECT COUNT(DISTINCT (clinic, diagnosis_code)) FROM visits
SELECT COUNT(DISTINCT clinic, diagnosis_code) FROM visits

-- M218 DISTINCT of undeclared
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) note, COUNT(DISTINCT patient_id) FROM visits GROUP BY note
SELECT DISTINCT note FROM visits

-- M219 pandas
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
visits.groupby('clinic')['cost'].mean()

-- M220 pandas SQL mix
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
SELECT clinic, cost.mean() FROM visits GROUP BY clinic

-- M221 == and &&
-- meant: SELECT COUNT(*) FROM visits WHERE clinic == 'Summit' AND minutes > 30
SELECT COUNT(*) FROM visits WHERE clinic == 'Summit' && minutes > 30

-- M222 self join
-- meant: SELECT clinic, visit_date, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic, visit_date
SELECT COUNT(*) FROM visits a JOIN visits b ON a.clinic = b.clinic AND a.visit_date = b.visit_date AND a.patient_id < b.patient_id

-- M223 join by wrong key
-- meant: SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.visit_id GROUP BY p.sex

-- M224 missing join condition
-- meant: SELECT sex, AVG(cost) FROM patients, visits WHERE patients.patient_id = visits.patient_id GROUP BY sex
SELECT sex, AVG(cost) FROM patients, visits GROUP BY sex

-- M225 join column unknown
-- meant: SELECT sex, AVG(cost) FROM visits JOIN patients USING (patient_id) GROUP BY sex
SELECT sex, AVG(cost) FROM visits GROUP BY sex

-- M226 ambiguous column
-- meant: SELECT COUNT(DISTINCT p.patient_id) FROM patients p JOIN visits v ON p.patient_id = v.patient_id WHERE v.cost > 100
SELECT COUNT(DISTINCT patient_id) FROM patients p JOIN visits v ON p.patient_id = v.patient_id WHERE v.cost > 100

-- M227 PIVOT
-- meant: SELECT COUNT(visit_id) FILTER (WHERE clinic = 'Summit') AS Summit, COUNT(visit_id) FILTER (WHERE clinic = 'Orchard') AS Orchard FROM visits
SELECT * FROM visits PIVOT (COUNT(visit_id) FOR clinic IN ('Summit', 'Orchard'))

-- M228 synonym in public table
-- meant: SELECT chapter, AVG(cost) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY chapter
SELECT category, AVG(cost) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY category

-- M229 diagnosis name on visits
-- meant: SELECT COUNT(*) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code WHERE diagnosis LIKE '%asthma%'
SELECT COUNT(*) FROM visits WHERE diagnosis LIKE '%asthma%'

-- M230 cohort by first visit month
-- meant: SELECT cohort, COUNT(DISTINCT patient_id) FROM (SELECT patient_id, DATE_TRUNC('month', MIN(visit_date)) AS cohort FROM visits GROUP BY patient_id) GROUP BY cohort
SELECT DATE_TRUNC('month', MIN(visit_date)) AS cohort, COUNT(DISTINCT patient_id) FROM visits GROUP BY cohort

-- M231 visits per patient distribution percentile
-- meant: SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY COUNT(*)) FROM visits GROUP BY patient_id

-- M232 average visits per patient incl. none
-- meant: SELECT COUNT(visits.patient_id) / COUNT(DISTINCT patients.patient_id) FROM patients LEFT JOIN visits USING (patient_id)
SELECT COUNT(visits.*) / COUNT(DISTINCT patients.patient_id) FROM patients LEFT JOIN visits USING (patient_id)

-- M233 missing table alias
-- meant: SELECT p.sex, AVG(v.cost) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, AVG(v.cost) FROM patients JOIN visits ON p.patient_id = v.patient_id GROUP BY p.sex

-- M234 ON without table prefix
-- meant: SELECT sex, AVG(cost) FROM patients JOIN visits ON patients.patient_id = visits.patient_id GROUP BY sex
SELECT sex, AVG(cost) FROM patients JOIN visits ON patient_id = patient_id GROUP BY sex

-- M235 group by select alias number string
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY 1
SELECT clinic, COUNT(*) FROM visits GROUP BY "1"

-- M236 COUNT(*) > 5 in select as alias in group
-- meant: SELECT sex, COUNT(*) > 100 AS large FROM patients GROUP BY sex
SELECT sex, COUNT(*) > 100 AS large FROM patients GROUP BY sex, large

-- M237 window rank per group with limit
-- meant: SELECT clinic, diagnosis_code, COUNT(*) AS n, RANK() OVER (PARTITION BY clinic ORDER BY n DESC) AS r FROM visits GROUP BY clinic, diagnosis_code QUALIFY r <= 3
SELECT clinic, diagnosis_code, COUNT(*) AS n, RANK() OVER (PARTITION BY clinic ORDER BY n DESC) AS r FROM visits GROUP BY clinic, diagnosis_code HAVING r <= 3

-- M238 percent change LAG alias
-- meant: SELECT YEAR(visit_date) AS y, COUNT(*) AS n, (n - LAG(n) OVER (ORDER BY y)) / LAG(n) OVER (ORDER BY y) AS growth FROM visits GROUP BY y
SELECT YEAR(visit_date) AS y, COUNT(*) AS n, (n - LAG(n)) / LAG(n) AS growth FROM visits GROUP BY y

-- M239 oldest patient
-- meant: SELECT n, COUNT(*) AS units FROM (SELECT MIN(birth_year) AS n, patient_id FROM patients GROUP BY patient_id) GROUP BY n ORDER BY units DESC LIMIT 10
SELECT MIN(birth_year), patient_id FROM patients

-- M240 list patients with condition, IN list
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE diagnosis_code IN ('E11', 'I10')
SELECT DISTINCT patient_id FROM visits WHERE diagnosis_code IN ('E11', 'I10')

-- M241 EXISTS uncorrelated
-- meant: SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT * FROM visits WHERE visits.patient_id = p.patient_id AND cost > 200)
SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT * FROM visits WHERE cost > 200)

-- M242 SUM over text minutes
-- meant: SELECT SUM(TRY_CAST(note AS DOUBLE)) FROM visits
SELECT SUM(note) FROM visits

-- M243 ratio as integer percent with ROUND two args swapped
-- meant: SELECT clinic, ROUND(AVG(cost), 2) FROM visits GROUP BY clinic
SELECT clinic, ROUND(2, AVG(cost)) FROM visits GROUP BY clinic

-- M244 date literal US
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > '2024-04-07'
SELECT COUNT(*) FROM visits WHERE visit_date > '7/4/2024'

-- M245 date without quotes
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= DATE '2024-01-01' AND visit_date < DATE '2024-04-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= 2024-01-01 AND visit_date < 2024-04-01

-- M246 quarter filter by string
-- meant: SELECT COUNT(*) FROM visits WHERE QUARTER(visit_date) = 1 AND YEAR(visit_date) = '2024'
SELECT COUNT(*) FROM visits WHERE QUARTER(visit_date) = 'Q1' AND YEAR(visit_date) = '2024'

-- M247 month name filter
-- meant: SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) = 1
SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) = 'January'

-- M248 interval syntaxes
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > CURRENT_DATE - INTERVAL 2 YEARS
SELECT COUNT(*) FROM visits WHERE visit_date > CURRENT_DATE - INTERVAL 2 YEARS AGO

-- M249 ISNULL comparison
-- meant: SELECT COUNT(*) FROM visits WHERE note IS NOT NULL
SELECT COUNT(*) FROM visits WHERE note IS NOT 'NULL'

-- M250 ilike ANY list
-- meant: SELECT COUNT(*) FROM visits WHERE (note LIKE '%worse%' OR note LIKE '%better%')
SELECT COUNT(*) FROM visits WHERE note LIKE ANY ('%worse%', '%better%')

-- M251 contains operator
-- meant: SELECT COUNT(*) FROM visits WHERE contains(note, 'worse') OR contains(note, 'pain')
SELECT COUNT(*) FROM visits WHERE note CONTAINS 'worse' OR note CONTAINS 'pain'

-- M252 case sensitive function REGEXP_MATCH
-- meant: SELECT COUNT(*) FROM visits WHERE REGEXP_MATCHES(note, 'wors[et]')
SELECT COUNT(*) FROM visits WHERE REGEXP_MATCH(note, 'wors[et]')

-- M253 top 3 per region w/ LIMIT BY
-- meant: SELECT region, sex, COUNT(*) AS n FROM patients GROUP BY region, sex QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY n DESC) <= 1
SELECT region, sex, COUNT(*) AS n FROM patients GROUP BY region, sex ORDER BY n DESC LIMIT 1 BY region

-- M254 sample
-- meant: SELECT AVG(cost) FROM (SELECT * FROM visits)
SELECT AVG(cost) FROM (SELECT * FROM visits LIMIT 1000)

-- M255 sample by mod random
-- meant: SELECT AVG(cost) FROM visits
SELECT AVG(cost) FROM visits WHERE RAND() < 0.1

-- M256 EXPLAIN PLAN FOR
-- meant: EXPLAIN SELECT COUNT(*) FROM visits
EXPLAIN PLAN FOR SELECT COUNT(*) FROM visits

-- M257 show columns
-- meant: DESCRIBE visits
SHOW COLUMNS FROM visits

-- M258 how much budget
-- meant: SHOW PRIVACY BUDGET
SHOW PRIVACY_BUDGET

-- M259 set default
-- meant: SET dp_epsilon = 0.5
SET dp_epsilon TO 0.5

-- M260 set session
-- meant: SET dp_epsilon = 0.5
SET SESSION epsilon = 0.5

-- M261 options with colon JSON style
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS {epsilon: 0.5} COUNT(*) FROM visits

-- M262 options via comment hint/ postfix WITH (epsilon)
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WITH (epsilon = 0.5)

-- M263 USING EPSILON
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT COUNT(*) FROM visits USING EPSILON 0.5

-- M264 contributions bounding other name
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, max_groups_contributed = 3) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, l0_sensitivity = 3) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M265 clamp in SQL
-- meant: SELECT SUM(GREATEST(0, LEAST(100, cost))) FROM visits
SELECT SUM(CLAMP(cost, 0, 100)) FROM visits

-- M266 noise column
-- meant: SELECT clinic, COUNT(*) AS n, DP_STDDEV(n), DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) AS n, DP_NOISE_SCALE(n), DP_CI(n) FROM visits GROUP BY clinic

-- M267 an assignment of pandas
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 100 GROUP BY clinic
df = visits[visits.cost > 100].groupby('clinic').size()

-- M268 a merge of pandas
-- meant: SELECT region, SUM(cost) FROM visits JOIN patients USING (patient_id) GROUP BY region
visits.merge(patients, on='patient_id').groupby('region')['cost'].sum()

-- M269 value_counts
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
SELECT clinic.value_counts() FROM visits

-- M270 LAG of all rows
-- meant: SELECT AVG(cost - w) FROM (SELECT *, LAG(cost) OVER (PARTITION BY patient_id ORDER BY visit_date) AS w FROM visits) AS visits
SELECT AVG(cost - LAG(cost) OVER (ORDER BY visit_date)) FROM visits

-- M271 CROSS APPLY
-- meant: SELECT d.diagnosis, x.n FROM diagnoses d LEFT JOIN (SELECT v.diagnosis_code AS k, COUNT(*) AS n FROM visits v GROUP BY v.diagnosis_code) AS x ON x.k = d.code
SELECT d.diagnosis, x.n FROM diagnoses d CROSS APPLY (SELECT COUNT(*) AS n FROM visits v WHERE v.diagnosis_code = d.code) x

-- M273 a lookup
-- meant: SELECT chapter AS chapter, COUNT(*) FROM visits LEFT JOIN diagnoses ON code = diagnosis_code GROUP BY chapter
SELECT (SELECT chapter FROM diagnoses WHERE code = diagnosis_code) AS chapter, COUNT(*) FROM visits GROUP BY chapter

-- M274 IN a subquery of two columns
-- meant: SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 3)
SELECT COUNT(*) FROM patients WHERE patient_id IN (SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id HAVING COUNT(*) > 3)

-- M275 averages of averages by key
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) sex, AVG(n) AS a FROM (SELECT patient_id, p.sex, AVG(cost) AS n FROM visits JOIN patients p USING (patient_id) GROUP BY patient_id, p.sex) GROUP BY sex
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) p.sex, AVG(AVG(cost)) AS a FROM visits JOIN patients p USING (patient_id) GROUP BY p.sex

-- M276 an average of the rows of a subquery in WHERE
-- meant: SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t WHERE n > (SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id))
SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t WHERE n > AVG(n)

-- M277 a union of units
-- meant: SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION SELECT patient_id FROM patients)
SELECT patient_id FROM visits UNION SELECT patient_id FROM patients

-- M278 rows of a common table expression
-- meant: WITH t AS (SELECT * FROM visits WHERE cost > 100) SELECT COUNT(*) FROM (SELECT clinic, cost FROM t)
WITH t AS (SELECT * FROM visits WHERE cost > 100) SELECT clinic, cost FROM t ORDER BY cost DESC LIMIT 5

-- M279 rows with options
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT patient_id) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, cost FROM visits

-- M280 all columns but one
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT * EXCEPT (note) FROM visits LIMIT 5

-- M281 a running total of rows
-- meant: SELECT visit_date, SUM(SUM(cost)) OVER (ORDER BY visit_date) FROM visits GROUP BY visit_date
SELECT visit_date, SUM(cost) OVER (ORDER BY visit_date) FROM visits

-- M282 QUALIFY before GROUP BY
-- meant: SELECT clinic, COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date DESC) = 1) AS visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date DESC) = 1 GROUP BY clinic

-- M283 a group key of sums
-- meant: SELECT level, COUNT(*) FROM (SELECT patient_id, CASE WHEN SUM(cost) > 100 THEN 'high' ELSE 'low' END AS level FROM visits GROUP BY patient_id) GROUP BY level
SELECT CASE WHEN SUM(cost) > 100 THEN 'high' ELSE 'low' END AS level, COUNT(*) FROM visits GROUP BY level

-- M284 a number of each unit beside a count
-- meant: SELECT first_month, COUNT(*) AS units FROM (SELECT DATE_TRUNC('month', MIN(visit_date)) AS first_month FROM visits GROUP BY patient_id) GROUP BY first_month
SELECT DATE_TRUNC('month', MIN(visit_date)) AS first_month, COUNT(*) FROM visits GROUP BY patient_id

-- M285 a window beside groups
-- meant: SELECT clinic, AVG(cost) - AVG(AVG(cost)) OVER () AS diff FROM visits GROUP BY clinic
SELECT clinic, AVG(cost) - AVG(cost) OVER () AS diff FROM visits GROUP BY clinic

-- M286 pairs of units
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic
SELECT COUNT(*) FROM visits a JOIN visits b ON a.clinic = b.clinic AND a.patient_id < b.patient_id

-- M287 a truth value of a number
-- meant: SELECT COUNT(*) FROM visits WHERE (minutes > 5) = TRUE
SELECT COUNT(*) FROM visits WHERE (minutes > 5) = 1

-- M288 texts behind OR
-- meant: SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' OR 'Orchard'

-- M289 keys joined by AND
-- meant: SELECT region, sex, COUNT(*) FROM patients GROUP BY region, sex
SELECT region, sex, COUNT(*) FROM patients GROUP BY region AND sex

-- M290 AS STRUCT
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT AS STRUCT clinic, COUNT(*) FROM visits GROUP BY clinic

-- M291 a sample
-- meant: SELECT AVG(cost) FROM visits
SELECT AVG(cost) FROM visits TABLESAMPLE SYSTEM (10 PERCENT)

-- M292 INTO
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) INTO tmp FROM visits GROUP BY clinic

-- M293 an average of days
-- meant: SELECT MEDIAN(visit_date) FROM visits
SELECT AVG(visit_date) FROM visits

-- M294 a share and its value exchanged
-- meant: SELECT PERCENTILE_CONT(cost, 0.5) FROM visits
SELECT PERCENTILE_CONT(0.5, cost) FROM visits

-- M295 MAX_BY of a count
-- meant: SELECT clinic FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 1
SELECT MAX_BY(clinic, COUNT(*)) FROM visits GROUP BY clinic

-- M296 a key of another column of a public table
-- meant: SELECT chapter, COUNT(*) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.code GROUP BY chapter
SELECT chapter, COUNT(*) FROM visits JOIN diagnoses ON visits.diagnosis_code = diagnoses.chapter GROUP BY chapter

-- M297 NA for NULL
-- meant: SELECT COUNT(*) FROM visits WHERE minutes IS NOT NULL
SELECT COUNT(*) FROM visits WHERE minutes <> 'NA'

-- M298 options under another name
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DP OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M299 confidence in percent
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, confidence = 0.95) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, confidence = 95) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M300 epsilon twice
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, n FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, n FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) clinic, COUNT(*) AS n FROM visits GROUP BY clinic)

-- M301 a table of an answer
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
CREATE TEMP TABLE t AS SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic

-- M302 DESC TABLE
-- meant: DESCRIBE visits
DESC TABLE visits

-- M303 a setting without its prefix
-- meant: SET dp_epsilon = 0.5
SET epsilon = 0.5

-- M304 a semicolon in a list
-- meant: SELECT COUNT(*) FROM visits WHERE minutes IN (5, 10)
SELECT COUNT(*) FROM visits WHERE minutes IN (5; 10)

-- M305 a quarter of TO_CHAR
-- meant: SELECT strftime(visit_date, '%Y-Q') || quarter(visit_date) AS q, COUNT(*) FROM visits GROUP BY 1
SELECT TO_CHAR(visit_date, 'YYYY-"Q"Q') AS q, COUNT(*) FROM visits GROUP BY 1

-- M306 a quarter of FORMAT_DATE
-- meant: SELECT strftime(visit_date, '%Y-Q') || quarter(visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT FORMAT_DATE('%Y-Q%Q', visit_date), COUNT(*) FROM visits GROUP BY 1

-- M307 a day of the week in full
-- meant: SELECT strftime(visit_date, '%A') AS d, COUNT(*) FROM visits GROUP BY 1
SELECT FORMAT(visit_date, 'dddd') AS d, COUNT(*) FROM visits GROUP BY 1

-- M308 a part of a text
-- meant: SELECT split_part(clinic, ' ', 1) AS w, COUNT(*) FROM visits GROUP BY 1
SELECT SPLIT(clinic, ' ')[OFFSET(0)] AS w, COUNT(*) FROM visits GROUP BY 1

-- M309 bounds as plain arguments
-- meant: SELECT SUM(cost, contribution_bounds_per_row => (0, 100)) FROM visits
SELECT SUM(cost, 0, 100) FROM visits

-- M310 a type of T-SQL
-- meant: SELECT COUNT(*) FROM visits WHERE CAST(visit_date AS TIMESTAMP) > '2024-01-01'
SELECT COUNT(*) FROM visits WHERE CAST(visit_date AS DATETIME2) > '2024-01-01'

-- M311 COUNTD
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNTD(patient_id) FROM visits

-- M312 TRY_CONVERT
-- meant: SELECT AVG(TRY_CAST(minutes AS INT)) FROM visits
SELECT AVG(TRY_CONVERT(INT, minutes)) FROM visits

-- M313 a prompt of psql
-- meant: SELECT COUNT(*) FROM visits
clinic=# SELECT COUNT(*) FROM visits;

-- M314 a prompt of every line
-- meant: SELECT COUNT(*) FROM visits
clinic=> SELECT COUNT(*)
clinic-> FROM visits;

-- M315 a fence of Markdown
-- meant: SELECT COUNT(*) FROM visits
```sql
SELECT COUNT(*) FROM visits
```

-- M316 GO behind a statement
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
GO

-- M317 words before a statement
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
Here is the query you asked for:
SELECT clinic, AVG(cost) FROM visits GROUP BY clinic;

-- M318 a magic of notebooks
-- meant: SELECT COUNT(*) FROM visits
%%sql
SELECT COUNT(*) FROM visits

-- M319 a command of psql
-- meant: DESCRIBE visits
\d visits

-- M320 a word behind a statement
-- meant: SELECT COUNT(*) FROM patients WHERE sex = 'F'
SELECT COUNT(*) FROM patients WHERE sex = 'F' please

-- M321 a chain of pandas with agg
-- meant: SELECT clinic, AVG(cost) FROM visits WHERE cost > 100 GROUP BY clinic
visits[visits.cost > 100].groupby(['clinic']).agg({'cost': 'mean'})

-- M322 named aggregates of pandas
-- meant: SELECT clinic, COUNT(visit_id) AS n, AVG(cost) AS mean FROM visits GROUP BY clinic ORDER BY mean DESC LIMIT 5
df = visits.groupby('clinic').agg(n=('visit_id','count'), mean=('cost','mean')).sort_values('mean', ascending=False).head(5)

-- M323 pipes of dplyr
-- meant: SELECT clinic, COUNT(*) AS n FROM visits WHERE cost > 9 GROUP BY clinic ORDER BY n DESC
visits %>% filter(cost > 9) %>% group_by(clinic) %>% summarise(n = n()) %>% arrange(desc(n))

-- M324 a column of R
-- meant: SELECT AVG(cost) FROM visits
mean(visits$cost)

-- M325 PySpark
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 100 GROUP BY clinic
visits.filter(visits.cost > 100).groupBy("clinic").count().show()

-- M326 polars
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
visits.group_by("clinic").agg(pl.col("cost").mean())

-- M327 Kusto
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 100 GROUP BY clinic
visits | where cost > 100 | summarize count() by clinic

-- M328 COUNTIF of a spreadsheet
-- meant: SELECT clinic, COUNT_IF(minutes > 30) FROM visits GROUP BY clinic
SELECT clinic, COUNTIF(minutes, ">30") FROM visits GROUP BY clinic

-- M329 a level of Tableau
-- meant: SELECT clinic, AVG(cost) AS n FROM visits GROUP BY clinic
SELECT clinic, {FIXED clinic : AVG(cost)} FROM visits

-- M330 a parenthesis missing before a comma
-- meant: SELECT clinic, ROUND(AVG(cost), 1) AS mean FROM visits GROUP BY clinic
SELECT clinic, ROUND(AVG(cost, 1) AS mean FROM visits GROUP BY clinic

-- M331 two words BY missing
-- meant: SELECT month(visit_date), count(*) FROM visits GROUP BY month(visit_date) ORDER BY month(visit_date)
SELECT month(visit_date), count(*) FROM visits GROUP month(visit_date) ORDER month(visit_date)

-- M332 a comma missing between queries of WITH
-- meant: WITH a AS (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic), b AS (SELECT AVG(n) AS m FROM a) SELECT * FROM a, b WHERE a.n > b.m
WITH a AS (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) b AS (SELECT AVG(n) AS m FROM a) SELECT * FROM a, b WHERE a.n > b.m

-- M333 a name of WITH misspelt
-- meant: WITH per_clinic AS (SELECT clinic, SUM(cost) AS total FROM visits GROUP BY clinic) SELECT * FROM per_clinic
WITH per_clinic AS (SELECT clinic, SUM(cost) AS total FROM visits GROUP BY clinic) SELECT * FROM perclinic

-- M334 an inner GROUP BY missing
-- meant: SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits)

-- M335 HAVING without GROUP BY
-- meant: SELECT clinic FROM visits GROUP BY clinic HAVING COUNT(*) > 100
SELECT clinic FROM visits HAVING COUNT(*) > 100

-- M336 a day by a format of Oracle
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= DATE '2024-06-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= TO_DATE('01-JUN-2024', 'DD-MON-YYYY')

-- M337 PIVOT of a subquery with brackets
-- meant: SELECT region, COUNT(sex) FILTER (WHERE sex = 'F') AS F, COUNT(sex) FILTER (WHERE sex = 'M') AS M FROM patients GROUP BY region
SELECT * FROM (SELECT region, sex FROM patients) AS s PIVOT (COUNT(sex) FOR sex IN ([F], [M])) AS p

-- M338 FIELD of MySQL
-- meant: SELECT DAYNAME(visit_date) AS d, AVG(cost) FROM visits GROUP BY d ORDER BY CASE d WHEN 'Monday' THEN 1 WHEN 'Tuesday' THEN 2 ELSE 0 END
SELECT DAYNAME(visit_date) AS d, AVG(cost) FROM visits GROUP BY d ORDER BY FIELD(d, 'Monday', 'Tuesday')

-- M339 an accuracy behind a share
-- meant: SELECT clinic, percentile_approx(cost, 0.9) FROM visits GROUP BY clinic
SELECT clinic, percentile_approx(cost, 0.9, 100) FROM visits GROUP BY clinic

-- M340 the sample's size as n
-- meant: SELECT STDDEV(cost)/SQRT(COUNT(*)) FROM visits
SELECT STDDEV(cost)/SQRT(N) FROM visits

-- M341 a correlation of each unit
-- meant: SELECT CORR(cost, minutes), COUNT(*) FROM visits
SELECT CORR(cost, minutes), COUNT(*) FROM visits GROUP BY patient_id

-- M342 a step of a series as a text
-- meant: SELECT d.day, COUNT(v.visit_id) FROM generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY) AS d(day) LEFT JOIN visits v ON v.visit_date = d.day GROUP BY d.day
SELECT d.day, COUNT(v.visit_id) FROM generate_series('2024-01-01'::date, '2024-01-31'::date, '1 day') AS d(day) LEFT JOIN visits v ON v.visit_date = d.day GROUP BY d.day

-- M343 a dash of word processors
-- meant: SELECT AVG(cost) FROM visits WHERE clinic = 'Lake View' AND minutes - 5 > 10
SELECT AVG(cost) FROM visits WHERE clinic = “Lake View” AND minutes – 5 > 10

-- M344 an alias in WHERE of a listing
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE (minutes / 60) > 0
SELECT visit_id, minutes / 60 AS hours FROM visits WHERE hours > 0

-- M345 the largest of each group by QUALIFY
-- meant: SELECT clinic, MAX(cost) FROM visits GROUP BY clinic
SELECT clinic, cost FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY cost DESC) = 1

-- M346 size of a set
-- meant: SELECT clinic, COUNT(DISTINCT diagnosis_code) FROM visits GROUP BY clinic
SELECT clinic, size(collect_set(diagnosis_code)) FROM visits GROUP BY clinic

-- M347 STUFF with FOR XML
-- meant: SELECT clinic, diagnosis_code, COUNT(DISTINCT patient_id) AS n FROM visits v GROUP BY clinic, diagnosis_code
SELECT clinic, STUFF((SELECT ',' + diagnosis_code FROM visits v2 WHERE v2.clinic = v.clinic FOR XML PATH('')), 1, 1, '') FROM visits v GROUP BY clinic

-- M348 SUMM
-- meant: SELECT clinic, SUM(cost) FROM visits GROUP BY clinic
SELECT clinic, SUMM(cost) FROM visits GROUP BY clinic

-- M349 a threshold on values that are not declared
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 16) * FROM (SELECT note, COUNT(*) AS n FROM visits GROUP BY note) WHERE n > 100
SELECT note, COUNT(*) AS n FROM visits GROUP BY note HAVING COUNT(*) > 100

-- M350 TOP by an average
-- meant: SELECT * FROM (SELECT clinic, AVG(CAST(cost AS FLOAT)) AS mean FROM visits GROUP BY clinic) ORDER BY mean DESC LIMIT 5
SELECT TOP 5 clinic, AVG(CAST(cost AS FLOAT)) AS mean FROM visits GROUP BY clinic ORDER BY mean DESC

-- M351 FROM missing
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) visits WHERE clinic = 'Summit'

-- M352 COUNT without parentheses
-- meant: SELECT COUNT(clinic) FROM visits
SELECT COUNT clinic FROM visits

-- M353 a comma for AND
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND minutes > 10
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit', minutes > 10

-- M354 a comma before ELSE
-- meant: SELECT CASE WHEN cost > 100 THEN 'long' ELSE 'short' END AS kind, COUNT(*) FROM visits GROUP BY kind
SELECT CASE WHEN cost > 100 THEN 'long', ELSE 'short' END AS kind, COUNT(*) FROM visits GROUP BY kind

-- M355 a day of a text less a number
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > DATE '2024-12-31' - 30
SELECT COUNT(*) FROM visits WHERE visit_date > '2024-12-31' - 30

-- M356 a number as a day
-- meant: SELECT make_date(birth_year, 1, 1) y, COUNT(*) FROM patients GROUP BY y
SELECT CAST(birth_year AS DATE) y, COUNT(*) FROM patients GROUP BY y

-- M357 a test of groups
-- meant: SELECT clinic, AVG(cost), STDDEV(cost), COUNT(cost) FROM visits GROUP BY clinic
SELECT TTEST(cost, clinic) FROM visits

-- M358 a histogram with its number of bins
-- meant: SELECT width_bucket(minutes, 1, 120, 12), COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY width_bucket(minutes, 1, 120, 12)
SELECT HISTOGRAM(minutes, 12) FROM visits

-- M359 epsilon as a text
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = '0.5') COUNT(*) FROM visits

-- M360 ROLLUP of a column that is not there
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic WITH ROLLUP
SELECT clinc, COUNT(*) FROM visits GROUP BY clinc WITH ROLLUP

-- M361 a quote missing in a list
-- meant: SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit, 'Orchard')

-- M362 two WHERE
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND minutes > 10
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' WHERE minutes > 10

-- M363 two AND
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND minutes > 10
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND AND minutes > 10

-- M364 GREATER THAN
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > 30
SELECT COUNT(*) FROM visits WHERE minutes GREATER THAN 30

-- M365 NOT before a text
-- meant: SELECT COUNT(*) FROM visits WHERE clinic <> 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic NOT 'Summit'

-- M366 & between comparisons
-- meant: SELECT COUNT(*) FROM visits WHERE minutes >= 10 AND minutes <= 20
SELECT COUNT(*) FROM visits WHERE minutes >= 10 & minutes <= 20

-- M367 an alias nearly
-- meant: SELECT clinic, SUM(cost) AS total FROM visits GROUP BY clinic ORDER BY total DESC
SELECT clinic, SUM(cost) AS total FROM visits GROUP BY clinic ORDER BY totals DESC

-- M368 delta as a fraction
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-6) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1/1000000) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M369 the clause and an option misspelt
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIALPRIVACY OPTION (eps = 0.5) COUNT(*) FROM visits

-- M370 COPY of an answer
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
COPY (SELECT clinic, COUNT(*) FROM visits GROUP BY clinic) TO 'out.csv' CSV HEADER

-- M371 quantile of ClickHouse
-- meant: SELECT clinic, QUANTILE_CONT(cost, 0.9) FROM visits GROUP BY clinic
SELECT clinic, quantile(0.9)(cost) FROM visits GROUP BY clinic

-- M372 an aggregate as a group key
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic, COUNT(*)

-- M373 CASE that is not grouped
-- meant: SELECT CASE WHEN cost < 50 THEN 'low' ELSE 'high' END AS band, COUNT(*) FROM visits GROUP BY band
SELECT CASE WHEN cost < 50 THEN 'low' ELSE 'high' END AS band, COUNT(*) FROM visits

-- M374 a day with slashes
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > DATE '2024-01-01'
SELECT COUNT(*) FROM visits WHERE visit_date > 2024/01/01

-- M375 ROWNUM of released groups
-- meant: SELECT * FROM (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic ORDER BY n DESC) LIMIT 3
SELECT * FROM (SELECT clinic, COUNT(*) n FROM visits GROUP BY clinic ORDER BY n DESC) WHERE ROWNUM <= 3

-- M376 options without a name
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (0.5) COUNT(*) FROM visits

-- M377 a delta of 2
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 2) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M378 a negative epsilon
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM visits
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = -1) COUNT(*) FROM visits

-- M379 a part of the day as a column
-- meant: SELECT MONTH(visit_date), COUNT(*) FROM visits GROUP BY MONTH(visit_date)
SELECT month, COUNT(*) FROM visits GROUP BY month

-- M380 an age
-- meant: SELECT AVG((YEAR(current_date) - birth_year)) FROM patients
SELECT AVG(age) FROM patients

-- M381 a z-score
-- meant: SELECT STDDEV(cost), AVG(cost) FROM visits
SELECT (cost - AVG(cost)) / STDDEV(cost) FROM visits

-- M382 a month in words
-- meant: SELECT COUNT(*) FROM visits WHERE (YEAR(visit_date) = 2024 AND MONTH(visit_date) = 7)
SELECT COUNT(*) FROM visits WHERE visit_date = 'July 2024'

-- M383 an alias of two words
-- meant: SELECT clinic, AVG(cost) AS "average cost" FROM visits GROUP BY clinic
SELECT clinic, AVG(cost) AS average cost FROM visits GROUP BY clinic

-- M384 bounds as two arguments
-- meant: SELECT clinic, AVG(cost, contribution_bounds_per_row => (0, 60)) FROM visits GROUP BY clinic
SELECT clinic, AVG(cost, lower => 0, upper => 60) FROM visits GROUP BY clinic

-- M385 a prompt of SQL*Plus
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SQL> SELECT COUNT(*)
  2  FROM visits
  3  WHERE clinic = 'Summit';

-- M386 COUT
-- meant: SELECT COUNT(*) FROM visits WHERE diagnosis_code = 'J10'
SELECT COUT(*) FROM visits WHERE diagnosis_cod = 'J10'

-- M387 two keywords misspelt
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DECS LIMT 5

-- M388 a column of a table behind another
-- meant: SELECT patients.region, COUNT(*) FROM visits v JOIN patients USING (patient_id) JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY patients.region
SELECT d.region, COUNT(*) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code GROUP BY d.region

-- M389 IF without results
-- meant: SELECT SUM(IF(cost > 100, 1, 0)) FROM visits
SELECT SUM(IF(cost > 100)) FROM visits

-- M390 a list behind =
-- meant: SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT COUNT(*) FROM visits WHERE clinic = ('Summit', 'Orchard')

-- M391 || for OR
-- meant: SELECT COUNT(*) FROM visits WHERE clinic == 'Summit' OR clinic == 'Orchard'
SELECT COUNT(*) FROM visits WHERE clinic == 'Summit' || clinic == 'Orchard'

-- M392 BETWEEN with parentheses
-- meant: SELECT COUNT(*) FROM visits WHERE NOT minutes BETWEEN 10 AND 20
SELECT COUNT(*) FROM visits WHERE NOT minutes BETWEEN (10, 20)

-- M393 MATCH AGAINST
-- meant: SELECT COUNT(*) FROM visits WHERE contains(note, 'pain')
SELECT COUNT(*) FROM visits WHERE MATCH(note) AGAINST ('pain')

-- M394 options at the end in parentheses
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WITH DIFFERENTIAL_PRIVACY (epsilon = 0.5)

-- M395 a setting with a dot
-- meant: SET dp_epsilon = 0.5
SET dp.epsilon = 0.5

-- M396 a column of DESCRIBE
-- meant: DESCRIBE visits
DESCRIBE visits.cost

-- M397 a quartile of a spreadsheet
-- meant: SELECT clinic, QUANTILE_CONT(cost, 0.75) FROM visits GROUP BY clinic
SELECT clinic, QUARTILE(cost, 3) FROM visits GROUP BY clinic

-- M398 a deviation of a spreadsheet
-- meant: SELECT clinic, STDDEV_SAMP(cost) FROM visits GROUP BY clinic
SELECT clinic, STDEV.S(cost) FROM visits GROUP BY clinic

-- M399 DISTINCT behind the column
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(patient_id DISTINCT) FROM visits GROUP BY clinic

-- M400 a rank without OVER
-- meant: SELECT clinic, RANK() OVER (ORDER BY COUNT(*) DESC) FROM visits GROUP BY clinic
SELECT clinic, RANK(COUNT(*)) FROM visits GROUP BY clinic

-- M401 LAG without OVER
-- meant: SELECT visit_date, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY visit_date) FROM visits GROUP BY visit_date
SELECT visit_date, COUNT(*) - LAG(COUNT(*)) FROM visits GROUP BY visit_date

-- M402 a day of SQLite
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= CAST((current_date + INTERVAL (-30) DAY) AS DATE)
SELECT COUNT(*) FROM visits WHERE visit_date >= DATE('now', '-30 days')

-- M403 a month behind IN
-- meant: SELECT COUNT(*) FROM visits WHERE (YEAR(visit_date) = 2024 AND MONTH(visit_date) = 1)
SELECT COUNT(*) FROM visits WHERE visit_date IN '2024-01'

-- M404 BETWEEN with TO
-- meant: SELECT sex, COUNT(*) FROM patients WHERE birth_year BETWEEN 1990 AND 2000 GROUP BY sex
SELECT sex, COUNT(*) FROM patients WHERE birth_year BETWEEN 1990 TO 2000 GROUP BY sex

-- M405 a mean of CASE without END
-- meant: SELECT AVG(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) FROM patients
SELECT AVG(CASE WHEN sex = 'F' THEN 1 ELSE 0) FROM patients

-- M406 a comma before the main query
-- meant: WITH v AS (SELECT * FROM visits WHERE cost > 100) SELECT COUNT(*) FROM v
WITH v AS (SELECT * FROM visits WHERE cost > 100), SELECT COUNT(*) FROM v

-- M407 a CTE without parentheses
-- meant: WITH v AS (SELECT * FROM visits WHERE cost > 100) SELECT COUNT(*) FROM v
WITH v AS SELECT * FROM visits WHERE cost > 100 SELECT COUNT(*) FROM v

-- M408 a column before EXISTS
-- meant: SELECT COUNT(*) FROM visits v WHERE v.patient_id IN (SELECT patient_id FROM patients WHERE sex = 'F')
SELECT COUNT(*) FROM visits v WHERE v.patient_id EXISTS (SELECT patient_id FROM patients WHERE sex = 'F')

-- M409 a table behind IN
-- meant: SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM patients)
SELECT COUNT(*) FROM visits WHERE patient_id IN patients

-- M410 AND before WHERE
-- meant: SELECT COUNT(*) FROM visits LEFT JOIN patients ON visits.patient_id = patients.patient_id WHERE sex = 'F'
SELECT COUNT(*) FROM visits LEFT JOIN patients ON visits.patient_id = patients.patient_id AND WHERE sex = 'F'

-- M411 WHERE a second time behind AND
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND minutes > 10
SELECT COUNT(*) FROM visits WHERE clinic = 'Summit' AND WHERE minutes > 10

-- M412 a join without JOIN
-- meant: SELECT COUNT(*) FROM patients LEFT OUTER JOIN visits USING (patient_id)
SELECT COUNT(*) FROM patients LEFT OUTER visits USING (patient_id)

-- M413 options with a semicolon
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-6) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5; delta = 1e-6) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M414 an option without its sign
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M415 a decimal comma in an option
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0,5) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M416 privacy in words
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits
SELECT DIFFERENTIALLY PRIVATE COUNT(*) FROM visits

-- M417 a call of Python around the text
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
conn.execute("SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'").fetchall()

-- M418 mixed quotes
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex = 'F' GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex = "F' GROUP BY region

-- M419 GROUP without BY
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex = 'F' GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex = 'F' GROUP region

-- M420 IS with a text
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex = 'F' GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex IS 'F' GROUP BY region

-- M421 an alias of words in ORDER BY
-- meant: SELECT clinic, COUNT(*) AS "Number of visits" FROM visits GROUP BY clinic ORDER BY "Number of visits" DESC
SELECT clinic, COUNT(*) AS "Number of visits" FROM visits GROUP BY clinic ORDER BY Number of visits DESC

-- M422 a comparison in words
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE minutes > 30 GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE minutes IS GREATER THAN 30 GROUP BY clinic

-- M423 a currency sign
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 100 GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE cost > €100 GROUP BY clinic

-- M424 a German number
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > 1000.50 GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE cost > 1.000,50 GROUP BY clinic

-- M425 HAS for contains
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE contains(note, 'pain') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE note HAS 'pain' GROUP BY clinic

-- M426 a text in a column as of Python
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE contains(note, 'pain') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE 'pain' IN note GROUP BY clinic

-- M427 NOT LIKE IN
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE NOT (clinic LIKE 'S%' OR clinic LIKE 'B%') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE clinic NOT LIKE IN ('S%', 'B%') GROUP BY clinic

-- M428 NOT IN with one text
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE clinic NOT IN ('Summit') GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE clinic NOT IN 'Summit' GROUP BY clinic

-- M429 a star for the rest of a code
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE diagnosis_code LIKE 'E11%' GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE diagnosis_code = E11* GROUP BY clinic

-- M430 COUNT DISTINCT of a table
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(DISTINCT patients) FROM visits GROUP BY clinic

-- M431 CUBE without parentheses
-- meant: SELECT clinic, sex, COUNT(*) FROM visits JOIN patients USING (patient_id) GROUP BY CUBE (clinic, sex)
SELECT clinic, sex, COUNT(*) FROM visits JOIN patients USING (patient_id) GROUP BY CUBE clinic, sex

-- M432 WHERE behind a count
-- meant: SELECT region, COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE sex = 'M') FROM patients GROUP BY region
SELECT region, COUNT(*) WHERE sex = 'F', COUNT(*) WHERE sex = 'M' FROM patients GROUP BY region

-- M433 a missing comma between sums
-- meant: SELECT region, sum(case sex when 'F' then 1 else 0 end) women, sum(case sex when 'M' then 1 else 0 end) men FROM patients GROUP BY region
SELECT region, sum(case sex when 'F' then 1 else 0 end) women sum(case sex when 'M' then 1 else 0 end) men FROM patients GROUP BY region

-- M434 a count in its own name
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, DP_COUNT(*) FROM visits GROUP BY clinic

-- M435 a star behind IN
-- meant: SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM patients WHERE sex = 'F')
SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT * FROM patients WHERE sex = 'F')

-- M436 a number without a name
-- meant: SELECT SUM(n) FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic)
SELECT SUM(n) FROM (SELECT clinic, COUNT(*) FROM visits GROUP BY clinic)

-- M437 a name of several words without quotes
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Lake View'
SELECT COUNT(*) FROM visits WHERE clinic = Lake View

-- M438 GROUP BY by a number that no item has
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY 1
SELECT clinic, COUNT(*) FROM visits GROUP BY 3

-- M439 texts in double quotes within a function of Access
-- meant: SELECT IIf("sex"='F','Women','Men') AS g, Count(*) AS n FROM patients GROUP BY IIf("sex"='F','Women','Men');
SELECT IIf([sex]="F","Women","Men") AS g, Count(*) AS n FROM patients GROUP BY IIf([sex]="F","Women","Men");

-- M440 a day of Access
-- meant: SELECT Count(*) FROM visits WHERE visit_date >= DATE '2024-01-01'
SELECT Count(*) FROM visits WHERE visit_date >= #2024-01-01#

-- M441 epsilon among the arguments of COUNT
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM visits
SELECT COUNT(*, epsilon=0.5) FROM visits

-- M442 a condition of a join without its sign
-- meant: SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.patient_id v.patient_id GROUP BY p.sex

-- M443 a per cent sign behind a column
-- meant: SELECT clinic, SUM(cost * minutes / 100) FROM visits GROUP BY clinic
SELECT clinic, SUM(cost * minutes%) FROM visits GROUP BY clinic

-- M444 a function of Presto
-- meant: SELECT STRPTIME('2024-01-01', '%Y-%m-%d') < visit_date AS recent, COUNT(*) FROM visits GROUP BY 1
SELECT date_parse('2024-01-01', '%Y-%m-%d') < visit_date AS recent, COUNT(*) FROM visits GROUP BY 1

-- M445 a remark as of MySQL
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) # visits of each
FROM visits GROUP BY clinic

-- M446 ON with one name twice
-- meant: SELECT sex, COUNT(*) FROM patients JOIN visits ON patients.patient_id = visits.patient_id GROUP BY sex
SELECT sex, COUNT(*) FROM patients JOIN visits ON patient_id = patient_id GROUP BY sex

-- M447 months as the ends of a range
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2024-01-01' AND '2024-03-31'
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN 'Jan 2024' AND 'Mar 2024'

-- M448 letters of a function in another order
-- meant: SELECT YEAR(visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT YAER(visit_date), COUNT(*) FROM visits GROUP BY 1

-- M449 groups by the only number
-- meant: SELECT COUNT(*) AS visits_n FROM visits
SELECT COUNT(*) AS visits_n FROM visits GROUP BY visits_n

-- M450 a window over all rows, of which one is shown
-- meant: SELECT PERCENTILE_CONT(cost, 0.5) FROM visits
SELECT PERCENTILE_CONT(cost, 0.5) OVER() FROM visits LIMIT 1

-- M451 options at the end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) FROM visits
SELECT COUNT(*) FROM visits OPTIONS (epsilon = 0.1)

-- M452 a function for the budget
-- meant: SHOW PRIVACY BUDGET
SELECT remaining_budget()

-- M453 shares of pandas
-- meant: SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM patients GROUP BY sex ORDER BY share DESC
patients['sex'].value_counts(normalize=True)

-- M454 numbers and texts with +
-- meant: SELECT YEAR(visit_date) || '-Q' || QUARTER(visit_date) AS q, COUNT(*) FROM visits GROUP BY YEAR(visit_date) || '-Q' || QUARTER(visit_date)
SELECT YEAR(visit_date) + '-Q' + QUARTER(visit_date) AS q, COUNT(*) FROM visits GROUP BY YEAR(visit_date) + '-Q' + QUARTER(visit_date)

-- M455 an apostrophe within a text
-- meant: SELECT COUNT(*) FROM visits WHERE note = 'patient''s choice'
SELECT COUNT(*) FROM visits WHERE note = 'patient's choice'

-- M456 a remark behind two slashes
-- meant: SELECT clinic, SUM(cost) FROM visits GROUP BY clinic
SELECT clinic, SUM(cost) // takings
FROM visits GROUP BY clinic

-- M457 a variable of a script
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= '2024-01-01'
DECLARE @start DATE = '2024-01-01'; SELECT COUNT(*) FROM visits WHERE visit_date >= @start

-- M458 digits as an argument of AVG
-- meant: SELECT clinic, ROUND(AVG(cost), 2) FROM visits GROUP BY clinic
SELECT clinic, AVG(cost, 2) FROM visits GROUP BY clinic

-- M459 years from a year of birth
-- meant: SELECT (YEAR(now()) - birth_year) AS age, COUNT(*) FROM patients GROUP BY age
SELECT DATEDIFF(YEAR, birth_year, GETDATE()) AS age, COUNT(*) FROM patients GROUP BY age

-- M460 no blank behind FROM
-- meant: SELECT clinic,COUNT(*) FROM visits GROUP BY clinic
SELECT clinic,COUNT(*) FROMvisits GROUP BY clinic

-- M461 two commas
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic,, COUNT(*) FROM visits GROUP BY clinic

-- M462 a name of a month in capitals
-- meant: SELECT COUNT(*) FROM visits WHERE UPPER(strftime(visit_date, '%b')) = 'JAN'
SELECT COUNT(*) FROM visits WHERE TO_CHAR(visit_date, 'MON') = 'JAN'

-- M463 bins of Kusto
-- meant: SELECT time_bucket(INTERVAL 30 DAY, visit_date), AVG(cost) FROM visits WHERE clinic = 'Summit' GROUP BY time_bucket(INTERVAL 30 DAY, visit_date)
visits | where clinic == "Summit" | summarize avg(cost) by bin(visit_date, 30d)

-- M464 a comma for THEN
-- meant: SELECT CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END AS size, COUNT(*) FROM visits GROUP BY size
SELECT CASE WHEN minutes > 30, 'long' ELSE 'short' END AS size, COUNT(*) FROM visits GROUP BY size

-- M465 END IF
-- meant: SELECT CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END AS size, COUNT(*) FROM visits GROUP BY 1
SELECT IF minutes > 30 THEN 'long' ELSE 'short' END IF AS size, COUNT(*) FROM visits GROUP BY 1

-- M466 CAST with a comma
-- meant: SELECT CAST(visit_date AS VARCHAR) AS d, COUNT(*) FROM visits GROUP BY d
SELECT CAST(visit_date, VARCHAR) AS d, COUNT(*) FROM visits GROUP BY d

-- M467 a type by a mistyped name
-- meant: SELECT CAST(minutes AS INTEGER) AS t, COUNT(*) FROM visits GROUP BY t
SELECT CAST(minutes AS INTERGER) AS t, COUNT(*) FROM visits GROUP BY t

-- M468 the other slash
-- meant: SELECT SUM(cost) / COUNT(*) FROM visits
SELECT SUM(cost) \ COUNT(*) FROM visits

-- M469 LPAD of a number
-- meant: SELECT LPAD(CAST(MONTH(visit_date) AS VARCHAR), 2, '0') AS m, COUNT(*) FROM visits GROUP BY m
SELECT LPAD(MONTH(visit_date), 2, '0') AS m, COUNT(*) FROM visits GROUP BY m

-- M470 texts with + within a call
-- meant: SELECT RIGHT('0' || CAST(MONTH(visit_date) AS VARCHAR(2)), 2) m, COUNT(*) FROM visits GROUP BY RIGHT('0' || CAST(MONTH(visit_date) AS VARCHAR(2)), 2)
SELECT RIGHT('0' + CAST(MONTH(visit_date) AS VARCHAR(2)), 2) m, COUNT(*) FROM visits GROUP BY RIGHT('0' + CAST(MONTH(visit_date) AS VARCHAR(2)), 2)

-- M471 a table of a template
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY 1
SELECT clinic, COUNT(*) FROM {{ ref('visits') }} GROUP BY 1

-- M472 a question in English
-- meant: SELECT region, COUNT(*) FROM patients GROUP BY region
How many patients are there per region?

-- M473 a formula of a spreadsheet
-- meant: SELECT AVG(cost) FROM visits WHERE clinic = 'Summit'
=AVERAGEIFS(cost, clinic, "Summit")

-- M474 an expression of a level in Tableau
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
{ FIXED [clinic] : AVG([cost]) }

-- M475 DAX
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
EVALUATE SUMMARIZECOLUMNS(visits[clinic], "n", COUNTROWS(visits))

-- M476 a function of Access over a table by its name
-- meant: SELECT COUNT(*) FROM patients WHERE sex = 'F'
SELECT DCount("*", "patients", "sex='F'")

-- M477 a question with a join
-- meant: SELECT sex, AVG(cost) FROM visits JOIN patients USING (patient_id) WHERE clinic = 'Lake View' GROUP BY sex
what is the mean cost of visits at Lake View by sex

-- M478 typing errors in each word
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
SELCT clinc, AVG(cots) FORM visits GROUP BT clinc

-- M479 WHERE alone in COUNT
-- meant: SELECT COUNT(*) FILTER (WHERE YEAR(visit_date)=2023) AS y23, COUNT(*) FILTER (WHERE YEAR(visit_date)=2024) AS y24 FROM visits
SELECT COUNT(WHERE YEAR(visit_date)=2023) AS y23, COUNT(WHERE YEAR(visit_date)=2024) AS y24 FROM visits

-- M480 a column in single quotes
-- meant: SELECT SUM(cost) FROM visits
SELECT SUM('cost') FROM visits

-- M481 a dollar sign
-- meant: SELECT COUNT(*) FROM visits WHERE cost > 100
SELECT COUNT(*) FROM visits WHERE cost > $100

-- M482 groups of at least a share of all
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic QUALIFY COUNT(*) > 5 / 100 * SUM(COUNT(*)) OVER ()
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic HAVING COUNT(*) > 5%

-- M483 bounds as of BigQuery
-- meant: SELECT SUM(cost, contribution_bounds_per_group => (0, 200)) FROM visits
SELECT SUM(cost CLAMPED BETWEEN 0 AND 200) FROM visits

-- M484 rows by their number
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT * FROM visits WHERE ROWNUM < 10

-- M485 an ordinal number of a day
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > '2024-01-01'
SELECT COUNT(*) FROM visits WHERE visit_date > '1st Jan 2024'

-- M486 a moment with a zone for a day
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= '2024-01-01'
SELECT COUNT(*) FROM visits WHERE visit_date >= '2024-01-01T00:00:00Z'

-- M487 a day in words
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date >= (date_trunc('month', current_date) - INTERVAL 1 month)
SELECT COUNT(*) FROM visits WHERE visit_date >= 'last month'

-- M488 a formula of aggregates in another aggregate
-- meant: SELECT AVG(n) FROM (SELECT DATEDIFF(MAX(visit_date), MIN(visit_date)) AS n FROM visits GROUP BY patient_id)
SELECT AVG(DATEDIFF(MAX(visit_date), MIN(visit_date))) FROM visits GROUP BY patient_id

-- M489 a rank without OVER
-- meant: SELECT clinic, PERCENT_RANK() OVER (ORDER BY AVG(cost) DESC) FROM visits GROUP BY clinic
SELECT clinic, PERCENT_RANK(AVG(cost)) FROM visits GROUP BY clinic

-- M490 a procedure that runs a statement
-- meant: SELECT COUNT(*) FROM visits
EXEC sp_executesql N'SELECT COUNT(*) FROM visits'

-- M491 WITH without a SELECT
-- meant: WITH x AS (SELECT clinic, SUM(cost) s FROM visits GROUP BY clinic) SELECT * FROM x
WITH x AS (SELECT clinic, SUM(cost) s FROM visits GROUP BY clinic)

-- M492 a number without a name in WITH
-- meant: WITH x AS (SELECT clinic, SUM(cost) AS cost FROM visits GROUP BY clinic) SELECT clinic, cost FROM x
WITH x AS (SELECT clinic, SUM(cost) FROM visits GROUP BY clinic) SELECT clinic, cost FROM x

-- M493 a subquery without parentheses
-- meant: SELECT AVG(s) FROM (SELECT patient_id, SUM(cost) AS s FROM visits GROUP BY patient_id)
SELECT AVG(s) FROM SELECT patient_id, SUM(cost) AS s FROM visits GROUP BY patient_id

-- M494 the label of the largest value
-- meant: SELECT clinic FROM visits GROUP BY clinic ORDER BY SUM(cost) DESC LIMIT 1
SELECT MAX_BY(clinic, cost) FROM visits

-- M495 buckets without their ends
-- meant: SELECT WIDTH_BUCKET(cost, 0, 100, 10) b, COUNT(*) FROM visits GROUP BY b
SELECT WIDTH_BUCKET(cost, 10) b, COUNT(*) FROM visits GROUP BY b

-- M496 ALL for NOT IN
-- meant: SELECT COUNT(*) FROM visits WHERE clinic NOT IN ('Summit', 'Orchard')
SELECT COUNT(*) FROM visits WHERE clinic != ALL ('Summit', 'Orchard')

-- M497 signs as of HTML
-- meant: SELECT COUNT(*) FROM visits WHERE cost > 100 AND minutes < 50
SELECT COUNT(*) FROM visits WHERE cost &gt; 100 AND minutes &lt; 50

-- M498 patterns of a public column without the column
-- meant: SELECT COUNT(*) FROM diagnoses WHERE diagnosis LIKE '%asthma%' OR diagnosis LIKE '%copd%'
SELECT COUNT(*) FROM diagnoses WHERE diagnosis LIKE '%asthma%' OR '%copd%'

-- M499 the sign of an assignment
-- meant: SELECT COUNT(*) FROM patients WHERE sex = 'F'
SELECT COUNT(*) FROM patients WHERE sex := 'F'

-- M500 a parenthesis that is missing at the end
-- meant: SELECT COUNT(*) FROM patients WHERE (sex = 'F' AND (region = 'Old Town' OR region = 'Harbour'))
SELECT COUNT(*) FROM patients WHERE (sex = 'F' AND (region = 'Old Town' OR region = 'Harbour')

-- M501 ORDER BY the number of no item
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY 2 DESC
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY 3 DESC

-- M502 SEL of Teradata
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY 1
SEL clinic, COUNT(*) FROM visits GROUP BY 1

-- M503 a procedure of SAS
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
proc means data=visits mean; class clinic; var cost; run;

-- M504 a call of an object-relational mapper
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
Visit.objects.filter(clinic="Summit").count()

-- M505 a column with a minus sign in its name
-- meant: SELECT COUNT(*) FROM visits WHERE visit_id > 5
SELECT COUNT(*) FROM visits WHERE visit-id > 5

-- M506 FIRST at the end
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY 2 DESC LIMIT 5
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY 2 DESC FIRST 5

-- M507 a range in IN
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) BETWEEN 2023 AND 2024
SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) IN 2023..2024

-- M508 a product that is summed
-- meant: SELECT SUM(cost * minutes) / SUM(minutes) FROM visits
SELECT SUMPRODUCT(cost, minutes) / SUM(minutes) FROM visits

-- M509 a percentile by its name
-- meant: SELECT QUANTILE_CONT(cost, 0.95) FROM visits
SELECT P95(cost) FROM visits

-- M510 two aggregates in WHERE
-- meant: SELECT COUNT(*) FROM visits WHERE ABS(cost - (SELECT AVG(cost) FROM visits)) > 2 * (SELECT STDDEV(cost) FROM visits)
SELECT COUNT(*) FROM visits WHERE ABS(cost - AVG(cost)) > 2 * STDDEV(cost)

-- M511 WITH is missing
-- meant: WITH a AS (SELECT patient_id, SUM(cost) AS spent FROM visits GROUP BY patient_id) SELECT AVG(spent) FROM a
a AS (SELECT patient_id, SUM(cost) AS spent FROM visits GROUP BY patient_id) SELECT AVG(spent) FROM a

-- M512 units by a number that HAVING alone has
-- meant: SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING MAX(visit_date) < NOW() - INTERVAL 90 DAY)
SELECT patient_id FROM visits GROUP BY patient_id HAVING MAX(visit_date) < NOW() - INTERVAL 90 DAY

-- M513 a parenthesis behind the wrong argument
-- meant: SELECT clinic, ROUND(AVG(cost), 2) FROM visits GROUP BY clinic
SELECT clinic, ROUND(AVG(cost)), 2) FROM visits GROUP BY clinic

-- M514 EXIST
-- meant: SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)
SELECT COUNT(*) FROM patients p WHERE EXIST (SELECT 1 FROM visits v WHERE v.patient_id = p.patient_id)

-- M515 a pattern without quotes
-- meant: SELECT COUNT(*) FROM visits WHERE note LIKE '%cough%'
SELECT COUNT(*) FROM visits WHERE note LIKE %cough%

-- M516 the arguments of DATE_PART the other way round
-- meant: SELECT date_part('month', visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT DATE_PART(visit_date, 'month'), COUNT(*) FROM visits GROUP BY 1

-- M517 a day that the month has not
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date <= '2024-02-29'
SELECT COUNT(*) FROM visits WHERE visit_date <= '2024-02-30'

-- M518 columns of ON in quotes
-- meant: SELECT p.sex, SUM(v.cost) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, SUM(v.cost) FROM patients p JOIN visits v ON 'p.patient_id' = 'v.patient_id' GROUP BY p.sex

-- M519 ELT of MySQL
-- meant: SELECT CASE QUARTER(visit_date) WHEN 1 THEN 'Q1' WHEN 2 THEN 'Q2' WHEN 3 THEN 'Q3' WHEN 4 THEN 'Q4' END AS q, COUNT(*) FROM visits GROUP BY q
SELECT ELT(QUARTER(visit_date), 'Q1', 'Q2', 'Q3', 'Q4') AS q, COUNT(*) FROM visits GROUP BY q

-- M520 NOT CONTAINS
-- meant: SELECT COUNT(*) FROM visits WHERE NOT contains(note, 'cough')
SELECT COUNT(*) FROM visits WHERE note NOT CONTAINS 'cough'

-- M521 a column by the first letters of its words
-- meant: SELECT COUNT(*) FROM visits WHERE diagnosis_code = 'C50'
SELECT COUNT(*) FROM visits WHERE diag_code = 'C50'

-- M522 a column with letters left out
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clnc, COUNT(*) FROM visits GROUP BY clnc

-- M523 the year of a day as a column
-- meant: SELECT YEAR(visit_date), COUNT(*) FROM visits GROUP BY YEAR(visit_date)
SELECT visit_year, COUNT(*) FROM visits GROUP BY visit_year

-- M525 a table without the name before its column
-- meant: SELECT p.sex, SUM(v.cost) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, SUM(v.cost) FROM patients p JOIN visits ON p.patient_id = v.patient_id GROUP BY p.sex

-- M526 a table that FROM lacks
-- meant: SELECT p.sex, SUM(v.cost) FROM patients p JOIN visits v USING (patient_id) WHERE v.patient_id = p.patient_id GROUP BY p.sex
SELECT p.sex, SUM(v.cost) FROM patients p WHERE v.patient_id = p.patient_id GROUP BY p.sex

-- M527 a name in single quotes as a key
-- meant: SELECT clinic AS 'The clinic', COUNT(*) FROM visits GROUP BY "The clinic"
SELECT clinic AS 'The clinic', COUNT(*) FROM visits GROUP BY 'The clinic'

-- M528 a sign the wrong way round
-- meant: SELECT COUNT(*) FROM visits WHERE clinic != 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic =! 'Summit'

-- M529 exact values
-- meant: SELECT COUNT(*) FROM patients
SELECT EXACT COUNT(*) FROM patients

-- M530 words that ask for no noise
-- meant: SELECT COUNT(*) FROM patients WHERE sex = 'F'
SELECT COUNT(*) FROM patients WHERE sex = 'F' WITHOUT NOISE

-- M531 percent signs behind numbers
-- meant: SELECT COUNT(*) FROM visits WHERE cost BETWEEN 10 AND 20
SELECT COUNT(*) FROM visits WHERE cost BETWEEN 10% AND 20%

-- M532 thousands
-- meant: SELECT COUNT(*) FROM visits WHERE cost > 2000
SELECT COUNT(*) FROM visits WHERE cost > 2k

-- M533 a format of another function
-- meant: SELECT strftime(visit_date, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY m
SELECT strftime(visit_date, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY m

-- M534 a format of strftime in TO_CHAR
-- meant: SELECT strftime(visit_date, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY m
SELECT TO_CHAR(visit_date, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY m

-- M535 a key in another shape than its item
-- meant: SELECT ROUND(cost, -1), COUNT(*) FROM visits GROUP BY ROUND(cost, -1)
SELECT cost, COUNT(*) FROM visits GROUP BY ROUND(cost, -1)

-- M536 GROUP BY at the wrong level
-- meant: SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits) GROUP BY patient_id

-- M537 the average of a table with a name
-- meant: SELECT COUNT(*) FROM visits v WHERE v.cost > 2 * (SELECT AVG(v.cost) FROM visits v) AND v.clinic = 'Summit'
SELECT COUNT(*) FROM visits v WHERE v.cost > 2 * AVG(v.cost) AND v.clinic = 'Summit'

-- M538 the numbers of units by the table's name
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(patients) FROM visits GROUP BY clinic

-- M539 the unit by the table's name
-- meant: SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patients)

-- M540 rows by the table's name
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(visits) FROM visits GROUP BY clinic

-- M541 an argument left out in GROUP BY
-- meant: SELECT NVL(region, 'unknown'), COUNT(*) FROM patients GROUP BY NVL(region, 'unknown')
SELECT NVL(region, 'unknown'), COUNT(*) FROM patients GROUP BY NVL(region)

-- M542 a sign in a name
-- meant: SELECT sex, COUNT(*) * 100 / 5000 AS "share%" FROM patients GROUP BY sex
SELECT sex, COUNT(*) * 100 / 5000 AS share% FROM patients GROUP BY sex

-- M543 a format in CAST
-- meant: SELECT TO_CHAR(visit_date, 'YYYY') AS y, COUNT(*) FROM visits GROUP BY y
SELECT CAST(visit_date AS STRING FORMAT 'YYYY') AS y, COUNT(*) FROM visits GROUP BY y

-- M544 NULL compared by its sign
-- meant: SELECT region, COUNT(*) FROM patients WHERE region IS NOT NULL GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE region <> NULL GROUP BY region

-- M545 TOP in parentheses without GROUP BY
-- meant: SELECT TOP(3) clinic FROM visits GROUP BY clinic ORDER BY AVG(minutes)
SELECT TOP(3) clinic FROM visits ORDER BY AVG(minutes)

-- M546 a number of a subquery that is joined has no name
-- meant: SELECT p.sex, AVG(spent) FROM patients p JOIN (SELECT patient_id, SUM(cost) AS spent FROM visits GROUP BY patient_id) v ON v.patient_id = p.patient_id GROUP BY p.sex
SELECT p.sex, AVG(spent) FROM patients p JOIN (SELECT patient_id, SUM(cost) FROM visits GROUP BY patient_id) v ON v.patient_id = p.patient_id GROUP BY p.sex

-- M547 a whole year as the end
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) > 2023
SELECT COUNT(*) FROM visits WHERE visit_date > '2023'

-- M548 a pattern after OR
-- meant: SELECT COUNT(*) FROM visits WHERE note LIKE '%cough%' OR note LIKE '%fever%'
SELECT COUNT(*) FROM visits WHERE note LIKE '%cough%' OR '%fever%'

-- M549 IN BETWEEN
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2023-01-01' AND '2023-03-31'
SELECT COUNT(*) FROM visits WHERE visit_date IN BETWEEN '2023-01-01' AND '2023-03-31'

-- M550 the arguments of EXTRACT with a comma
-- meant: SELECT EXTRACT(YEAR FROM visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT EXTRACT(visit_date, YEAR), COUNT(*) FROM visits GROUP BY 1

-- M551 NULL in a list
-- meant: SELECT region, COUNT(*) FROM patients WHERE region NOT IN ('Islands') GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE region NOT IN ('Islands', NULL) GROUP BY region

-- M552 comparisons of a CASE with a value
-- meant: SELECT CASE WHEN minutes < 20 THEN 'short' WHEN minutes < 60 THEN 'middle' ELSE 'long' END AS length, COUNT(*) FROM visits GROUP BY length
SELECT CASE minutes WHEN < 20 THEN 'short' WHEN < 60 THEN 'middle' ELSE 'long' END AS length, COUNT(*) FROM visits GROUP BY length

-- M553 IS before a word
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
SELECT COUNT(*) FROM visits WHERE clinic IS Summit

-- M554 AND in a list
-- meant: SELECT AVG(cost) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT AVG(cost) FROM visits WHERE clinic IN ('Summit' AND 'Orchard')

-- M555 a number of a group as a key
-- meant: SELECT SUM(cost) FROM visits GROUP BY clinic
SELECT SUM(cost) FROM visits GROUP BY clinic, COUNT(*)

-- M556 a text for an INTERVAL
-- meant: SELECT time_bucket(INTERVAL 7 DAYS, visit_date) AS t, COUNT(*) FROM visits GROUP BY t
SELECT date_bin('7 days', visit_date) AS t, COUNT(*) FROM visits GROUP BY t

-- M557 the smallest groups of values that are not declared
-- meant: SELECT * FROM (SELECT note, COUNT(*) AS n FROM visits GROUP BY note) ORDER BY n LIMIT 10
SELECT TOP 10 note, COUNT(*) n FROM visits GROUP BY note ORDER BY n

-- M558 several numbers behind one comparison
-- meant: SELECT COUNT(DISTINCT patient_id) FROM visits WHERE YEAR(visit_date) IN (2023, 2024)
SELECT COUNT(DISTINCT patient_id) FROM visits WHERE YEAR(visit_date) = 2023 AND 2024

-- M559 a weekday beside a number of a day
-- meant: SELECT COUNT(*) FROM visits WHERE dayname(visit_date) = 'Monday'
SELECT COUNT(*) FROM visits WHERE DAY(visit_date) = 'Monday'

-- M560 NULL LAST
-- meant: SELECT clinic, AVG(cost) AS c FROM visits GROUP BY clinic ORDER BY c DESC NULLS LAST
SELECT clinic, AVG(cost) AS c FROM visits GROUP BY clinic ORDER BY c DESC NULL LAST

-- M561 the beginning of a table's name
-- meant: SELECT sex, COUNT(*) FROM patients GROUP BY sex
SELECT sex, COUNT(*) FROM pat GROUP BY sex

-- M562 gender
-- meant: SELECT sex, COUNT(*) FROM patients GROUP BY sex
SELECT gender, COUNT(*) FROM patients GROUP BY gender

-- M563 EXISTS for IN
-- meant: SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits)
SELECT COUNT(*) FROM patients WHERE patient_id NOT EXISTS (SELECT 1 FROM visits)

-- M564 a letter for the sign of a product
-- meant: SELECT SUM(cost * minutes) FROM visits
SELECT SUM(cost x minutes) FROM visits

-- M565 the first day of a month by TO_DATE
-- meant: SELECT DATE_TRUNC('month', visit_date), COUNT(*) FROM visits GROUP BY 1
SELECT TO_DATE(visit_date, 'YYYY-MM'), COUNT(*) FROM visits GROUP BY 1

-- M566 LIKE twice
-- meant: SELECT COUNT(*) FROM visits WHERE note LIKE '%cough%' OR note LIKE '%fever%'
SELECT COUNT(*) FROM visits WHERE note LIKE '%cough%' OR LIKE '%fever%'

-- M567 a column twice in a quantile
-- meant: SELECT PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY cost) FROM visits
SELECT PERCENTILE_CONT(cost, 0.99) WITHIN GROUP (ORDER BY cost) FROM visits

-- M568 years ago
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date < (current_date - INTERVAL 2 YEAR)
SELECT COUNT(*) FROM visits WHERE visit_date < '2 years ago'

-- M569 USING without parentheses
-- meant: SELECT sex, COUNT(*) FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id GROUP BY sex
SELECT sex, COUNT(*) FROM visits v LEFT JOIN patients p USING user_id GROUP BY sex

-- M570 COUNT in HAVING beside another number
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic HAVING COUNT(*) > 50
SELECT clinic, AVG(cost) FROM visits GROUP BY clinic HAVING COUNT > 50

-- M571 & between conditions
-- meant: SELECT COUNT(*) FROM patients WHERE birth_year > 1980 AND sex = 'F'
SELECT COUNT(*) FROM patients WHERE birth_year > 1980 & sex = 'F'

-- M572 ANY of a list
-- meant: SELECT COUNT(*) FROM visits WHERE clinic IN ('Summit', 'Orchard')
SELECT COUNT(*) FROM visits WHERE clinic = ANY('Summit', 'Orchard')

-- M573 a subquery that is joined without a condition
-- meant: SELECT sex, AVG(n) FROM patients JOIN (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) USING (patient_id) GROUP BY sex
SELECT sex, AVG(n) FROM patients JOIN (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY sex

-- M574 years as the ends of days
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2023-01-01' AND '2024-12-31'
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN '2023' AND '2024'

-- M575 a window without ORDER BY
-- meant: SELECT clinic, SUM(cost) AS total, RANK() OVER (ORDER BY total DESC) FROM visits GROUP BY clinic
SELECT clinic, SUM(cost) AS total, RANK() OVER (total DESC) FROM visits GROUP BY clinic

-- M576 a key compared with itself in WHERE
-- meant: SELECT sex, AVG(cost) FROM visits, patients WHERE visits.patient_id = patients.patient_id AND patients.patient_id = visits.patient_id GROUP BY sex
SELECT sex, AVG(cost) FROM visits, patients WHERE patient_id = patient_id GROUP BY sex

-- M700 a placeholder in quotes
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE visit_date > $value GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE visit_date > '{{ value }}' GROUP BY clinic

-- M701 a parameter of a report
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > $value
SELECT COUNT(*) FROM visits WHERE minutes > <Parameters.value>

-- M702 a variable of T-SQL
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > $value
SELECT COUNT(*) FROM visits WHERE minutes > @value

-- M703 a marker of Python's drivers
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > $value
SELECT COUNT(*) FROM visits WHERE minutes > %s

-- M704 bounds of Spark's quantile
-- meant: itself
SELECT percentile_approx(minutes, 0.5, contribution_bounds_per_row => (1, 120)) FROM visits

-- M705 a condition of pandas
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex IN ('F', 'M') GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex.isin(['F', 'M']) GROUP BY region

-- M706 a condition of R
-- meant: SELECT region, COUNT(*) FROM patients WHERE sex IN ('F', 'M') GROUP BY region
SELECT region, COUNT(*) FROM patients WHERE sex %in% c('F', 'M') GROUP BY region

-- M707 what is missing, in R
-- meant: SELECT COUNT(*) FROM visits WHERE note IS NULL
SELECT COUNT(*) FROM visits WHERE is.na(note)

-- M708 between as a function
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits WHERE minutes BETWEEN 10 AND 20 GROUP BY clinic
SELECT clinic, n_distinct(patient_id) FROM visits WHERE between(minutes, 10, 20) GROUP BY clinic

-- M709 the number of rows, in R
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
SELECT clinic, n() AS n FROM visits GROUP BY clinic

-- M710 the number of rows, in Python
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > 30
SELECT len(*) FROM visits WHERE minutes > 30

-- M711 a chain of pandas behind SELECT
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
SELECT visits.groupby('clinic').cost.mean()

-- M712 missing values filled by pandas
-- meant: SELECT AVG(coalesce(cost, 0)) FROM visits
SELECT AVG(cost.fillna(0)) FROM visits

-- M713 cases of R
-- meant: SELECT CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END AS k, COUNT(*) FROM visits GROUP BY k
SELECT case_when(minutes > 30 ~ 'long', TRUE ~ 'short') AS k, n() FROM visits GROUP BY k

-- M714 a number without a name, in R
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
visits %>% group_by(clinic) %>% summarise(mean(cost))

-- M715 a sum of OpenDP
-- meant: SELECT clinic, SUM(cost, contribution_bounds_per_row => (0, 200)) FROM visits GROUP BY clinic
SELECT clinic, dp_sum(cost, 0, 200) FROM visits GROUP BY clinic

-- M716 a sum of OpenDP with its epsilon
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0) SUM(cost, contribution_bounds_per_row => (0, 200)) FROM visits
SELECT dp_sum(cost, 0, 200, 1.0) FROM visits

-- M717 the private clause without WITH
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M718 BigQuery's rule of aggregation
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (privacy_unit_column=patient_id) clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold=50, privacy_unit_column=patient_id) clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic

-- M719 a setting of epsilon before
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM patients
SET epsilon = 0.5; SELECT COUNT(*) FROM patients

-- M720 a privacy unit at the end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0) clinic, SUM(cost) AS s FROM visits GROUP BY clinic
SELECT clinic, SUM(cost) AS s FROM visits GROUP BY clinic WITH PRIVACY UNIT patient_id EPSILON 1.0

-- M721 options in parentheses at the end
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon=1.0, delta=1e-7) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic WITH (epsilon=1.0, delta=1e-7, max_ids=1)

-- M722 names of PipelineDP
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-7) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(total_epsilon=1, total_delta=1e-7, max_contributions_per_partition=3) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M723 a delta below 0
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-7) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = -1e-7) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M724 options of other systems
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, confidence = 0.95) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, confidence_level = 0.95, min_group_size = 20) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M725 T-SQL's names of items
-- meant: SELECT clinic AS place, AVG(cost) AS avg_cost FROM visits GROUP BY clinic
SELECT place = clinic, avg_cost = AVG(cost) FROM visits GROUP BY clinic

-- M726 a key that one table lacks
-- meant: SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.sex
SELECT p.sex, COUNT(*) FROM patients p JOIN visits v ON p.visit_id = v.visit_id GROUP BY p.sex

-- M727 a format of Presto
-- meant: SELECT strftime(visit_date, '%Y-%m') AS m, COUNT(*) FROM visits GROUP BY 1
SELECT format_datetime(visit_date, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY 1

-- M728 a sample of Snowflake
-- meant: SELECT AVG(cost) FROM visits
SELECT AVG(cost) FROM visits SAMPLE (10)

-- M729 UNIQUE within COUNT
-- meant: SELECT COUNT(DISTINCT diagnosis_code) FROM visits
SELECT COUNT(UNIQUE diagnosis_code) FROM visits

-- M730 a day of Teradata
-- meant: SELECT COUNT(*) FROM visits WHERE visit_date > DATE '2024-01-01'
SELECT COUNT(*) FROM visits WHERE visit_date > 1240101

-- M731 TRY of Presto
-- meant: SELECT clinic, SUM(cost) / COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, TRY(SUM(cost) / COUNT(*)) FROM visits GROUP BY clinic

-- M732 a format of Teradata
-- meant: SELECT TO_CHAR(visit_date, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY 1
SELECT CAST(visit_date AS FORMAT 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY 1

-- M733 quantiles of ClickHouse
-- meant: SELECT QUANTILE_CONT(minutes, [0.5, 0.9]) FROM visits
SELECT quantiles(0.5, 0.9)(minutes) FROM visits

-- M734 the start of a month, in SQLite
-- meant: SELECT CAST(date_trunc('month', visit_date) AS DATE) AS m, COUNT(*) FROM visits GROUP BY m
SELECT date(visit_date, 'start of month') AS m, COUNT(*) FROM visits GROUP BY m

-- M735 a list without NULLs
-- meant: SELECT sex, region, COUNT(DISTINCT patient_id) AS n FROM patients GROUP BY sex, region
SELECT sex, ARRAY_AGG(DISTINCT region IGNORE NULLS) FROM patients GROUP BY sex

-- M736 an approximate count of ClickHouse
-- meant: itself
SELECT uniqCombined(patient_id) FROM visits

-- M737 the format of an answer
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic FORMAT JSON

-- M738 settings of ClickHouse
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic SETTINGS max_threads = 4

-- M739 hints of T-SQL at the end
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic OPTION (MAXDOP 1)

-- M740 Spark's orders
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic DISTRIBUTE BY clinic SORT BY n DESC

-- M741 a quantile with weights
-- meant: SELECT approx_percentile(cost, 0.5) FROM visits
SELECT approx_percentile(cost, 1, 0.5) FROM visits

-- M742 a number as a text, in SQLite
-- meant: SELECT ROUND(AVG(cost), 2) FROM visits
SELECT printf('%.2f', AVG(cost)) FROM visits

-- M743 an average that is never NULL
-- meant: SELECT AVG(cost) FROM visits
SELECT avgOrNull(cost) FROM visits

-- M744 the first rows of Oracle, counted
-- meant: SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WHERE ROWNUM < 100

-- M745 a value chosen by another
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, max_by(diagnosis_code, cost) FROM visits GROUP BY clinic

-- M746 a condition that nothing is like
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE minutes > 5 GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE minutes > 5 AND soundex(clinic) = 'S530' GROUP BY clinic

-- M747 money of T-SQL
-- meant: SELECT clinic, ROUND(AVG(cost), 0) AS c FROM visits GROUP BY clinic
SELECT clinic, FORMAT(AVG(cost), 'C0') AS c FROM visits GROUP BY clinic

-- M748 an epsilon of each number
-- meant: SELECT clinic, AVG(cost), COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, AVG(cost) WITH EPSILON 0.3, COUNT(*) WITH EPSILON 0.1 FROM visits GROUP BY clinic

-- M749 private functions of other systems
-- meant: SELECT clinic, COUNT(DISTINCT patient_id), AVG(cost) FROM visits GROUP BY clinic
SELECT clinic, DP_COUNT(DISTINCT patient_id), DP_AVG(cost) FROM visits GROUP BY clinic

-- M750 a reading of a JSON text
-- meant: SELECT note ->> '$.plan' AS plan, COUNT(*) FROM visits GROUP BY 1
SELECT note:plan::string AS plan, COUNT(*) FROM visits GROUP BY 1

-- M751 Grafana's macros
-- meant: SELECT date_trunc('day', visit_date) AS time, COUNT(*) FROM visits WHERE visit_date >= '2024-01-01' GROUP BY 1
SELECT $__timeGroup(visit_date, '1d') AS time, COUNT(*) FROM visits WHERE $__timeFilter(visit_date) GROUP BY 1

-- M580 the largest average of groups, as an aggregate of an aggregate
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic ORDER BY AVG(cost) DESC LIMIT 1
SELECT clinic, MAX(AVG(cost)) FROM visits GROUP BY clinic

-- M581 no ORDER BY in WITHIN GROUP
-- meant: SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) FROM visits
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (cost) FROM visits

-- M582 a join on a column that is called otherwise, without its table
-- meant: SELECT chapter, COUNT(*) FROM visits JOIN diagnoses ON diagnosis_code = code GROUP BY chapter
SELECT chapter, COUNT(*) FROM visits JOIN diagnoses ON diagnosis_code = icd GROUP BY chapter

-- M583 a number divided by the unit
-- meant: SELECT SUM(cost) / COUNT(DISTINCT patient_id) FROM visits
SELECT SUM(cost) / patient_id FROM visits

-- M584 two columns of the other table
-- meant: SELECT sex, AVG(cost) FROM patients JOIN visits USING (patient_id) WHERE diagnosis_code = 'C50' GROUP BY sex
SELECT sex, AVG(cost) FROM patients WHERE diagnosis_code = 'C50' GROUP BY sex

-- M585 a subquery without SELECT
-- meant: SELECT clinic, AVG(cost) - (SELECT AVG(cost) FROM visits) FROM visits GROUP BY clinic
SELECT clinic, AVG(cost) - (AVG(cost) FROM visits) FROM visits GROUP BY clinic

-- M586 CASE with a value before WHEN IN
-- meant: SELECT CASE WHEN MONTH(visit_date) IN (12, 1, 2) THEN 'winter' ELSE 'other' END AS season, AVG(cost) FROM visits GROUP BY season
SELECT CASE MONTH(visit_date) WHEN IN (12, 1, 2) THEN 'winter' ELSE 'other' END AS season, AVG(cost) FROM visits GROUP BY season

-- M587 rows above the MEAN
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE cost > (SELECT MEAN(cost) FROM visits) GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE cost > MEAN(cost) GROUP BY clinic

-- M588 IN with a query of WITH
-- meant: WITH f AS (SELECT patient_id FROM patients WHERE sex = 'F') SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM f)
WITH f AS (SELECT patient_id FROM patients WHERE sex = 'F') SELECT COUNT(*) FROM visits WHERE patient_id IN f

-- M589 a value taken for a column
-- meant: SELECT clinic, COUNT(*) FROM visits WHERE clinic = 'Summit' AND minutes > 30 GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits WHERE summit = TRUE AND minutes > 30 GROUP BY clinic

-- M590 DISTINCT by another name
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, COUNT(UNIQUE patient_id) FROM visits GROUP BY clinic

-- M591 two tables that FROM lacks, with a column of one name
-- meant: SELECT patients.sex, diagnoses.chapter, COUNT(*) FROM visits JOIN patients USING (patient_id) JOIN diagnoses ON visits.diagnosis_code = diagnoses.code GROUP BY 1, 2
SELECT patients.sex, diagnoses.chapter, COUNT(*) FROM visits GROUP BY 1, 2

-- M592 IF with a condition alone in COUNT
-- meant: SELECT clinic, COUNT_IF(minutes > 30) FROM visits GROUP BY clinic
SELECT clinic, COUNT(IF(minutes > 30)) FROM visits GROUP BY clinic

-- M593 AND between the keys of ORDER BY
-- meant: SELECT sex, COUNT(*) n FROM patients GROUP BY sex ORDER BY n, sex DESC
SELECT sex, COUNT(*) n FROM patients GROUP BY sex ORDER BY n AND sex DESC

-- M594 a key that rows do not have is counted
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(appointment_id) FROM visits GROUP BY clinic

-- M595 the unit of one side of ON without its table
-- meant: SELECT sex, AVG(cost) FROM patients JOIN visits ON patients.patient_id = visits.patient_id GROUP BY sex
SELECT sex, AVG(cost) FROM patients JOIN visits ON patients.patient_id = patient_id GROUP BY sex

-- M596 a value looked up in a table of units
-- meant: SELECT sex AS sex, COUNT(*) FROM visits LEFT JOIN patients ON patients.patient_id = visits.patient_id GROUP BY sex
SELECT (SELECT sex FROM patients WHERE patients.patient_id = visits.patient_id) AS sex, COUNT(*) FROM visits GROUP BY sex

-- M597 a name of a subquery's number that it does not have
-- meant: SELECT cnt, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS cnt FROM visits GROUP BY patient_id) t GROUP BY cnt
SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS cnt FROM visits GROUP BY patient_id) t GROUP BY n

-- M598 the column of a domain in a subquery of IN
-- meant: SELECT COUNT(*) FROM visits WHERE diagnosis_code IN (SELECT code FROM diagnoses WHERE chapter = 'Skin')
SELECT COUNT(*) FROM visits WHERE diagnosis_code IN (SELECT diagnosis_code FROM diagnoses WHERE chapter = 'Skin')

-- M599 a day between years
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) BETWEEN 2023 AND 2024
SELECT COUNT(*) FROM visits WHERE visit_date BETWEEN 2023 AND 2024

-- M600 a mistyped function around an aggregate
-- meant: SELECT clinic, ROUND(AVG(cost), 1) FROM visits GROUP BY clinic
SELECT clinic, RUOND(AVG(cost), 1) FROM visits GROUP BY clinic

-- M601 units compared with a list
-- meant: SELECT SUM(cost) FROM visits WHERE patient_id IN (SELECT patient_id FROM patients WHERE sex = 'F')
SELECT SUM(cost) FROM visits WHERE patient_id = (SELECT patient_id FROM patients WHERE sex = 'F')

-- M602 FILTER without parentheses
-- meant: SELECT SUM(cost) FILTER (WHERE clinic = 'Summit') FROM visits
SELECT SUM(cost) FILTER clinic = 'Summit' FROM visits

-- M603 a condition behind the name of a count
-- meant: SELECT COUNT(*) FILTER (WHERE sex = 'F') AS women, COUNT(*) FILTER (WHERE sex = 'M') AS men FROM patients
SELECT COUNT(*) AS women WHERE sex = 'F', COUNT(*) AS men WHERE sex = 'M' FROM patients

-- M604 DISTINCT as a function of one of several items
-- meant: SELECT clinic, COUNT(DISTINCT diagnosis_code) FROM visits GROUP BY clinic
SELECT clinic, DISTINCT(diagnosis_code) FROM visits GROUP BY clinic

-- M605 a part of a day behind a dot
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) = 2024
SELECT COUNT(*) FROM visits WHERE visit_date.year = 2024

-- M606 a table's name before its column
-- meant: SELECT sex, AVG(cost) FROM visits JOIN patients USING (patient_id) GROUP BY sex
SELECT patient_sex, AVG(visit_cost) FROM visits GROUP BY patient_sex

-- M607 a function by a longer name
-- meant: SELECT UPPER(clinic), COUNT(*) FROM visits GROUP BY 1
SELECT UPPERCASE(clinic), COUNT(*) FROM visits GROUP BY 1

-- M608 a count as the only key of counts
-- meant: SELECT COUNT(*) AS visits, COUNT(patient_id) FROM visits
SELECT COUNT(*) AS visits, COUNT(patient_id) FROM visits GROUP BY visits

-- M610 names of two months
-- meant: SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) BETWEEN 6 AND 8
SELECT COUNT(*) FROM visits WHERE MONTH(visit_date) BETWEEN 'June' AND 'August'

-- M611 short names of weekdays
-- meant: SELECT COUNT(*) FROM visits WHERE dayname(visit_date) IN ('Saturday', 'Sunday')
SELECT COUNT(*) FROM visits WHERE DAYOFWEEK(visit_date) IN ('Sat', 'Sun')

-- M612 a part of a day in the plural
-- meant: SELECT EXTRACT(MONTH FROM visit_date) AS m, COUNT(*) FROM visits GROUP BY m
SELECT EXTRACT(MONTHS FROM visit_date) AS m, COUNT(*) FROM visits GROUP BY m

-- M613 a day compared with this year
-- meant: SELECT COUNT(*) FROM visits WHERE YEAR(visit_date) = YEAR(CURRENT_DATE)
SELECT COUNT(*) FROM visits WHERE visit_date = YEAR(CURRENT_DATE)

-- M614 CASE without THEN in COUNT
-- meant: SELECT clinic, COUNT_IF(minutes > 30 AND cost > 50) FROM visits GROUP BY clinic
SELECT clinic, COUNT(CASE WHEN minutes > 30 AND cost > 50) FROM visits GROUP BY clinic

-- M615 a table two joins away
-- meant: SELECT chapter, COUNT(DISTINCT patient_id) FROM patients JOIN visits USING (patient_id) JOIN diagnoses ON visits.diagnosis_code = diagnoses.code WHERE sex = 'F' GROUP BY chapter
SELECT chapter, COUNT(DISTINCT patient_id) FROM patients WHERE sex = 'F' GROUP BY chapter

-- M616 a table joined twice without its names
-- meant: SELECT d.chapter, COUNT(*) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code JOIN diagnoses e ON v.diagnosis_code = e.code GROUP BY 1
SELECT d.chapter, COUNT(*) FROM visits v JOIN diagnoses d ON v.diagnosis_code = d.code JOIN diagnoses e ON v.diagnosis_code = code GROUP BY 1



-- M752 a text of T-SQL
-- meant: itself
SELECT COUNT(*) FROM visits WHERE clinic = N'Summit'

-- M753 a made column of R
-- meant: SELECT sex, AVG((2024 - birth_year)) AS avg_age FROM patients GROUP BY sex
patients %>% mutate(age = 2024 - birth_year) %>% group_by(sex) %>% summarise(avg_age = mean(age))

-- M754 a table of dbplyr
-- meant: SELECT COUNT(*) AS n, AVG(cost) AS avg FROM visits WHERE clinic = 'Summit'
tbl(con, "visits") %>% filter(clinic == "Summit") %>% summarise(n = n(), avg = mean(cost, na.rm = TRUE)) %>% collect()

-- M755 periods of pandas
-- meant: SELECT date_trunc('month', visit_date), SUM(cost) FROM visits GROUP BY date_trunc('month', visit_date)
visits.resample('M', on='visit_date')['cost'].sum()

-- M756 a quantile of pandas behind SELECT
-- meant: SELECT QUANTILE_CONT(cost, 0.9) FROM visits
SELECT visits.cost.quantile(0.9)

-- M757 a type of pandas
-- meant: SELECT AVG(CAST(minutes AS DOUBLE)) FROM visits
SELECT AVG(minutes.astype(float)) FROM visits

-- M758 Teradata's SELECT
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
SEL clinic, COUNT(*) (NAMED n) FROM visits GROUP BY clinic

-- M759 a format of Teradata behind an item
-- meant: SELECT EXTRACT(MONTH FROM visit_date) AS m, COUNT(*) FROM visits GROUP BY 1
SELECT EXTRACT(MONTH FROM visit_date) (FORMAT '99') AS m, COUNT(*) FROM visits GROUP BY 1

-- M760 how rows are locked
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
LOCKING ROW FOR ACCESS SELECT clinic, COUNT(*) FROM visits GROUP BY clinic

-- M761 an answer in a variable
-- meant: SELECT AVG(cost) FROM visits
SELECT @avg = AVG(cost) FROM visits

-- M762 a number of a row, counted
-- meant: SELECT COUNT(*) FROM visits
SELECT COUNT(rowid) FROM visits

-- M763 BigQuery's pipes
-- meant: WITH __tmp1 AS (SELECT clinic, SUM(cost) AS total FROM visits WHERE minutes > 30 GROUP BY clinic) SELECT * FROM __tmp1
FROM visits |> WHERE minutes > 30 |> AGGREGATE SUM(cost) AS total GROUP BY clinic

-- M764 WITH NOISE
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic WITH NOISE (epsilon = 0.5)

-- M765 an epsilon as a logarithm
-- meant: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0986) clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = ln(3)) clinic, COUNT(*) FROM visits GROUP BY clinic

-- M766 a mechanism around a count
-- meant: SELECT clinic, COUNT(DISTINCT patient_id) FROM visits GROUP BY clinic
SELECT clinic, dp_laplace(COUNT(DISTINCT patient_id), 1.0) FROM visits GROUP BY clinic

-- M767 buckets by their ends
-- meant: SELECT CASE WHEN cost < 0 THEN 0 WHEN cost < 50 THEN 1 WHEN cost < 100 THEN 2 WHEN cost IS NOT NULL THEN 3 END AS b, COUNT(*) FROM visits GROUP BY 1
SELECT width_bucket(cost, ARRAY[0, 50, 100]) AS b, COUNT(*) FROM visits GROUP BY 1

-- M768 buckets of BigQuery
-- meant: SELECT CASE WHEN minutes < 10 THEN 0 WHEN minutes < 60 THEN 1 WHEN minutes IS NOT NULL THEN 2 END AS b, COUNT(*) FROM visits GROUP BY b
SELECT RANGE_BUCKET(minutes, [10, 60]) AS b, COUNT(*) FROM visits GROUP BY b

-- M769 FLOOR to tens
-- meant: SELECT (FLOOR(cost * 1e-1) / 1e-1) AS bin, COUNT(*) FROM visits GROUP BY bin
SELECT FLOOR(cost, -1) AS bin, COUNT(*) FROM visits GROUP BY bin

-- M770 different values in an array
-- meant: SELECT COUNT(DISTINCT diagnosis_code) FROM visits
SELECT ARRAY_SIZE(ARRAY_UNIQUE_AGG(diagnosis_code)) FROM visits

-- M771 a formatted average
-- meant: SELECT ROUND(AVG(cost), 2) FROM visits
SELECT format_number(AVG(cost), 2) FROM visits

-- M772 a value at the latest time
-- meant: SELECT sex, region, COUNT(DISTINCT patient_id) AS n FROM patients GROUP BY sex, region
SELECT sex, ANY_VALUE(region HAVING MAX birth_year) FROM patients GROUP BY sex

-- M773 BigQuery's type
-- meant: SELECT AVG(SAFE_CAST(minutes AS DOUBLE)) FROM visits
SELECT AVG(SAFE_CAST(minutes AS FLOAT64)) FROM visits

-- M774 the budget in Snowflake
-- meant: SHOW PRIVACY BUDGET
SELECT * FROM TABLE(SNOWFLAKE.DATA_PRIVACY.CUMULATIVE_PRIVACY_LOSSES('budget'))

-- M775 LATERAL FLATTEN and what it makes
-- meant: SELECT COUNT(*) FROM visits
SELECT f.value AS v, COUNT(*) FROM visits, LATERAL FLATTEN(input => SPLIT(clinic, ',')) f GROUP BY 1

-- M776 CONNECT BY
-- meant: SELECT COUNT(*) FROM visits
SELECT LEVEL, COUNT(*) FROM visits CONNECT BY PRIOR visit_id = patient_id GROUP BY LEVEL

-- M777 a call of ClickHouse with two lists, which does not parse
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*), quantileIf(0.9)(minutes, cost > 5) FROM visits GROUP BY clinic

-- M778 windowFunnel as the key
-- meant: SELECT count() FROM visits
SELECT windowFunnel(86400)(visit_date, clinic = 'Summit', cost > 5) AS lvl, count() FROM visits GROUP BY lvl

-- M779 ALL of a subquery
-- meant: SELECT COUNT(*) FROM visits v WHERE v.cost > ALL (SELECT cost FROM visits WHERE visits.patient_id = v.patient_id AND clinic = 'Summit')
SELECT COUNT(*) FROM visits v WHERE v.cost > ALL (SELECT cost FROM visits WHERE clinic = 'Summit')

-- M780 CROSS APPLY
-- meant: SELECT p.region, AVG(x.n) FROM patients p LEFT JOIN (SELECT v.patient_id AS k, COUNT(*) AS n FROM visits v GROUP BY v.patient_id) AS x ON x.k = p.patient_id GROUP BY p.region
SELECT p.region, AVG(x.n) FROM patients p CROSS APPLY (SELECT COUNT(*) AS n FROM visits v WHERE v.patient_id = p.patient_id) x GROUP BY p.region

-- M781 a join of dplyr by a vector of names
-- meant: SELECT region, COUNT(DISTINCT patient_id) AS n FROM patients LEFT JOIN visits USING (patient_id) GROUP BY region
patients %>% left_join(visits, by = c("patient_id" = "patient_id")) %>% group_by(region) %>% summarise(n = n_distinct(patient_id))

-- M782 a crosstab with shares
-- meant: SELECT clinic, diagnosis_code, COUNT(*) FROM visits GROUP BY clinic, diagnosis_code
pd.crosstab(visits['clinic'], visits['diagnosis_code'], normalize='index')

-- M783 a step of pandas that is not read
-- meant: SELECT clinic, AVG(cost) FROM visits GROUP BY clinic
visits.groupby('clinic')['cost'].rolling(7).mean()

-- M784 PRQL
-- meant: SELECT clinic, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE cost > 9 GROUP BY clinic ORDER BY n DESC LIMIT 5
from visits
filter cost > 9
group {clinic} (
  aggregate { n = count this, c = average cost }
)
sort {-n}
take 5

-- M785 data.table
-- meant: SELECT clinic, AVG(cost) AS avg, COUNT(*) AS n FROM visits WHERE cost > 9 GROUP BY clinic
visits[cost > 9, .(avg = mean(cost), n = .N), by = .(clinic)]

-- M786 what is no part of GROUP BY
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic FOR JSON PATH

-- M787 a unit behind a number
-- meant: SELECT COUNT(*) FROM visits WHERE minutes > 60
SELECT COUNT(*) FROM visits WHERE minutes > 60 min

-- M788 a join without its condition
-- meant: SELECT p.region, COUNT(*) FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id GROUP BY p.region
SELECT p.region, COUNT(*) FROM patients p LEFT JOIN visits v GROUP BY p.region

-- M789 a correlation beside a key that GROUP BY lacks
-- meant: SELECT CORR(minutes, cost), clinic FROM visits GROUP BY clinic
SELECT CORR(minutes, cost), clinic FROM visits

-- M790 the day of a key in the order of a window
-- meant: SELECT date_trunc('month', visit_date) AS m, SUM(COUNT(*)) OVER (ORDER BY m) FROM visits GROUP BY m
SELECT date_trunc('month', visit_date) AS m, SUM(COUNT(*)) OVER (ORDER BY visit_date) FROM visits GROUP BY m

-- M791 a statement that changes rows
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
UPDATE visits SET cost = 0 WHERE clinic = 'Summit'

-- M792 Access's Yes
-- meant: SELECT COUNT(*) FROM visits WHERE (cost > 5) = TRUE
SELECT COUNT(*) FROM visits WHERE (cost > 5) = Yes

-- M793 LATERAL VIEW
-- meant: SELECT clinic, COUNT(*) FROM visits v GROUP BY clinic
SELECT clinic, COUNT(*) FROM visits v LATERAL VIEW explode(array(clinic, note)) e AS port GROUP BY clinic

-- M794 TOP within the list
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, TOP 3 diagnosis_code FROM visits GROUP BY clinic

-- M795 a list of texts of a key of rows
-- meant: SELECT clinic, COUNT(*) FROM visits GROUP BY clinic
SELECT clinic, LISTAGG(visit_id, ',') FROM visits GROUP BY clinic

-- M797 PIVOT with named columns
-- meant: SELECT diagnosis_code, AVG(cost) FILTER (WHERE clinic = 'Summit') AS summit FROM visits GROUP BY diagnosis_code
SELECT * FROM (SELECT diagnosis_code, clinic, cost FROM visits) PIVOT (AVG(cost) AS c FOR clinic IN ('Summit' AS summit))

-- M799 a question with another number beside it
-- meant: SELECT COUNT(*) FROM visits WHERE clinic = 'Summit'
=COUNTIFS(visits[clinic], "Summit", visits[cost], ">20")

-- M800 FIRST behind LIMIT is missing
-- meant: SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT

-- M801 a function of SQL Server in a script
-- meant: SELECT COUNT(*) FROM visits
EXEC sp_executesql N'SELECT COUNT(*) FROM visits WHERE clinic = @c', N'@c varchar(9)', @c = 'Summit'
