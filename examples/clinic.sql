-- Questions to the synthetic clinic of data/, each under differential privacy for patients.
--
--   dpsql -p data/clinic.toml -f examples/clinic.sql
--
-- Every private statement names the epsilon it takes from the budget (10 in all); together they take 4.5.
-- Add --dry-run to see the prices only. The same file run again costs nothing: its answers are kept.

-- Public tables and constants are free and exact: which chapters have the most diagnoses?
SELECT chapter, COUNT(*) AS diagnoses
FROM diagnoses
GROUP BY chapter
ORDER BY diagnoses DESC, chapter
LIMIT 5;

-- The ten most common diagnoses: how many patients had each, and how far it is ahead of the next one.
-- The gap costs nothing. Where it is small beside the counts' errors, the two could as well be the other
-- way round.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
  d.diagnosis,
  COUNT(DISTINCT v.patient_id) AS n,
  DP_GAP() AS gap
FROM visits v
JOIN diagnoses d ON v.diagnosis_code = d.code
GROUP BY 1
ORDER BY n DESC
LIMIT 10;

-- Only which ones, not how many: nothing is spent on counting, so all of epsilon goes into the choice.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  clinic,
  DP_GAP() AS gap
FROM visits
GROUP BY clinic
TOP 5 BY COUNT(DISTINCT patient_id);

-- The months in which most patients came with a respiratory illness. The policy declares the range of the
-- dates, so the 24 months are known without looking at anybody.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  date_trunc('month', v.visit_date) AS month,
  COUNT(DISTINCT v.patient_id) AS n
FROM visits v
JOIN diagnoses d ON v.diagnosis_code = d.code
WHERE d.chapter = 'Respiratory'
GROUP BY month
ORDER BY n DESC
FETCH FIRST 3 ROWS ONLY;

-- The one largest group has its own spelling: the region with the most patients.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  ARG_MAX(region, n)
FROM (
  SELECT region, COUNT(DISTINCT patient_id) AS n
  FROM patients
  GROUP BY region
);

-- What do people born before 1950 come for most? Visits and patients are joined on the privacy unit, so
-- everything about a patient stays together.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  d.diagnosis,
  COUNT(DISTINCT v.patient_id) AS n
FROM visits v
JOIN patients p ON v.patient_id = p.patient_id
JOIN diagnoses d ON v.diagnosis_code = d.code
WHERE p.birth_year < 1950
GROUP BY d.diagnosis
ARGMAX BY n;

-- COUNT(*) counts patients where each has one row a group, as after this DISTINCT.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  clinic,
  COUNT(*) AS n
FROM (
  SELECT DISTINCT patient_id, clinic
  FROM visits
  WHERE visit_date >= DATE '2024-01-01' AND minutes >= 30
)
GROUP BY clinic
ORDER BY n DESC
LIMIT 5;

-- Those who came at least twenty times: what was it about? A CTE may hold one row a patient, or several.
WITH frequent AS (
  SELECT patient_id
  FROM visits
  GROUP BY patient_id
  HAVING COUNT(*) >= 20
)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  d.chapter,
  COUNT(DISTINCT v.patient_id) AS n
FROM visits v
JOIN frequent f ON v.patient_id = f.patient_id
JOIN diagnoses d ON v.diagnosis_code = d.code
GROUP BY d.chapter
TOP 3;

-- What else do patients with high blood pressure have? Visits are joined with themselves, on the unit.
WITH hypertension AS (
  SELECT DISTINCT patient_id
  FROM visits
  WHERE diagnosis_code = 'I10'
)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) TOP 5
  d.diagnosis,
  COUNT(DISTINCT v.patient_id) AS n,
  DP_GAP() AS gap
FROM visits v
JOIN hypertension h ON v.patient_id = h.patient_id
JOIN diagnoses d ON v.diagnosis_code = d.code
WHERE d.code <> 'I10'
GROUP BY d.diagnosis
ORDER BY n DESC;

-- The same top-k once more, as a window: the regions whose women under 30 came most.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  p.region,
  COUNT(DISTINCT p.patient_id) AS n
FROM patients p
JOIN visits v USING (patient_id)
WHERE p.sex = 'F' AND p.birth_year > 1994
GROUP BY p.region
QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 3;

-- Patients who never came at all, by region.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  p.region,
  COUNT(DISTINCT p.patient_id) AS n
FROM patients p
LEFT JOIN visits v ON p.patient_id = v.patient_id
WHERE v.patient_id IS NULL
GROUP BY p.region
ORDER BY n DESC
LIMIT 3;

-- What is left.
SHOW PRIVACY BUDGET;
