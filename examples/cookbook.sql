-- Twenty questions and how to ask them, on the synthetic clinic of data/.
--
--   dpsql -p data/clinic.toml -f examples/cookbook.sql
--
-- One privacy unit is one patient. Each private statement names its price or its error; together they take an epsilon of
-- 6.86 at most, from a budget of 10 (--dry-run shows the prices alone). Run again, the file costs nothing more.

-- 1. The largest groups, with their counts. Everything free stands beside them: how precise, how far ahead.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  clinic,
  COUNT(DISTINCT patient_id) AS n,
  DP_STDDEV(n) AS stddev,
  DP_GAP() AS ahead_of_next
FROM visits
GROUP BY clinic
ORDER BY n DESC
LIMIT 5;

-- 2. Only which ones: no count is asked, so nothing is spent on counting.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2)
  clinic
FROM visits
GROUP BY clinic
TOP 5 BY COUNT(DISTINCT patient_id);

-- 3. The one largest group.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2)
  region,
  DP_GAP() AS ahead_of_second
FROM patients
GROUP BY region
ARGMAX BY COUNT(DISTINCT patient_id);

-- 4. Groups above a threshold: all that seem to reach it.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  clinic,
  COUNT(DISTINCT patient_id) AS n
FROM visits
GROUP BY clinic
HAVING n >= 3000;

-- 5. The largest groups, as far as they are above a threshold.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  d.diagnosis,
  COUNT(DISTINCT v.patient_id) AS n
FROM visits v
JOIN diagnoses d ON v.diagnosis_code = d.code
GROUP BY d.diagnosis
HAVING n >= 6000
ORDER BY n DESC
LIMIT 8;

-- 6. One number, with its interval. Not a price but an error is given, at most 50 either way with 95%; it costs 0.06.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (error = 50)
  COUNT(DISTINCT patient_id) AS n,
  DP_INTERVAL_LOW(n) AS low,
  DP_INTERVAL_HIGH(n) AS high
FROM visits
WHERE visit_date >= DATE '2024-07-01';

-- 7. The smallest groups: only where the domain is public, for the smallest of unknown groups are single people.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  region,
  COUNT(DISTINCT patient_id) AS n
FROM patients
GROUP BY region
ORDER BY n
LIMIT 3;

-- 8. A key whose values are not declared. The sentence itself is private until enough patients share it, which costs delta.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-7)
  note,
  COUNT(DISTINCT patient_id) AS n
FROM visits
WHERE note IS NOT NULL
GROUP BY note
ORDER BY n DESC
LIMIT 3;

-- 9. Every group at once, in however many of them a patient is. With 95% all intervals together cover their counts.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, intervals = SIMULTANEOUS)
  region,
  COUNT(DISTINCT patient_id) AS n,
  DP_INTERVAL_LOW(n) AS low,
  DP_INTERVAL_HIGH(n) AS high
FROM patients
GROUP BY region;

-- 10. By month: a computed key over a declared range of dates.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
  date_trunc('month', visit_date) AS month,
  COUNT(DISTINCT patient_id) AS n
FROM visits
GROUP BY month
ORDER BY n DESC
LIMIT 3;

-- 11. By age group: CASE makes the key, and its branches are all the values there are.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
  CASE WHEN birth_year < 1950 THEN 'old' WHEN birth_year < 1990 THEN 'middle' ELSE 'young' END AS age,
  COUNT(DISTINCT patient_id) AS n
FROM patients
GROUP BY age
ORDER BY n DESC
LIMIT 2;

-- 12. Two counts and their ratio, which is free: the share of long visits at the busiest clinics.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  clinic,
  COUNT(DISTINCT patient_id) AS n,
  COUNT(DISTINCT patient_id) FILTER (WHERE minutes >= 30) AS long,
  long / n AS share
FROM visits
GROUP BY clinic
ORDER BY n DESC
LIMIT 3;

-- 13. Two private tables meet on the unit, so that all of a patient stays together.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
  d.chapter,
  COUNT(DISTINCT p.patient_id) AS n
FROM patients p
JOIN visits v ON v.patient_id = p.patient_id
JOIN diagnoses d ON d.code = v.diagnosis_code
WHERE p.birth_year >= 2010
GROUP BY d.chapter
ORDER BY n DESC
LIMIT 3;

-- 14. Who is missing: patients that never came.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2)
  COUNT(DISTINCT patient_id) AS never_came
FROM patients
WHERE patient_id NOT IN (SELECT patient_id FROM visits);

-- 15. How often do people come? First one row a patient, then counts of patients. They share one noise, so that four
--     counts are more precise than two would be with noise of their own.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
  COUNT(*) AS patients,
  COUNT(*) FILTER (WHERE visits >= 5) AS five_times,
  COUNT(*) FILTER (WHERE visits >= 10) AS ten_times,
  COUNT(*) FILTER (WHERE visits >= 20) AS twenty_times
FROM (SELECT patient_id, COUNT(*) AS visits FROM visits GROUP BY patient_id);

-- 16. The latest visit of each patient: a window within the unit.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
  clinic,
  COUNT(DISTINCT patient_id) AS n
FROM (
  SELECT patient_id, clinic
  FROM visits
  QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY visit_date DESC, visit_id DESC) = 1
)
GROUP BY clinic
ORDER BY n DESC
LIMIT 3;

-- 17. Text is searched, not shown.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2)
  COUNT(DISTINCT patient_id) AS n
FROM visits
WHERE note ILIKE '%worse%';

-- 18. Rows instead of patients: each patient's are counted up to a bound, which multiplies the noise.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  clinic,
  COUNT(*, contribution_bounds_per_group => (0, 5)) AS visits
FROM visits
GROUP BY clinic
ORDER BY visits DESC
LIMIT 3;

-- 19. A released answer may be sorted and cut again, as BI tools do, at no further cost.
SELECT *
FROM (
  SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
    clinic,
    COUNT(DISTINCT patient_id) AS n
  FROM visits
  WHERE visit_date < DATE '2024-01-01'
  GROUP BY clinic
  ORDER BY n DESC
  LIMIT 5
)
ORDER BY clinic;

-- 20. What would it cost, how precise would it be, and which mechanisms could answer? Free, and nothing private is read.
EXPLAIN
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)
  clinic,
  COUNT(DISTINCT patient_id) AS n
FROM visits
GROUP BY clinic
ORDER BY n DESC
LIMIT 5;
