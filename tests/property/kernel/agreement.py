"""Whether the checker agrees with the analysis: what is claimed is no less than what is certified."""

from __future__ import annotations

from dpsql.analysis.statement_plan import find_lower_claims, find_lower_claims_of_search
from dpsql.kernel.check import NotCertified, certify
from dpsql.kernel.facts import Facts
from kernel.grounds import Compiled

__all__ = ["disagreement"]


def disagreement(made: Compiled, facts: Facts) -> str:
    """Say what keeps a query from being counted: what is not certified, or is claimed too low; or nothing."""
    try:
        claim = certify(made.query, facts)
    except NotCertified as refused:
        return refused.rule
    except Exception as error:  # noqa: BLE001  whatever it is, nothing is counted
        return f"raised {type(error).__name__}: {str(error)[:80]}"
    if made.ladder is None:
        return "; ".join(find_lower_claims(made.plan, claim))
    ladder = made.plan.ladders[made.ladder].ladder
    return "; ".join(find_lower_claims_of_search(claim, ladder.bounds, ladder.fine))
