"""A script as a user writes it, which `mypy --strict` accepts; `assert_type` holds what its names are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, assert_type

import dpsql


def main(path: str) -> None:
    """Use what `dpsql` offers to an analyst's script."""
    with dpsql.connect(path, analyst="alice") as con:
        assert_type(con, dpsql.Connection)
        budget = con.budget()
        assert_type(budget, dpsql.Budget)
        assert_type(budget.remaining, dpsql.Charge)
        assert_type(budget.remaining.epsilon, Fraction)
        for part in budget.parts:
            assert_type(part.words, str)
            assert_type(part.budget, dpsql.Budget)
        assert_type(budget.of("2026-W48"), dpsql.Budget)
        explained = con.explain("SELECT COUNT(*) AS n FROM visits")
        assert_type(explained, dpsql.Explanation)
        assert_type(explained.price, str)
        assert_type(explained.fits, bool)
        cursor = con.sql("SELECT COUNT(*) AS n FROM visits WHERE page = ?", ["start"], at_most=0.5)
        assert_type(cursor, dpsql.Cursor)
        row = cursor.fetchone()
        if row is not None:
            print(row[0])
        for each in con.execute("SELECT page, COUNT(*) AS n FROM visits GROUP BY page"):
            print(len(each))
        release = cursor.release
        assert_type(release, dpsql.Release | None)
        if release is not None:
            assert_type(release.to_svg("n"), str)
            assert_type(release.to_markdown(), str)
            assert_type(release.charge.epsilon, Fraction)
            assert_type(release.plot(), Any)
        daily = con.checks("daily", epsilon=1, misses=8)
        found = daily.check("SELECT COUNT(DISTINCT user_id) AS n FROM visits", expect=1200, tolerance=50)
        assert_type(found.off, bool)
        assert_type(found.df(), Any)
        with con.checked(tolerance=50, epsilon=1, misses=5) as counts:
            print(counts)
    try:
        dpsql.connect("missing.toml")
    except dpsql.PolicyError as error:
        assert_type(error.hint, str | None)
    except dpsql.QueryRefused as error:
        print([obstacle.message for obstacle in error.obstacles], error.rewrite)
    except dpsql.BudgetExceeded as error:
        print(error.requested, error.remaining)
    database = dpsql.Database(path)
    assert_type(database.policy, dpsql.Policy)
    with dpsql.connect(database, analyst="bob") as con:
        print(con.budget())
    print(dpsql.apilevel, dpsql.paramstyle, dpsql.threadsafety)
