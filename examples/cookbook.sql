-- Questions and how to ask them, on the synthetic clinic of data/.
--
--   dpsql -p data/clinic.toml -f examples/cookbook.sql
--
-- One privacy unit is one patient. A statement costs the default_epsilon of the policy, 0.25, unless it names its
-- price or its error. Together they take an epsilon of 9.56 at most, from a budget of 10 (--dry-run shows the prices
-- alone). Run again, the file costs nothing more.

-- 1. The largest groups, with their counts. How precise each is and how far it is ahead of the next one are free.
SELECT clinic, COUNT(DISTINCT patient_id) AS n, DP_STDDEV(n) AS stddev, DP_GAP() AS ahead_of_next
FROM visits
GROUP BY clinic
ORDER BY n DESC
LIMIT 5;

-- 2. Only which ones: no count is selected, so nothing is spent on counting.
SELECT clinic
FROM visits
GROUP BY clinic
ORDER BY COUNT(DISTINCT patient_id) DESC
LIMIT 5;

-- 3. The one largest group.
SELECT region, DP_GAP() AS ahead_of_second
FROM patients
GROUP BY region
ORDER BY COUNT(*) DESC
LIMIT 1;

-- 4. Groups above a threshold: all whose noisy count reaches it.
SELECT clinic, COUNT(DISTINCT patient_id) AS n
FROM visits
GROUP BY clinic
HAVING n >= 3000;

-- 5. The largest groups, as far as they are above a threshold.
SELECT diagnosis, COUNT(DISTINCT patient_id) AS n
FROM visits JOIN diagnoses ON diagnosis_code = code
GROUP BY diagnosis
HAVING n >= 6000
ORDER BY n DESC
LIMIT 8;

-- 6. One number, with its interval. Not a price but an error is given, at most 50 either way with 95%; it costs 0.06.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50)
  COUNT(DISTINCT patient_id) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high
FROM visits
WHERE visit_date >= '2024-07-01';

-- 7. The smallest groups: only where the domain is public, for the smallest of unknown groups are single people.
SELECT region, COUNT(*) AS n
FROM patients
GROUP BY region
ORDER BY n
LIMIT 3;

-- 8. The largest groups of a key whose values are not declared. A sentence is private until enough patients share it;
--    this costs the default_delta of the policy.
SELECT note, COUNT(DISTINCT patient_id) AS n
FROM visits
WHERE note IS NOT NULL
GROUP BY note
ORDER BY n DESC
LIMIT 3;

-- 9. All groups of such a key that enough patients share. In how many groups a patient counts is found privately.
SELECT note, COUNT(DISTINCT patient_id) AS n
FROM visits
GROUP BY note
ORDER BY n DESC;

-- 10. All groups of a domain. With 95% all intervals together cover their counts.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (intervals = SIMULTANEOUS)
  region, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high
FROM patients
GROUP BY region;

-- 11. By month, with the month before and a running total: the policy declares the range of the dates.
SELECT date_trunc('month', visit_date) AS month, COUNT(DISTINCT patient_id) AS n, LAG(n) OVER (ORDER BY month) AS before
FROM visits
GROUP BY month
ORDER BY month;

-- 12. By age group: the branches of CASE are all the values there are.
SELECT CASE WHEN birth_year < 1950 THEN 'old' WHEN birth_year < 1990 THEN 'middle' ELSE 'young' END AS age, COUNT(*) AS n
FROM patients
GROUP BY age
ORDER BY n DESC;

-- 13. By a range that WHERE gives: no declaration is needed.
SELECT minutes // 10 * 10 AS minutes_from, COUNT(*) AS n
FROM visits
WHERE minutes BETWEEN 0 AND 59
GROUP BY minutes_from
ORDER BY minutes_from;

-- 14. Rows instead of patients. How many rows of one patient count was found once by `dpsql bounds visits`, or is found
--     with a part of epsilon; a bound for this count alone would be COUNT(*, contribution_bounds_per_group => (0, 5)).
SELECT clinic, COUNT(*) AS n
FROM visits
GROUP BY clinic
ORDER BY n DESC;

-- 15. Different values of a column.
SELECT COUNT(DISTINCT diagnosis_code) AS diagnoses
FROM visits;

-- 16. The share of rows that meet a condition: two counts with one noise, and their ratio, which is free.
SELECT clinic, ROUND(100 * AVG(CASE WHEN minutes >= 30 THEN 1 ELSE 0 END), 1) AS long_percent
FROM visits
GROUP BY clinic
ORDER BY long_percent DESC;

-- 17. The share of each group in the whole: a window over released counts is free.
SELECT region, sex, COUNT(*) AS n, n / SUM(n) OVER (PARTITION BY region) AS share
FROM patients
GROUP BY region, sex
ORDER BY region, sex;

-- 18. A ratio of two releases: the price is divided evenly between them.
SELECT v.n / p.n AS came
FROM (SELECT COUNT(DISTINCT patient_id) AS n FROM visits) v, (SELECT COUNT(*) AS n FROM patients) p;

-- 19. A funnel within patients: several counts share one noise, and so are more precise than with noise of their own.
SELECT
  COUNT(*) AS came,
  COUNT(*) FILTER (WHERE visits >= 2) AS came_again,
  COUNT(*) FILTER (WHERE visits >= 2 AND referred) AS was_referred,
  ROUND(100 * was_referred / came, 1) AS percent
FROM (
  SELECT patient_id, COUNT(*) AS visits, BOOL_OR(note = 'Referred to specialist') AS referred
  FROM visits
  GROUP BY patient_id
);

-- 20. A funnel over several tables: each step is a release, and LAG compares it with the one before.
WITH steps AS (
  SELECT 1 AS step, COUNT(*) AS n FROM patients
  UNION ALL
  SELECT 2, COUNT(DISTINCT patient_id) FROM visits
  UNION ALL
  SELECT 3, COUNT(DISTINCT patient_id) FROM visits WHERE visit_date >= '2024-01-01'
)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) step, n, n / LAG(n) OVER (ORDER BY step) AS of_the_step_before
FROM steps
ORDER BY step;

-- 21. Cohorts by their first quarter, and which part came again: the release is used twice, and drawn and paid once.
WITH first AS (
  SELECT patient_id, MIN(visit_date) AS day FROM visits GROUP BY patient_id
), cohort AS (
  SELECT
    date_trunc('quarter', day) AS quarter,
    date_diff('quarter', day, visit_date) AS later,
    COUNT(DISTINCT patient_id) AS n
  FROM visits JOIN first USING (patient_id)
  WHERE day BETWEEN '2023-01-01' AND '2023-12-31'
  GROUP BY quarter, later
  HAVING later >= 0
)
SELECT cohort.quarter, cohort.later, cohort.n / whole.n AS came
FROM cohort JOIN cohort AS whole ON whole.quarter = cohort.quarter AND whole.later = 0
ORDER BY cohort.quarter, cohort.later;

-- 22. The largest groups of each group. A patient is in one region, so each region's three take the whole epsilon.
SELECT region, diagnosis, COUNT(DISTINCT patient_id) AS n
FROM visits JOIN patients USING (patient_id) JOIN diagnoses ON diagnosis_code = code
GROUP BY region, diagnosis
QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY n DESC) <= 3;

-- 23. Every declared value, also those of which a release has no row.
SELECT day.visit_date, COALESCE(r.n, 0) AS n
FROM dp_domain(visits.visit_date) AS day LEFT JOIN (
  SELECT visit_date, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY visit_date ORDER BY n DESC LIMIT 5
) r USING (visit_date)
WHERE day.visit_date < '2023-02-01'
ORDER BY day.visit_date;

-- 24. Two private tables meet on the unit, so that all of a patient stays together.
SELECT chapter, COUNT(DISTINCT patient_id) AS n
FROM patients JOIN visits USING (patient_id) JOIN diagnoses ON code = diagnosis_code
WHERE birth_year >= 2010
GROUP BY chapter
ORDER BY n DESC
LIMIT 3;

-- 25. Who is missing: patients that never came.
SELECT COUNT(*) AS never_came
FROM patients
WHERE patient_id NOT IN (SELECT patient_id FROM visits);

-- 26. How often do people come? First one row a patient, then counts of patients: a histogram.
SELECT visits, COUNT(*) AS patients
FROM (SELECT patient_id, COUNT(*) AS visits FROM visits GROUP BY patient_id)
WHERE visits BETWEEN 1 AND 20
GROUP BY visits
ORDER BY visits;

-- 27. The latest visit of each patient: a window within the unit leaves one row a patient.
SELECT clinic, COUNT(*) AS n
FROM (
  SELECT patient_id, clinic
  FROM visits
  QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date DESC, visit_id DESC) = 1
)
GROUP BY clinic
ORDER BY n DESC;

-- 28. Text is searched, not shown.
SELECT COUNT(DISTINCT patient_id) AS n
FROM visits
WHERE note ILIKE '%worse%';

-- 29. A released answer may be sorted, cut, joined and counted again at no further cost. Each release may have a price
--     of its own.
SELECT COUNT(*) AS clinics, AVG(n) AS mean
FROM (
  SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, COUNT(DISTINCT patient_id) AS n
  FROM visits
  WHERE visit_date < '2024-01-01'
  GROUP BY clinic
)
WHERE n >= 3000;

-- 30. The groups with the largest sum. The policy bounds what a visit costs, and how many visits of a patient count is
--     found privately: values beyond are cut and rows beyond weighted down.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) clinic, SUM(cost) AS revenue
FROM visits
GROUP BY clinic
ORDER BY revenue DESC
LIMIT 5;

-- 31. An average with its interval. The number of rows and the spread come from the same noise, for one price.
SELECT
  AVG(cost) AS average, DP_INTERVAL_LOW(average) AS low, DP_INTERVAL_HIGH(average) AS high,
  COUNT(*) AS visits, STDDEV(cost) AS spread
FROM visits;

-- 32. The median and the quartiles: each is one of the public values between the bounds, never a value of a row.
SELECT
  PERCENTILE_CONT(cost, 0.25) AS lower, MEDIAN(cost) AS median, PERCENTILE_CONT(cost, 0.75) AS upper
FROM visits;

-- 33. A sum of which nobody knows a bound: the bound on a patient's total is found privately, with a fifth of epsilon.
SELECT SUM(cost, contribution_bounds => AUTO) AS revenue
FROM visits
WHERE visit_date >= '2024-01-01';

-- 34. Groups whose sum reaches a threshold. What a patient pays at a clinic in all counts up to 2,000.
SELECT clinic, SUM(cost, contribution_bounds_per_group => (0, 2000)) AS revenue
FROM visits
GROUP BY clinic
HAVING revenue >= 1000000;

-- 35. What does a patient pay on average? First one row a patient, then the average over patients, each up to 3,000.
SELECT AVG(paid, contribution_bounds_per_row => (0, 3000)) AS per_patient
FROM (SELECT patient_id, SUM(cost) AS paid FROM visits GROUP BY patient_id);

-- 36. Averages by group, the largest first: the averages of all groups are released, and ordered afterwards.
SELECT chapter, AVG(minutes) AS average
FROM visits JOIN diagnoses ON code = diagnosis_code
GROUP BY chapter
ORDER BY average DESC;

-- 37. What would it cost, how precise would it be, and which mechanisms could answer? Free, and nothing private is read.
EXPLAIN
SELECT clinic, COUNT(DISTINCT patient_id) AS n, SUM(cost) AS revenue
FROM visits
GROUP BY clinic
ORDER BY n DESC
LIMIT 5;
