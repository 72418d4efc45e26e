"""What a release costs, in exact numbers."""

from dpsql.privacy.charge import Charge, Number, exact

__all__ = ["Charge", "Number", "exact"]
