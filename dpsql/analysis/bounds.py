"""Bounds on what one unit contributes, for statements that write none: from the options and the policy."""

from __future__ import annotations

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.relation import From
from dpsql.kernel.tree import Node, Scan, walk
from dpsql.language import AllGroups, Options, Selection
from dpsql.policy import Assumed, Policy


def rows_per_unit(compiler: StatementCompiler, source: From, *, beyond: str = "weighted down") -> int | None:
    """Return how many rows of a unit count in all groups together: as written, else as the policy says.

    A bound of the policy is noted as an assumption, with what is done to rows `beyond` it. None: nobody said
    it.
    """
    if compiler.max_rows is not None:
        return compiler.max_rows
    known = compiler.rows_per_unit.get(id(source))
    if known is None:
        default = _default(compiler.policy, source.source, "rows_per_unit")
        known = compiler.rows_per_unit[id(source)] = source, default, {}
    _, found, assumed = known
    if found is not None and beyond not in assumed:
        rows, verb = ("row", "counts") if found == 1 else ("rows", "count")
        of = f"{rows} of a {unit_name(source)} {verb}, rows beyond are {beyond}"
        assumed[beyond] = Assumed(of, f"at most {found:,}", "policy")
    if found is not None:
        compiler.assume(assumed[beyond])
    return found


def values_per_unit(compiler: StatementCompiler, source: From, *, declared: int | None = None) -> int | None:
    """Return how many different values of a unit count in a group, as the policy says; None: it does not.

    No more are counted than are `declared`: a unit with more has some that no key can have.
    """
    found = _default(compiler.policy, source.source, "rows_per_unit")
    if found is not None:
        found = found if declared is None else max(1, min(found, declared))
        of = f"different value{'s' * (found != 1)} of a {unit_name(source)} in a group"
        compiler.assume(Assumed(of, f"at most {found:,}", "policy"))
    return found


def default_rows(policy: Policy, source: From) -> int | None:
    """Return how many rows of a unit count, as the policy says; None if it does not."""
    return _default(policy, source.source, "rows_per_unit")


def default_groups(compiler: StatementCompiler, source: From, selection: Selection) -> int | None:
    """Return in how many groups a unit counts where the statement does not say it; None: nobody does."""
    return groups_by_ladder(compiler, selection) or _default(compiler.policy, source.source, "groups")


def groups_by_ladder(compiler: StatementCompiler, selection: Selection) -> int | None:
    """Return in how many groups of undeclared keys a unit counts, as a kept ladder of the keys says.

    It is for all groups. None: there is no such ladder.
    """
    whole = compiler.whole
    every = whole is not None and not whole.declared and isinstance(selection, AllGroups)
    return whole.groups_bound() if whole is not None and every else None


def groups_of_unit(
    compiler: StatementCompiler, source: From, selection: Selection, options: Options, *, one_group: bool
) -> int | None:
    """Return in at most how many groups a unit is, or may count; None if nobody says it."""
    return 1 if one_group else options.max_groups_contributed or default_groups(compiler, source, selection)


def assumed_groups(source: From, groups: int) -> Assumed:
    """Return the assumption that a unit counts in so many groups."""
    return Assumed(f"group{'s' * (groups != 1)} of a {unit_name(source)}", f"at most {groups:,}", "policy")


def _default(policy: Policy, source: Node, name: str) -> int | None:
    """Return the largest bound of the private tables of FROM that have one, else that of `[defaults]`.

    None if there is no number, also where one of the tables says AUTO.
    """
    tables = (policy.table(node.table) for node in walk(source) if isinstance(node, Scan))
    own = [t for t in tables if t is not None and getattr(t, name) is not None]
    if not own:
        default: int | None = getattr(policy.defaults, name)
        return default
    numbers = [policy.most(t, name) for t in own]
    known = [number for number in numbers if number is not None]
    return max(known) if len(known) == len(numbers) else None


def unit_column(source: From) -> tuple[str, str] | None:
    """Return the alias of a table and the name of its column that holds the unit; None if none is visible."""
    for origin in source.scope.origins:
        for name, column in zip(origin.names, origin.columns, strict=True):
            if column.unit.held:
                return origin.alias, name
    return None


def unit_name(source: From) -> str:
    """Return the name of the unit's column, for messages; `unit` if none is visible."""
    found = unit_column(source)
    return found[1] if found is not None else "unit"
