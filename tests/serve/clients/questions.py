"""What clients are asked beside the cookbook."""

from __future__ import annotations

PUBLIC = "SELECT code, diagnosis FROM diagnoses WHERE chapter = $1 AND code > $2 ORDER BY code LIMIT $3"
PUBLIC_VALUES = ("Injuries", "S10", 7)
PRIVATE = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) sex, COUNT(*) AS n
FROM patients WHERE region = $1 AND birth_year >= $2 GROUP BY sex ORDER BY sex"""
PRIVATE_VALUES = (("Old Town", 1990), ("Islands", 2000))
LARGE = "SELECT a.code AS a, b.code AS b, b.diagnosis AS c FROM diagnoses a, diagnoses b WHERE a.code <= 'Z'"
WRONG = "SELECT 'é' AS t,\n       oops, COUNT(*) AS n FROM visits GROUP BY oops"
WRONG_AT = WRONG.index("oops") + 1
LONG = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, fresh = TRUE) COUNT(*) AS n FROM visits v
    JOIN visits w USING (patient_id) JOIN visits x USING (patient_id) JOIN visits y USING (patient_id)"""
