"""How each reading is answered: `choose` prices a plan, the method it returns selects and measures."""

from dpsql.answers.choose import choose
from dpsql.answers.method import Answer, Method, Terms
from dpsql.answers.table import details, rows

__all__ = ["Answer", "Method", "Terms", "choose", "details", "rows"]
