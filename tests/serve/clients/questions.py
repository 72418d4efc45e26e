"""What clients are asked beside the cookbook."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal

PUBLIC = "SELECT code, diagnosis FROM diagnoses WHERE chapter = $1 AND code > $2 ORDER BY code LIMIT $3"
PRIVATE = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) sex, COUNT(*) AS n
FROM patients WHERE region = $1 AND birth_year >= $2 GROUP BY sex ORDER BY sex"""
TYPED = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = $1) clinic, COUNT(DISTINCT patient_id) AS n
FROM visits WHERE visit_date >= $2 AND cost > $3 AND minutes BETWEEN $4 AND $5 AND clinic <> $6
GROUP BY clinic HAVING n > $7 ORDER BY n DESC LIMIT $8"""
PARAMETERS: tuple[tuple[str, tuple[tuple[object, ...], ...]], ...] = (
    (PUBLIC, (("Injuries", "S10", 7),)),
    (PRIVATE, (("Old Town", 1990), ("Islands", 2000))),
    (TYPED, ((0.125, datetime.date(2024, 2, 1), Decimal("30.5"), 5, 60, "Summit", 10.0, 4),)),
)
"""Statements with parameters, and the values that each is asked with. `Client.java` has the same values."""
LARGE = "SELECT a.code AS a, b.code AS b, b.diagnosis AS c FROM diagnoses a, diagnoses b WHERE a.code <= 'Z'"
WRONG = "SELECT 'é' AS t,\n       oops, COUNT(*) AS n FROM visits GROUP BY oops"
WRONG_AT = WRONG.index("oops") + 1
LONG = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1, fresh = TRUE) COUNT(*) AS n FROM visits v
    JOIN visits w USING (patient_id) JOIN visits x USING (patient_id) JOIN visits y USING (patient_id)"""


def written(text: str, values: Sequence[object]) -> str:
    """Write values into a statement as literals."""
    return re.sub(r"\$(\d)", lambda marker: _literal(values[int(marker[1]) - 1]), text)


def _literal(value: object) -> str:
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
