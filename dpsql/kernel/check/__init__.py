"""Prove from the tree of a counting query, and from the facts of the owner, how much one unit changes it.

`certify` is the only way to a `Certificate`. What no rule proves is refused with `NotCertified`.
"""

from dpsql.kernel.check.certificate import Certificate, Change, Keys, NotCertified, Step, Together
from dpsql.kernel.check.check import certify
