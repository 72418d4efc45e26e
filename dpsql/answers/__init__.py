"""Answer a selection: `choose` quotes the price of a plan and returns the method that runs it."""

from dpsql.answers.choose import choose
from dpsql.answers.method import Method, NoisyResult, Quote
from dpsql.answers.table import details, rows

__all__ = ["Method", "NoisyResult", "Quote", "choose", "details", "rows"]
