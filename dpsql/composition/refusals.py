"""What a refused statement is told: what would be accepted, which hints lead there, and what else is wrong.

Also the epsilon and delta that are offered to a statement that names none, and what a budget pays for.
A question of another tool or of English names what is counted or measured, by what, and of whom: each word
that is a table, a column, a public value or the name of an aggregate is taken as such, all others are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis import Catalog
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.composition.rewrites import (
    LONGEST,
    apply_edits,
    edits,
    offset,
    refusal,
    repair,
    rewrite,
    rewrite_less,
)
from dpsql.errors import Fix, Obstacle, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.tree import literal_sql
from dpsql.kernel.unit_parts import NO_PARTS
from dpsql.language import Outline, write_name
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.ledger import Budget, shown
from dpsql.policy import Policy, Table, ValuesDomain

if TYPE_CHECKING:
    from dpsql.composition.planned_answers import StatementPlanner
    from dpsql.composition.prepared import Prepared
    from dpsql.language import Parameters
    from dpsql.ledger import Budget

_TRIED = 12
"""The most obstacles of a statement whose hints are tried."""
_STATEMENT = lazy_pattern(r"SELECT\s.*\sFROM\s|WITH\s.*\sSELECT\s|FROM\s.*\sSELECT\s", re.DOTALL)
"""How a hint begins that is a whole statement; `..` stands for what is left out of a part of one."""
_SAID = ("epsilon", "delta", "max_groups_contributed")
"""Options that a statement without its options may lack."""


def keep_tried(
    text: str,
    refused: QueryRefused | QuerySyntaxError,
    prepare: Callable[[str], object],
    analyse: Callable[[str], object],
    accepted: str | None = None,
) -> tuple[Obstacle, ...]:
    """Return the obstacles without the hints that lead nowhere; words alone cannot be tried.

    A hint that is a statement stays if `prepare` accepts it, as it has `accepted`. One that shows a change
    stays if `analyse` finds nothing wrong with the changed statement that it did not find before.
    """
    if len(text) > LONGEST:
        return refused.obstacles
    known = {one.message for one in refused.obstacles}

    def leads(one: Obstacle) -> bool:
        hint, fix = one.hint or "", one.fix
        if is_statement(hint):
            return hint == accepted or refusal(hint, prepare) is None
        named = one.unknown not in ("", "function")  # behind which there may be more
        if fix is None or fix.option or named or not any(t in hint for t in _texts(fix)):
            return True
        candidate = apply_edits(text, edits(text, [fix])[0])
        error = refusal(candidate, analyse)
        if isinstance(refused, QuerySyntaxError):
            parsed = not isinstance(error, QuerySyntaxError)
            guessed = fix.guess and refused.message.startswith("syntax error: ")
            return parsed and (error is None or not guessed or all(o.fix for o in error.obstacles))
        left = () if error is None else error.obstacles
        return candidate != text and {o.message for o in left} < known

    return tuple(
        one if one.hint is None or i >= _TRIED or leads(one) else replace(one, hint=None)
        for i, one in enumerate(refused.obstacles)
    )


def _texts(fix: Fix) -> list[str]:
    """Return the SQL that the suggested corrections of a refusal write."""
    return [text for each in (fix, *fix.also) if (text := each.text.strip())]


def is_statement(hint: str) -> bool:
    """Whether a hint is a whole statement, which can be run as it stands.

    >>> [is_statement(hint) for hint in ("SELECT a FROM t", "SELECT a FROM .. EXCEPT ..", "GROUP BY a")]
    [True, False, False]
    """
    return _STATEMENT.match(hint) is not None and ".." not in hint


def with_beside(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> tuple[Obstacle, ...]:
    """Return the obstacles; for a wrong option also the obstacles of the statement without its options."""
    first = refused.obstacles
    inside = Outline.of(text).options_around(offset(first[0], text)) if len(text) <= LONGEST else None
    if inside is None or not first[0].message.startswith(("option ", "there is no option ")):
        return first  # what is no option's own fault was found together with the others
    start, end = inside
    error = refusal(text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:], prepare)
    if not isinstance(error, QueryRefused):
        return first
    lines = text.split("\n")
    others = [replace(o, source=lines[o.line - 1]) for o in error.obstacles if o.line is not None]
    kept = [o for o in others if not any(f"OPTIONS ({name}" in (o.hint or "") for name in _SAID)]
    return tuple(sorted((*first, *kept), key=lambda o: (o.line or 0, o.col or 0)))


def with_own_hints(
    text: str, refused: QueryRefused | QuerySyntaxError, prepare: Callable[[str], object]
) -> tuple[Obstacle, ...]:
    """Return the obstacles of a refusal, with dpsql's spelling as the hint for other dialects' ones."""
    if len(text) > LONGEST:
        return refused.obstacles
    spelled = Outline.of(text).respellings()
    refused = repair(text, refused, prepare)
    out = []
    for one in refused.obstacles:
        # A refusal to refine a release may point into the statement of that release.
        at = offset(one, text)
        new = next((new for start, end, new in spelled if start <= at < end), None)
        out.append(one if new is None else replace(one, hint=new))
    return tuple(out)


_SHARE, _DELTA_SHARE = 20, 1000
"""The parts of the whole budget that are offered: a twentieth of epsilon, a thousandth of delta."""
_WRITTEN = {
    "epsilon": lazy_pattern(r"(?<=\bOPTIONS \(epsilon = )1(?=\))"),
    "delta": lazy_pattern(r"(?<=\bOPTIONS \(delta = )1e-6(?=\))"),
}
"""What stands in hints for an amount, which depends on the budget."""
_CHOICE = lazy_pattern(r",? or OPTIONS \(delta = 1e-6\)|OPTIONS \(delta = 1e-6\),? or ")
"""The words of a hint that name one of several ways."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What is offered: amounts as text, each None where nothing of it is left."""

    epsilon: str | None
    delta: str | None

    @classmethod
    def of(cls, budget: Budget, most: Fraction | None) -> Amounts:
        """Return a small part of a budget, of which something is left; `most` is the cap of one statement.

        >>> from dpsql.kernel.loss import Charge
        >>> whole, nothing = Charge(Fraction(1), Fraction(1, 10**6)), Charge()
        >>> Amounts.of(Budget(whole, nothing, whole), None)
        Amounts(epsilon='0.05', delta='1e-9')
        >>> Amounts.of(Budget(whole, whole, nothing), None)
        Amounts(epsilon=None, delta=None)
        """
        total, left = budget.total, budget.remaining
        epsilon = min(left.epsilon, total.epsilon / _SHARE, *([] if most is None else [most]))
        return cls(_round(epsilon), _round(min(left.delta, total.delta / _DELTA_SHARE)))

    def put_into(self, obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
        """Return obstacles with the remaining amounts written into their hints and fixes."""
        return tuple(self._in(one) for one in obstacles)

    def _in(self, one: Obstacle) -> Obstacle:
        for name, amount in (("epsilon", self.epsilon), ("delta", self.delta)):
            offered = one.fix is not None and one.fix.option == name and one.fix.guess
            if amount is not None and one.hint is not None:
                one = replace(one, hint=_WRITTEN[name].sub(amount, one.hint))
            if offered and amount is not None and one.fix is not None:
                one = replace(one, fix=replace(one.fix, text=amount, guess=amount))
            elif offered:
                hint = None if name == "epsilon" else _CHOICE.sub("", one.hint or "") or None
                left = f"{one.message}, and nothing is left of the budget's {name}"
                first, rest = (one.others or ((hint, None),))[0], one.others[1:]
                one = replace(one, message=left, hint=first[0], fix=first[1], others=rest)
        return one


def is_paid(prepared: PreparedPrivate | PreparedComposed, budget: Budget, most: Fraction | None) -> bool:
    """Return whether a budget and the cap of one statement suffice for a statement's new releases."""
    price = prepared.price
    if most is not None and price.epsilon > most:
        return False
    losses = [
        part.method.quote.loss if part.refines is None else PrivacyLoss.of(part.price.epsilon)
        for part in prepared.parts
        if part.price != Charge()
    ]
    for scope in budget.scopes:
        totals = scope.totals
        for loss in losses:
            if not scope.filter.admits(totals, loss):
                return False
            totals += scope.filter.amounts(loss)
    return True


def _round(amount: Fraction) -> str | None:
    """Return the largest of .., 0.1, 0.2, 0.5, 1, 2, 5, .. that is no more than an amount; None for 0.

    >>> [_round(Fraction(x)) for x in ("1/3", "1", "0.05", "99", "0", "1e-9")]
    ['0.2', '1', '0.05', '50', None, '1e-9']
    """
    if amount <= 0:
        return None
    power = Fraction(1)
    while power > amount:
        power /= 10
    while power * 10 <= amount:
        power *= 10
    return shown(next(n * power for n in (5, 2, 1) if n * power <= amount), up=False)


@dataclass(frozen=True, slots=True)
class _Offering:
    """Tries statements that are offered: each is parsed, analysed and priced, and can be paid."""

    planner: StatementPlanner
    parameters: Parameters
    amounts: Amounts

    def analysed(self, text: str) -> Prepared:
        """Prepare a statement, whether it can be paid or not; its refusal offers amounts that are left."""
        try:
            return self.planner.bound(text, self.parameters)
        except (QueryRefused, QuerySyntaxError) as error:
            error.obstacles = self.amounts.put_into(error.obstacles)
            raise

    def __call__(self, text: str) -> Prepared:
        """Prepare a statement; refuse one that cannot be paid."""
        prepared = self.analysed(text)
        most = self.planner.policy.budget.max_epsilon_per_query
        if isinstance(prepared, (PreparedPrivate, PreparedComposed)) and not is_paid(
            prepared, self.planner.budget_for(prepared), most
        ):
            raise QueryRefused("the budget does not pay for this")
        return prepared


def name_placeholder(text: str, refused: QueryRefused | QuerySyntaxError) -> tuple[Obstacle, ...] | None:
    """Return the obstacle of a template's placeholder without its value; None for a text that has none."""
    from dpsql.language.command_statements import AROUND  # noqa: PLC0415
    from dpsql.language.mistaken_forms import find_placeholder  # noqa: PLC0415  most statements are accepted

    found = find_placeholder(text) if len(text) <= LONGEST else None
    if found is None or refused.message == AROUND:  # of a script that gives the value
        return None
    at, name = found
    line, begin = text.count("\n", 0, at), text.rfind("\n", 0, at) + 1
    said = "this is a placeholder of a template, without its value"
    hint = f"a parameter is written ${name}, without quotes"
    if re.match(r"\W*\{(?:%|\{\s*(?!var\b|env_var\b)[\w.]+\()", text[at:]) or re.search(
        r"(?i)\b(?:WHERE|AND|OR|FROM|JOIN|BY)\s*\Z", text[:at]
    ):
        hint = "write what the template puts there"  # a condition, say, which no parameter is
    return (Obstacle(said, line + 1, at - begin + 1, hint, text.split("\n")[line]),)


def offer_statements(
    planner: StatementPlanner, text: str, refused: QueryRefused | QuerySyntaxError, parameters: Parameters
) -> QueryRefused | QuerySyntaxError:
    """Return the error of a statement with what else is refused in it and what would be accepted."""
    placed = name_placeholder(text, refused)
    if placed is not None:
        refused.obstacles = placed
        return refused
    # Of parts of units, those of which nothing was asked are not used up.
    budget = planner.database.ledger.budget(planner.analyst, NO_PARTS)
    amounts = Amounts.of(budget, planner.policy.budget.max_epsilon_per_query)
    offering = _Offering(planner, parameters, amounts)
    refused.obstacles = amounts.put_into(refused.obstacles)
    refused.obstacles = with_beside(text, refused, offering)
    refused.obstacles = with_own_hints(text, refused, offering)

    def read_question(question: str) -> tuple[str, str] | None:
        return read_words(question, planner.policy, planner.database.engines().schema_database)

    offer, accepted = rewrite(text, refused, offering, read_question), None
    if offer is not None:
        refused.rewrite, refused.obstacles, accepted = offer
    if refused.rewrite is None:  # else the changes were tried together
        refused.obstacles = keep_tried(text, refused, offering, offering.analysed, accepted)
        less = rewrite_less(text, refused, offering) if accepted is None else None
        refused.obstacles = refused.obstacles if less is None else less.obstacles
    return refused


_AGGREGATES = {
    "COUNT(DISTINCT": lazy_pattern(
        r"(?i)\b(?:distinctcount|n_distinct|countdistinct|count_distinct|nunique|uniq\w*)\b"
        r"|\bcount\s*\(\s*distinct\b|\b(?:how\s+many|number\s+of)\s+(?:different|distinct|unique)\b"
    ),
    "AVG": lazy_pattern(r"(?i)\b(?:average|avg|mean|averageifs?|averagex)\b"),
    "SUM": lazy_pattern(r"(?i)\b(?:sum|total|sumifs?|sumx)\b"),
    "MEDIAN": lazy_pattern(r"(?i)\b(?:median)\b"),
    "STDDEV": lazy_pattern(r"(?i)\b(?:stddev|stdev|standard\s+deviation)\b"),
    "MAX": lazy_pattern(r"(?i)\b(?:max|maximum|highest|largest|maxifs)\b"),
    "MIN": lazy_pattern(r"(?i)\b(?:min|minimum|lowest|smallest|minifs)\b"),
    "COUNT": lazy_pattern(r"(?i)\b(?:d?count\w*|how\s+many|number\s+of|distinctcount)\b"),
}
"""How others call the aggregates."""
_SHORT = 3
"""The fewest letters of a public value that counts as one without quotes around it."""


def read_words(text: str, policy: Policy, catalog: Catalog) -> tuple[str, str] | None:
    """Return the SELECT that a question asks for by its words, and what is guessed of it.

    None if the words name no table or no number.
    """
    found = {name: match for name, form in _AGGREGATES.items() if (match := form.search(text))}
    main = _find_table(text, policy, catalog)
    if not found or main is None or re.search(r"%>%|\|>", text):  # each step matters
        return None
    call = min(found, key=lambda name: found[name].start())
    tables = [main, *(table for table in policy.tables.values() if table is not main)]
    numeric, domains = set[str](), dict[str, tuple[object, ...]]()
    named = dict[str, int]()
    for table in tables:
        for name, kind in catalog.columns(table.name):
            domain = table.domain.get(name)
            if name not in domains:
                domains[name] = domain.values if isinstance(domain, ValuesDomain) else ()
                numeric |= {name} if kind.numeric else set()
                named |= {name: place} if (place := _find(name, text)) >= 0 else {}
    different = call == "COUNT(DISTINCT"
    numbers = [name for name in named if different or name in numeric]
    behind = [name for name in numbers if named[name] >= found[call].end()]
    near = min(behind, default="", key=lambda name: named[name])
    near = near or max(numbers, default="", key=lambda name: named[name])  # x.mean()
    measured = near if call != "COUNT" else "*"
    if not measured:
        return None
    conditions = dict[str, str]()
    for name, values in domains.items():
        for value in [v for v in values if isinstance(v, str) and _has_value(v, text)][:1]:
            conditions[name] = value
    keys = [
        name
        for name in sorted(named, key=lambda each: named[each])
        if name not in conditions
        and name != measured
        and (name not in numeric or re.search(rf"(?i)\b(?:by|per|each)\s+{name}\b", text))
    ]
    used = [*keys, *conditions, *([measured] if measured != "*" else [])]
    read = {*re.findall(r"[a-z]+", found[call][0].lower()), *used, *conditions.values(), main.name}
    group = [write_name(key) for key in keys]
    written = measured if measured == "*" else write_name(measured)
    shown = [*group, f"{call}{' ' if different else '('}{written})"]
    where = [f"{write_name(n)} = {literal_sql(v)}" for n, v in conditions.items()]
    written = f"SELECT {', '.join(shown)} FROM {main.name}"
    written += f" WHERE {' AND '.join(where)}" if where else ""
    declared = {*policy.tables, *numeric, *domains}
    return written + (f" GROUP BY {', '.join(group)}" if group else ""), _tell_unread(text, read, declared)


def _tell_unread(text: str, read: set[str], declared: set[str]) -> str:
    """Return what is guessed of a question: what its words ask, but for those that have not been read."""
    taken = {word.rstrip("s") for each in read for word in re.findall(r"[a-z]+", each.lower())}
    taken |= {each.lower().rstrip("s") for each in read}
    no_matter = _EMPTY - {name.lower().rstrip("s") for name in declared} | taken
    words = [w for w in re.findall(r"[A-Za-z]\w{2,}|\d+", text) if w.lower().rstrip("s") not in no_matter]
    return f"what the words ask without `{' '.join(words)}`" if words else "what the words ask"


_EMPTY = frozenset(
    """
    the for and are per each many how what which who show give list find there with have has from that please
    number can you tell get all among evaluate summarizecolumn fixed group select where sort order
    """.split()  # noqa: SIM905  a table of words
)
"""Words that ask nothing of their own."""


def _find_table(text: str, policy: Policy, catalog: Catalog) -> Table | None:
    """Return the table that a text names, or else the one of which it names the most columns."""
    named = {name: place for name in policy.tables if (place := _find(name, text)) >= 0}
    if named:
        return policy.tables[min(named, key=lambda name: named[name])]
    columns = {
        name: sum(_find(column, text) >= 0 for column, _ in catalog.columns(table.name))
        for name, table in policy.tables.items()
    }
    most = max(columns, key=lambda name: columns[name], default="")
    return policy.tables[most] if columns.get(most) else None


def _find(name: str, text: str) -> int:
    """Return where a text has a name, also with blanks in it, or of one or several; -1 if it has none."""
    words = r"[\s_]+".join(map(re.escape, name.rstrip("s").split("_")))
    match = re.search(rf"(?i)(?<![A-Za-z0-9_]){words}s?(?![A-Za-z0-9_])", text)
    return -1 if match is None else match.start()


def _has_value(value: str, text: str) -> bool:
    quoted = rf"(['\"]){re.escape(value)}\1"
    bare = rf"(?<!\w){re.escape(value)}(?!\w)"
    return re.search(rf"(?i){quoted}", text) is not None or (
        len(value) >= _SHORT and re.search(rf"(?i){bare}", text) is not None
    )
