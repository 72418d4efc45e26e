"""What one unit changes where values of many units are listed, found, chosen by, or read from a release.

Random statements of the forms of `fuzz.many_units` on random databases. Each release is counted with all
units and without each one, and with the rows in another order: it changes at most as its certificate says,
for each constant that stands for what an earlier release may give.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

import duckdb
import pytest
from fuzz.campaign import REPEATED
from fuzz.check import Tried, compile_releases
from fuzz.data import FEW, random_row, small_data
from fuzz.many_units import FORMS, draw
from fuzz.mutant import Mutant
from fuzz.neighbours import Neighbours
from fuzz.stage import UNITS
from fuzz.statements import Statement
from fuzz.world import worlds
from kernel.claims import Broken, Reached, broken, certified, read, uncut

from dpsql.analysis import CompiledQuery, Plan, analyse
from dpsql.analysis.released_values import list_marks
from dpsql.kernel.tree import duckdb_sql
from dpsql.language import Options
from tests.support import claimed

DEFAULTS = Options(epsilon=Fraction(1), delta=Fraction(1, 10**6))
NEW, KEPT, DATABASES = 10, 10, 4


@dataclass
class Tally:
    """What ran."""

    drawn: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    removals: Counter[str] = field(default_factory=Counter)
    certified: defaultdict[str, Reached] = field(default_factory=lambda: defaultdict(set))
    """What a unit may change at most, by form: a number in a group and in all groups, and so many groups."""
    reached: defaultdict[str, Reached] = field(default_factory=lambda: defaultdict(set))
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{form}: {self.drawn[form]} drawn, {self.accepted[form]} accepted, {self.removals[form]} "
            f"removed, reached {len(self.reached[form])} of {len(self.certified[form])} bounds"
            for form in FORMS
        ]
        reached, certified = (sum(map(len, found.values())) for found in (self.reached, self.certified))
        total = f"{self.removals.total()} removals of {self.accepted.total()} statements"
        return "\n".join(
            (*lines, f"{total}, reached {reached} of {certified} bounds, {len(self.findings)} findings")
        )


Known = tuple[Statement, CompiledQuery]


class Removals:
    """The worlds with their databases, and the figures of what ran."""

    def __init__(self, seed: int, stages: list[Neighbours]) -> None:
        self.rng, self.tally, self.rounds, self.stages = Random(seed), Tally(), 0, stages
        self.kept: list[list[Known]] = [[] for _ in stages]

    def compile(self, stage: Neighbours, made: Statement, *, wrong: bool = False) -> list[Known]:
        """Return what a statement counts; a search of a bound besides."""
        tried, found = Tried(), list[CompiledQuery]()
        for _, plan in compile_releases(stage.world, made, tried, DEFAULTS):
            if wrong:
                claimed._claim(plan)
            found += _queries(plan)
            if plan.ladders and not list_marks(plan.query.tree):
                places = tuple(self.rng.randrange(min(4, len(s.ladder.bounds))) for s in plan.ladders)
                world = stage.world
                bounded = analyse(plan.query, world.policy, world.schema_database, plan.options, places)
                found.append(bounded.compiled)
        self.tally.drawn.update(made.saw)
        self.tally.accepted.update(made.saw if tried.accepted else ())
        self.tally.findings += map(str, tried.findings)
        return [(made, compiled) for compiled in found]

    def round(self, size: int = FEW) -> None:
        """Make databases, and count some new statements and some known ones on them and their neighbours."""
        place = self.rounds % len(self.stages)
        stage, known = self.stages[place], self.kept[place]
        self.rounds += 1
        new = [each for _ in range(NEW) for each in self.compile(stage, draw(self.rng, self._form()))]
        again = self.rng.sample(known, min(KEPT, len(known)))
        known += new
        self.fill(stage, size)
        self.count([*new, *again], stage)

    def _form(self) -> str:
        """Return one of the forms that were removed least often, or none."""
        least = min(FORMS, key=lambda form: (self.tally.removals[form], self.tally.drawn[form]))
        return least if self.rng.random() < 0.3 else ""

    def fill(self, stage: Neighbours, size: int = FEW) -> None:
        stage.fill([small_data(self.rng, stage.world, size, repeated=REPEATED) for _ in range(DATABASES)])

    def count(self, statements: list[Known], stage: Neighbours) -> None:
        """Count on the wholes, in another order and without each unit, and note what no certificate says."""
        # Planning takes longest, and the optimizer most of it.
        stage.connection.execute("PRAGMA disable_optimizer")
        for made, compiled in statements:
            sql = duckdb_sql(uncut(compiled.query, compiled.certificate))
            days = any(key.name in ("DATE", "TIMESTAMP", "TIME") for key in compiled.keys)
            said = self._check(made, compiled, sql, stage, exact=days)
            if said:
                self.tally.findings.append(
                    f"{stage.world.name} {said}\n  {made.text}\n  {compiled.sql[:3000]}"
                )

    def _check(
        self, made: Statement, compiled: CompiledQuery, sql: str, stage: Neighbours, *, exact: bool
    ) -> str:
        """Return what a certificate does not say of the numbers of a query."""
        claim, forms, reached = compiled.certificate, made.saw & {*FORMS}, Reached()
        try:
            found = stage.count_all(sql, exact=exact)
            one = self.rng.choice(sorted(found))
            if read(stage.count_one(sql, one, exact=exact), claim) != read(found[one], claim):
                return f"database {one}: counted alone it has other numbers"
            for whole in stage.databases:
                first = read(found[whole.number], claim)
                for number in whole.less:
                    same = found[number].same(found[whole.number]) and number > whole.less[0]
                    said = "" if same else broken(claim, first, read(found[number], claim), reached)
                    if said:
                        return f"without {whole.data.units[number - whole.less[0]]}: {said}"
                self.tally.removals.update(dict.fromkeys(forms, len(whole.less)))
            whole = self.rng.choice(stage.databases)
            stage.connection.execute("PRAGMA enable_optimizer")
            again = read(stage.count_one(sql, whole.number, shuffled=True, exact=exact), claim)
            stage.connection.execute("PRAGMA disable_optimizer")
            if again != read(found[whole.number], claim):
                return "the order of rows decides"
        except (Broken, duckdb.Error) as problem:
            return str(problem)
        finally:
            stage.connection.execute("PRAGMA disable_optimizer")
        for form in forms:
            self.tally.certified[form] |= certified(claim)
            self.tally.reached[form] |= reached & certified(claim)
        return ""

    def hunt(self, mutant: Mutant, batches: int = 12) -> str:
        """Return what shows that a rule is wrong; nothing if no statement does."""
        for number in range(batches):
            stage = self.stages[number % len(self.stages)]
            wrong = list[Known]()
            for _ in range(1 if mutant.statement else 12):
                form = mutant.focus[0] if mutant.focus else ""
                made = Statement(mutant.statement, frozenset()) if mutant.statement else draw(self.rng, form)
                _forget(stage)
                with pytest.MonkeyPatch.context() as patch:
                    mutant.apply(patch)
                    found = self.compile(stage, made, wrong=True)
                _forget(stage)
                right = {_counted_of(compiled) for _, compiled in self.compile(stage, made)}
                wrong += [each for each in found if _counted_of(each[1]) not in right]
            if self.tally.findings:
                return self.tally.findings[0]
            if wrong:
                self.fill(stage)
                self.count(wrong, stage)
                if self.tally.findings:
                    return self.tally.findings[0]
        return ""


def _counted_of(compiled: CompiledQuery) -> tuple[object, ...]:
    """Return what is counted, and what is said of it."""
    return compiled.sql, compiled.certificate.numbers, compiled.certificate.most_groups


def _forget(stage: Neighbours) -> None:
    stage.world.schema_database._unique.clear()
    stage.world.schema_database.relations.clear()


def _queries(plan: Plan) -> list[CompiledQuery]:
    return [plan.compiled, *(search.compiled for search in plan.ladders)]


@pytest.fixture(scope="module")
def stages() -> Iterator[list[Neighbours]]:
    made = [Neighbours(world) for world in worlds(facts=True)]
    yield made
    for stage in made:
        stage.close()
        stage.world.schema_database.close()


@pytest.fixture
def removals(stages: list[Neighbours]) -> Removals:
    return Removals(20261129, stages)


def test_no_unit_changes_more_than_is_certified(removals: Removals) -> None:
    for _ in range(8):
        removals.round()
    print(removals.tally)
    assert not removals.tally.findings, "\n\n".join(removals.tally.findings[:3])
    assert removals.tally.accepted.total() > 0.6 * removals.tally.drawn.total()
    assert removals.tally.removals.total() > 2000


@pytest.mark.slow
def test_campaign(stages: list[Neighbours]) -> None:
    """`DPSQL_REMOVALS` of all forms together; `DPSQL_SEED` repeats a campaign that failed."""
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    wanted, made = int(os.environ.get("DPSQL_REMOVALS", "100000")), Removals(seed, stages)
    while made.tally.removals.total() < wanted and not made.tally.findings:
        made.round(UNITS)
        if made.rounds % 100 == 0:
            print(seed, made.rounds, str(made.tally).rpartition("\n")[2], flush=True)
    print(seed, made.tally, sep="\n", flush=True)
    assert not made.tally.findings, "\n\n".join(made.tally.findings[:3])
    assert {form for form in FORMS if made.tally.removals[form]} == {*FORMS}


FOUND = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page IN (SELECT page FROM visits WHERE ms > 2)"
LAST = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE day = (SELECT MAX(day) FROM visits)"
GROUPS = "SELECT COUNT(*) AS n FROM (SELECT note FROM visits GROUP BY note HAVING COUNT(*) > 0) AS t"
CHOSEN = "SELECT COUNT(*) AS n FROM pages p WHERE p.page IN (SELECT page FROM visits)"
UNDECLARED = "SELECT COUNT(*) AS n FROM visits WHERE note IN (SELECT note FROM visits WHERE ms > 2)"
LISTED = (
    "SELECT ms, COUNT(DISTINCT user_id) AS many FROM visits WHERE page IN "
    "(SELECT page FROM visits GROUP BY page ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY ms"
)
"""A statement of which `constant_for` makes a list of one value."""
SETS = "SELECT COUNT(*) AS n FROM (SELECT note FROM visits UNION SELECT note FROM users) AS t"
NAMED = "SELECT COUNT(*) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.ms = u.age)"
EPOCH = "SELECT COUNT(*) AS n FROM orders WHERE make_timestamp(big) > TIMESTAMP '2020-01-01'"
UNTIED = '    raise compiler.source.refuse(\n        "a subquery over private rows must be tied'
MUTANTS = (
    Mutant(
        "values of others in one release",
        (
            ("analysis.nested_queries", "_compile_in", "if relation.owner is None:", "if True:"),
            (
                "composition.found_values",
                "with_found_values",
                "if query.clause != Clause():",
                "if query.clause == Clause():",
            ),
        ),
        statement=FOUND,
    ),
    Mutant(
        "the last day in the compiled query",
        (
            (
                "composition.kinds",
                "Kinds._owned",
                "    if releasing:\n",
                "    if releasing and not tied:\n",
            ),
            (
                "analysis.nested_queries",
                "_tie_to_outer",
                UNTIED,
                "    return Constant(True, BOOLEAN)\n" + UNTIED,
            ),
        ),
        statement=LAST,
    ),
    Mutant(
        "a unit speaks for two values",
        (
            (
                "analysis.counting_query",
                "CountedGroups.build_query",
                "rows.bound_groups(self.most, ())",
                "rows.bound_groups(self.most + 1, ())",
            ),
        ),
        statement=FOUND,
    ),
    Mutant(
        "a unit speaks for all of its values",
        (
            (
                "analysis.counting_query",
                "CountedGroups.build_query",
                "rows if self.most is None else rows.bound_groups(self.most, ())",
                "rows",
            ),
        ),
        statement=FOUND,
    ),
    Mutant(
        "a unit is in one group more than it is kept to",
        (
            (
                "analysis.released.few_groups",
                "FewGroups.build_query",
                "by, self.most, pairs",
                "by, self.most + 1, pairs",
            ),
        ),
        statement=GROUPS,
    ),
    Mutant(
        "groups of few are of all that a unit has",
        (("analysis.released.few_groups", "FewGroups.build_query", "by, self.most, pairs", "by, 99, pairs"),),
        statement=GROUPS,
    ),
    Mutant(
        "a unit speaks for two values that nobody declares, and a group exists by one",
        (
            (
                "analysis.counting_query",
                "CountedGroups.build_query",
                "rows.bound_groups(self.most, self.domains)",
                "rows.bound_groups(self.most + 1, self.domains)",
            ),
        ),
        statement=UNDECLARED,
    ),
    Mutant(
        "a unit is kept to its groups in each branch of a set operation",
        (
            (
                "analysis.released.few_groups",
                "FewGroups.build_query",
                'unit, there = Column("s", "u")',
                "from dpsql.kernel.tree import Call\n"
                '    unit, there = Call("hash", (Column("s", "u"), Column("s", f"f{len(self.row) - 1}")))',
            ),
        ),
        statement=SETS,
    ),
    Mutant(
        "the length of a released list bounds the groups of a unit",
        (
            (
                "analysis.released_values",
                "put_values",
                "compiled=filled(plan.compiled), ladders=ladders",
                "compiled=filled(plan.compiled), ladders=ladders, "
                "groups_per_unit=max((len(v) for v in values.values() if type(v) is tuple), default=None)",
            ),
        ),
        statement=LISTED,
    ),
    Mutant(
        "rows of units that others name are counted as their own",
        (
            (
                "analysis.nested_queries",
                "_tie_to_outer",
                UNTIED,
                "    return Constant(True, BOOLEAN)\n" + UNTIED,
            ),
        ),
        statement=NAMED,
    ),
    Mutant(
        "seconds since 1970 fail beyond the last point of time",
        (
            (
                "analysis.scalar_functions",
                "compile_form",
                "Apply(form,",
                'Apply(replace(form, template="make_timestamp({0})" if form.name == "make_timestamp" '
                "else form.template),",
            ),
        ),
        guarded=False,
        statement=EPOCH,
    ),
    Mutant(
        "public rows are chosen by rows, not by units",
        (
            (
                "analysis.released.unit_counts",
                "EachValue.units",
                "(SingleRows if single else Units)",
                "SingleRows",
            ),
        ),
        statement=CHOSEN,
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_wrong_rule_is_noticed(removals: Removals, mutant: Mutant) -> None:
    assert removals.hunt(mutant) != ""


BY_VALUE = Mutant(
    "all units choose alike",
    (("kernel.tree.chosen_rows", "Bounded._lower", '"hash", (unit, *values)', '"hash", (*values,)'),),
)


def _count_speakers(removals: Removals) -> list[int]:
    """Return how many speak for each page, of units that all have the same pages."""
    stage = removals.stages[0]
    made = small_data(removals.rng, stage.world, UNITS)
    place, rows = [*stage.world.columns["visits"]].index("ms"), list[list[str]]()
    for unit in made.units:
        for page in "abc":
            row = random_row(removals.rng, stage.world, "visits", [unit], 0.0)
            row[0], row[1], row[place] = unit, f"'{page}'", "5"
            rows.append(row)
    stage.fill([replace(made, rows={**made.rows, "visits": rows})])
    listed = next(one for _, one in removals.compile(stage, Statement(FOUND, frozenset())) if one.keys)
    counted = read(stage.count_one(duckdb_sql(listed.query), 0), listed.certificate)
    return sorted(numbers[0] for numbers in counted.numbers.values() if numbers[0])


def test_units_with_the_same_values_speak_for_different_ones(removals: Removals) -> None:
    speakers = _count_speakers(removals)
    assert len(speakers) == 3
    with pytest.MonkeyPatch.context() as patch:
        BY_VALUE.apply(patch)
        _forget(removals.stages[0])
        assert _count_speakers(removals) == [sum(speakers)]
