"""What a statement left open and was answered with: bounds of the policy, and readings of the statement."""

from __future__ import annotations

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Assumed:
    """One thing that the statement does not say and that its answer rests on; it is shown with the answer.

    >>> print(Assumed("rows of a user_id", "at most 20", "policy"))
    at most 20 rows of a user_id (policy)
    """

    what: str
    value: str = ""
    """The bound, in words; empty if `what` says everything."""
    where: str = ""
    """Where it is from, such as `policy`."""

    def __str__(self) -> str:
        words = f"{self.value} {self.what}".lstrip()
        return f"{words} ({self.where})" if self.where else words
