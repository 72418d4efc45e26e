"""How each selection is answered: `choose` prices a plan, the method it returns selects and measures."""

from dpsql.answers.choose import choose
from dpsql.answers.method import Method, NoisyResult, Quote
from dpsql.answers.table import details, rows

__all__ = ["Method", "NoisyResult", "Quote", "choose", "details", "rows"]
