"""Counterexample detection for differential privacy: does a mechanism keep what it claims?"""

from dpsql.audit.detector import detect
from dpsql.audit.inputs import Pair, pairs
from dpsql.audit.outputs import CHARGE, read
from dpsql.audit.verdict import Counterexample, Tested, Verdict

__all__ = ["CHARGE", "Counterexample", "Pair", "Tested", "Verdict", "detect", "pairs", "read"]
