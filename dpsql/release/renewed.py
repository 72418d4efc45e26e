"""What the guarantee of a release says of budgets that start anew, as of when it is shown."""

from __future__ import annotations

from dataclasses import replace

from dpsql.release.release import Release

RENEWED = "renewals"
"""The property of a release that says how often the budget has started anew."""


def add_renewals(text: str, renewed: str) -> str:
    """Return a guarantee with what is to be said of budgets that start anew."""
    return f"{text}; {renewed}" if renewed else text


def renew_words(release: Release, renewed: str) -> Release:
    """Return a stored release with what is said now of budgets: they may have started anew since."""
    before = release.properties.get(RENEWED, "")
    if before == renewed:
        return release
    text = release.guarantee.removesuffix(f"; {before}") if before else release.guarantee
    others = {name: each for name, each in release.properties.items() if name != RENEWED}
    properties = {**others, **({RENEWED: renewed} if renewed else {})}
    return replace(release, guarantee=add_renewals(text, renewed), properties=properties)
