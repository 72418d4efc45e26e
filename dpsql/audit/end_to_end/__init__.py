"""The end-to-end audit: whole statements on the data and on the data without one privacy unit.

Only this folder of the package runs sessions; the mechanisms' subjects load without it.
"""

from dpsql.audit.end_to_end.neighbour import Neighbour, neighbour
from dpsql.audit.end_to_end.statements import Audited, audit_statements, private_statements

__all__ = ["Audited", "Neighbour", "audit_statements", "neighbour", "private_statements"]
