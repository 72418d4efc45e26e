"""Asks the weekly report of the shop, one week of new customers after the other.

python shop/weekly.py
"""

from datetime import date, timedelta

import dpsql

WEEKS = [date(1997, 1, 6) + timedelta(weeks=n) for n in range(11)]
ASKED = {
    "customers": "COUNT(*) AS customers FROM customers WHERE {week}",
    "dollars": "SUM(dollars) AS dollars FROM purchases JOIN customers USING (customer_id) WHERE {week} AND "
    "day < first_day + 91",
    "came_back": "COUNT(DISTINCT customer_id) AS came_back FROM purchases JOIN customers USING (customer_id) "
    "WHERE {week} AND day > first_day AND day < first_day + 91",
}
"""New customers of a week, what they paid in their first 91 days, and how many came back within these."""
HEAD = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)"

con = dpsql.connect("shop/shop.toml", analyst="board")
for week in WEEKS:
    of_week = f"first_day >= DATE '{week}' AND first_day < DATE '{week + timedelta(weeks=1)}'"
    row = [con.execute(f"{HEAD} {sql.format(week=of_week)}").fetchone()[0] for sql in ASKED.values()]
    print(week, *(f"{number:8,.0f}" for number in row))

for line in con.execute("SHOW PRIVACY BUDGET BY PARTS").fetchall():
    print(*line)
