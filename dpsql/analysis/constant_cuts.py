"""The constants of a statement and of the policy that may cut what a unit has, where nobody knows how much.

A kept ladder and a search say themselves what their bounds leave out. Where facts prove that no unit is
beyond a bound, such as a unique key, the number has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.analysis.bound_ladders import ConstantCut, Contribution
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.cut_contributions import bound_on_rows, has_bound_of
from dpsql.analysis.released.few_groups import FewGroups
from dpsql.analysis.released.first_rows import FirstNumber
from dpsql.analysis.released.quantiles import CellRows
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released.unit_counts import DistinctValues, OwnedValues, UnitsOfFew
from dpsql.analysis.statement_plan import Partitions
from dpsql.analysis.whole_tables import find_groups_left_out, find_left_out
from dpsql.language import Options, Selection

_ROWS, _GROUPS = "max_rows_contributed", "max_groups_contributed"


def find_constant_cuts(
    compiler: StatementCompiler,
    counts: Sequence[ReleasedAggregate],
    selection: Selection,
    options: Options,
    *,
    groups: int | None,
    domain_size: int | None,
    partitions: Partitions | None,
) -> tuple[ConstantCut, ...]:
    """Return the constants that may cut; `groups` is how many of them the query keeps of a unit, if any."""
    made = [each for count in counts for each in _cuts_of(compiler, count, options, domain_size)]
    by = _by(options, _GROUPS)
    if groups is not None and not find_groups_left_out(compiler, selection, options):
        made.append(ConstantCut("groups", groups, by))
    if partitions is not None and partitions.bounded:
        made.append(ConstantCut("partitions", partitions.per_unit, by))
    return tuple(dict.fromkeys(made))


def _by(options: Options, name: str) -> str:
    """Return in words where a bound is from, if an option has it, that is written or that was chosen."""
    if getattr(options, name) is None:
        return ""
    return f"as {name} says" if name in options.at else f"chosen for the least noise ({name} says another)"


def _cuts_of(
    compiler: StatementCompiler, count: ReleasedAggregate, options: Options, domain_size: int | None
) -> Iterator[ConstantCut]:
    """Yield the constants that may cut one number."""
    part, of = count.parts[0], {ladder.of for ladder in compiler.ladders}
    searched = any(has_bound_of(count, ladder, compiler.bound(ladder)) for ladder in tuple(compiler.ladders))
    if searched or find_left_out(compiler, count) is not None:
        return
    by_rows, by_groups = _by(options, _ROWS), _by(options, _GROUPS)
    rows = bound_on_rows(count)
    if isinstance(part, CellRows) and not (part.single or part.extreme or Contribution.ROWS in of):
        rows = part.most
    if rows is not None:
        yield ConstantCut("rows", rows, by_rows)
    match part:
        case OwnedValues(most=most):
            yield ConstantCut("different values in a group", most, "")
        case DistinctValues(most=most, kept=True, declared=declared, each=None):
            if Contribution.VALUES not in of and (declared is None or most < declared):
                yield ConstantCut("different values in a group", most, "")
        case UnitsOfFew(most=most) if domain_size is None or most < domain_size:
            yield ConstantCut("groups", most, by_groups)
        case FewGroups(most=most):
            yield ConstantCut("groups", most, by_groups)
        case FirstNumber(most=most, single=False):
            yield ConstantCut("rows", most, by_rows)
