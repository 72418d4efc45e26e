"""What a release costs, in exact numbers."""

from dpsql.privacy.charge import Charge, Number, exact
from dpsql.privacy.loss import ApproximateDP, PrivacyLoss

__all__ = ["ApproximateDP", "Charge", "Number", "PrivacyLoss", "exact"]
