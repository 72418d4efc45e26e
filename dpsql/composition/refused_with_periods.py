"""What is refused where units are of one period each, until it has a rule: streams, reports, sums."""

from __future__ import annotations

from dpsql.errors import NotSupportedError, with_article
from dpsql.language import Ask, Check, OpenChecks, StatementText, StreamCommand
from dpsql.policy import Policy, UnitPeriods


def check_no_periods(policy: Policy, what: str, instead: str, source: StatementText | None = None) -> None:
    """Raise an error that says what is refused, and what to write instead, if a table has `unit_period`."""
    periods = policy.unit_parts
    if not isinstance(periods, UnitPeriods):
        return
    words = f"{what} where a unit is {with_article(periods.kind)} in one {periods.every}"
    if source is not None:
        raise source.refuse(words, None, instead)
    raise NotSupportedError(f"{words}: {instead}")


def check_stream(policy: Policy, statement: Check | Ask | OpenChecks | StreamCommand | None = None) -> None:
    """Refuse a stream, which would ask about all periods, for long; it may be closed."""
    if isinstance(statement, StreamCommand) and statement.what == "close":
        return
    source = None if statement is None else statement.source
    check_no_periods(
        policy, "no stream is opened or asked", "ask by statements: each is charged to what it reads", source
    )


def check_report(policy: Policy, source: StatementText | None = None) -> None:
    """Refuse a report: which of its numbers are linear in common cells was proved of units with one part."""
    check_no_periods(policy, "there are no reports", "ask by statements, one a period", source)


def check_sums(policy: Policy) -> None:
    """Refuse to add up stored releases: different persons of several periods are no sum."""
    check_no_periods(
        policy,
        "combine = ONLY adds up nothing",
        "add them up in SQL, SELECT SUM(n) FROM (SELECT ..) of each period: each is a free repeat",
    )
