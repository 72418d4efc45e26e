"""Reports: statements that are fixed before their first answer, measured together, answered from one estimate.

====================  ===========================================================================
``linear_releases``   which releases are sums over the cells of one table, and why others are none
``axes``              their numbers as sets along axes, one for each column
``measured``          the statement that measures a marginal, and what its release shows
``planned``           a report that is planned and priced
``answers``           the answers of all statements from the releases
====================  ===========================================================================
"""

from dpsql.reports.answers import answer_report
from dpsql.reports.planned import PlannedReport, plan_statements

__all__ = ["PlannedReport", "answer_report", "plan_statements"]
