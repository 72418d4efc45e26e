"""Exact privacy accounting: ``loss`` of a mechanism, and ``charge``, what is charged for it."""

from dpsql.privacy.charge import Charge, Number, exact
from dpsql.privacy.loss import ApproximateDP, PrivacyLoss

__all__ = ["ApproximateDP", "Charge", "Number", "PrivacyLoss", "exact"]
