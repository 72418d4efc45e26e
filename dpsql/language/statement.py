"""The parsed statements with options and selections; their text, and errors with a position in it.

It parses the statements of reports: CREATE, EXPLAIN, EXECUTE and DROP REPORT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import date
from fractions import Fraction
from typing import Literal, get_args

from sqlglot import exp

from dpsql.errors import Fix, QueryRefused, QuerySyntaxError, Unknown
from dpsql.kernel.loss import exact
from dpsql.language.syntax_trees import walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class StatementText:
    """The text of a statement as typed. Its methods make errors with line, column and that line's text."""

    text: str

    def locate(self, start: int) -> tuple[int, int, str]:
        r"""Return line and column (from 1) of the character at `start`, and that line.

        >>> StatementText("SELECT 1\nFROM t").locate(14)
        (2, 6, 'FROM t')
        """
        start = max(0, min(start, len(self.text)))
        before = self.text[:start]
        line = before.count("\n") + 1
        col = start - (before.rfind("\n") + 1) + 1
        return line, col, self.text.split("\n")[line - 1]

    def refuse(
        self,
        message: str,
        at: int | exp.Expr | None = None,
        hint: str | None = None,
        fix: Fix | None = None,
        unknown: Unknown = "",
    ) -> QueryRefused:
        """Return the error for a statement that is valid SQL but not allowed.

        `unknown` says what the statement names that does not exist, if that is the reason.
        """
        line, col, shown = self.locate(self.position(at))
        refused = QueryRefused(message, hint=hint, line=line, col=col, source=shown, fix=fix, unknown=unknown)
        refused.node = at
        return refused

    def syntax(
        self, message: str, at: int | exp.Expr | None = None, hint: str | None = None, fix: Fix | None = None
    ) -> QuerySyntaxError:
        """Return the error for text that is not a valid statement."""
        line, col, shown = self.locate(self.position(at))
        return QuerySyntaxError(message, hint=hint, line=line, col=col, source=shown, fix=fix)

    @contextmanager
    def limited_depth(self) -> Iterator[None]:
        """Refuse the statement if a recursion over its nesting exceeds Python's limit in this block."""
        try:
            yield
        except RecursionError:
            raise self.refuse("the statement is nested too deeply") from None

    def position(self, at: int | exp.Expr | None) -> int:
        """Return the position of a node, or of the nearest node around it that has one; else 0."""
        if at is None:
            return 0
        if isinstance(at, int):
            return at
        around: exp.Expr | None = at
        while around is not None:
            view: tuple[int, str] | None = around.meta_get("view")
            if view is not None:
                return view[0]  # it stands in a view of the policy, which is read there
            own: int | None = around.meta_get("start")
            if own is not None:
                return own  # what it holds may stand for a name, and come from another place
            starts: list[int] = [s for node in walk_tree(around) if (s := node.meta_get("start")) is not None]
            if starts:
                return min(starts)
            around = around.parent
        return 0


def replace_name(node: exp.Expr | None, name: str) -> Fix | None:
    """Return the fix that writes another name in the place of an identifier or a function's name."""
    if node is None or "start" not in node.meta or "end" not in node.meta:
        return None
    return Fix(write_name(name), node.meta["start"], node.meta["end"] + 1)


def write_name(name: str) -> str:
    """Return a name as a statement has it, in quotes unless it is plain.

    >>> print(write_name("day"), write_name("Amount (EUR)"))
    day "Amount (EUR)"
    """
    plain = name.isascii() and name.isidentifier()
    return name if plain else '"' + name.replace('"', '""') + '"'


Cut = Literal["SHARED", "WHOLE", "NOISE_ONLY"]
"""How intervals have what bounds cut: of groups by their shares, all of it in each, or not at all."""
CUTS: tuple[str, ...] = get_args(Cut)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a private statement; None for those that are absent. `at` holds their positions."""

    epsilon: Fraction | None = None
    error: Fraction | None = None
    delta: Fraction | None = None
    measure: Fraction | Literal["AUTO"] | None = None
    measure_strategy: str | None = None
    mechanism: str | None = None
    noise: str | None = None
    base_hits: int | None = None
    threshold_share: Fraction | None = None
    candidates: int | None = None
    order_share: Fraction | None = None
    max_groups_contributed: int | None = None
    group_selection_strategy: str | None = None
    max_rows_contributed: int | None = None
    bound_share: Fraction | None = None
    confidence: Fraction | None = None
    privacy_unit_column: str | None = None
    fresh: bool | None = None
    intervals: Literal["SINGLE", "SIMULTANEOUS"] | None = None
    cut: Cut | None = None
    as_of: date | None = None
    layout: Literal["BASIC", "ORDER"] | None = None
    dialect: str | None = None
    """The dialect that decides the meaning of calls that several have."""
    combine: Literal["ONLY", "TRUE"] | None = None
    """Whether it is answered from stored releases alone, or from the estimate of a report."""
    at_release: int | None = None
    """Of these, the newest that is looked at."""
    price: Fraction | None = None
    """What a release is said to cost, if it is no epsilon of its own: no option that can be written."""
    at: dict[str, int] = field(default_factory=dict)
    _key: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """All options with the types of their values, as a text that is written once."""
        if not self._key:
            self._key.append(repr(self))
        return self._key[0]


@dataclass(frozen=True, slots=True)
class Clause:
    """The private selection clauses TOP, ARGMAX, BY and ABOVE THRESHOLD of a statement, as written."""

    top: int | None = None
    argmax: bool = False
    by: exp.Expr | None = None
    threshold: Fraction | None = None
    spelling: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class Clauses:
    """The private clauses of one SELECT."""

    options: Options = field(default_factory=Options)
    clause: Clause = field(default_factory=Clause)
    has_options: bool = False
    at: int = 0
    """The position of the first of them."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The k groups with the largest counts (the smallest when `lowest`), those above `threshold` if given."""

    k: int
    count: int
    """The index of the count that orders the groups."""
    lowest: bool = False
    threshold: Fraction | None = None
    argmax: bool = False
    spelling: str = ""
    strict: bool = False
    """Whether the threshold itself does not pass, as long as it is what the statement says."""


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Groups whose count reaches a threshold, scanned in a public order."""

    threshold: Fraction
    count: int
    limit: int | None
    order: tuple[tuple[int, bool], ...] = ()
    """The keys of the public order, by place, and whether descending; empty: the order of the domain."""
    spelling: str = ""
    strict: bool = False
    """Whether the threshold itself does not pass, as long as it is what the statement says."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """The form of a statement that counts the whole table: without GROUP BY."""

    spelling: str = "a count without GROUP BY"


@dataclass(frozen=True, slots=True)
class AllGroups:
    """Every group of a GROUP BY with its counts."""

    order: tuple[tuple[int, bool], ...] = ()
    """The keys that order the released groups, by place, and whether descending."""
    limit: int | None = None
    spelling: str = "GROUP BY without a selection"


@dataclass(frozen=True, slots=True)
class TopPerPartition:
    """The k groups with the largest counts of each partition: of each combination of some keys' values."""

    best: TopK
    """The selection within one partition."""
    keys: tuple[int, ...]
    """The places of the keys that make the partitions."""
    spelling: str = ""

    @property
    def count(self) -> int:
        """The index of the count that orders the groups of a partition."""
        return self.best.count

    @property
    def lowest(self) -> bool:
        """Whether they are those with the smallest counts."""
        return self.best.lowest


Selection = TopK | AboveThreshold | Scalar | AllGroups | TopPerPartition


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT statement. The analysis decides whether it is private or public."""

    source: StatementText
    tree: exp.Query
    options: Options
    clause: Clause
    has_options: bool
    parameters: tuple[object, ...] = ()
    inner: Mapping[int, Clauses] = field(default_factory=dict)
    """The private clauses of other SELECTs than the outermost, by the position of the SELECT."""
    views: tuple[str, ...] = ()
    """The policy's views whose SELECTs are among its common table expressions."""


@dataclass(frozen=True, slots=True)
class Refine:
    """REFINE RELEASE of a count: the same count again with less noise, at a larger epsilon in all."""

    source: StatementText
    number: int
    epsilon: Fraction
    """The epsilon that the release and its refinement cost together."""
    at: int
    epsilon_at: int


@dataclass(frozen=True, slots=True)
class ReportCommand:
    """CREATE REPORT name AS .., EXPLAIN REPORT, EXECUTE REPORT name (part) STATEMENT n, DROP REPORT.

    Attributes
    ----------
    what, name
        The first word, and the name of the report.
    text, epsilon, per
        Of CREATE: its statements, what a run costs in each part (None: the connection's epsilon), and of what
        the mean error is least.
    part, statement
        The part of units; and the statement, from 1, whose answer is returned.
    at_release
        Of EXECUTE: the newest release that is looked at; nothing is measured then.
    """

    source: StatementText
    what: Literal["CREATE", "EXPLAIN", "EXECUTE", "DROP"]
    name: str
    text: str = ""
    epsilon: Fraction | None = None
    part: str | None = None
    statement: int | None = None
    per: Literal["STATEMENT", "NUMBER"] = "STATEMENT"
    at_release: int | None = None


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW PRIVACY BUDGET (BY PARTS), TABLES, RELEASES, RELEASE n, STREAMS, STREAM name, REPORTS."""

    source: StatementText
    what: Literal["budget", "parts", "tables", "releases", "release", "streams", "stream", "reports"]
    number: int = 0
    """The number of the release that is shown."""
    every: bool = False
    """Whether all parts are shown, however many they are."""
    name: str = ""
    """The name of the stream that is shown."""


@dataclass(frozen=True, slots=True)
class Describe:
    """A DESCRIBE statement: the table whose columns it asks for."""

    source: StatementText
    table: str
    at: int


@dataclass(frozen=True, slots=True)
class Set:
    """SET of a default option of this connection, with a parsed value (see `Options`)."""

    source: StatementText
    name: str
    value: object

    def apply(self, defaults: Options) -> Options:
        """Return the connection's defaults with this one changed; a default epsilon ends a default error."""
        if self.name == "epsilon":
            defaults = replace(defaults, error=None)
        return replace(defaults, **{self.name: self.value})  # type: ignore[arg-type]  # typed when it was read


_NAME = r"(?P<name>[A-Za-z_]\w*)"
_COMMENTS = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)"
_WORD = lazy_pattern(
    rf"{_COMMENTS}*(?P<word>CREATE|EXPLAIN|EXECUTE|DROP)\s+REPORT\b", re.IGNORECASE | re.DOTALL
)
_CREATE = lazy_pattern(
    rf"\s+{_NAME}\s*(?:OPTIONS\s*\(\s*(?P<options>[^()]*?)\s*\)\s*)?AS\b(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = lazy_pattern(r"\s*(\w+)\s*=\s*(\S+)\s*")
_RUN = lazy_pattern(
    rf"\s+{_NAME}\s*(?:\(\s*(?:DATE\s*)?'(?P<part>[^']*)'\s*\)\s*)?"
    r"(?:OPTIONS\s*\(\s*at_release\s*=\s*(?P<release>[0-9]{1,15})\s*\)\s*)?"
    rf"(?:STATEMENT\s+(?P<statement>[0-9]{{1,4}})\s*)?"
    rf";?{_COMMENTS}*",
    re.IGNORECASE | re.DOTALL,
)
_DOLLARS = lazy_pattern(r"\s*(\$\w*\$)(?P<text>.*)\1\s*;?\s*", re.DOTALL)
_EXAMPLES = {
    "CREATE": "CREATE REPORT weekly OPTIONS (epsilon = 0.8) AS $$ SELECT ..; SELECT .. $$",
    "EXPLAIN": "EXPLAIN REPORT weekly",
    "EXECUTE": "EXECUTE REPORT weekly ('2026-W48') STATEMENT 1",
    "DROP": "DROP REPORT weekly",
}


def parse_report_statement(text: str) -> ReportCommand | None:
    """Parse a statement of reports; None for any other.

    >>> found = parse_report_statement("EXECUTE REPORT weekly ('2026-W48') STATEMENT 2")
    >>> found.what, found.name, found.part, found.statement
    ('EXECUTE', 'weekly', '2026-W48', 2)
    """
    begun = _WORD.match(text)
    if begun is None:
        return None
    source, word, rest = StatementText(text), begun["word"].upper(), text[begun.end() :]
    found = (_CREATE if word == "CREATE" else _RUN).fullmatch(rest)
    unread = ("release", "part", "statement") if word == "DROP" else ("release",) if word == "EXPLAIN" else ()
    if found is None or any(found[each] for each in unread):
        raise source.syntax(f"cannot read this {word} REPORT", begun.end(), _EXAMPLES[word])
    name = found["name"].lower()
    if word != "CREATE":
        number, release = (int(found[each]) if found[each] else None for each in ("statement", "release"))
        return ReportCommand(
            source,
            word,  # type: ignore[arg-type]  # a word
            name,
            part=found["part"],
            statement=number,
            at_release=release,
        )
    quoted = _DOLLARS.fullmatch(found["text"])
    text = found["text"] if quoted is None else quoted["text"]
    command = ReportCommand(source, "CREATE", name, text)
    at = begun.end() + (found.start("options") if found["options"] else 0)
    for option in (found["options"] or "").split(",") if found["options"] else ():
        command = _with_option(source, command, option, at)
    return command


def _with_option(source: StatementText, command: ReportCommand, option: str, at: int) -> ReportCommand:
    read = _OPTION.fullmatch(option)
    match read and (read[1].lower(), read[2].strip("'")):
        case ("epsilon", value):
            try:
                return replace(command, epsilon=exact(value))
            except ValueError as problem:
                raise source.syntax(f"epsilon: {problem}", at) from None
        case ("per", value) if value.upper() in ("STATEMENT", "NUMBER"):
            return replace(command, per=value.upper())  # type: ignore[arg-type]  # one of both
    raise source.syntax("the options are epsilon = 0.5 and per = STATEMENT or NUMBER", at)
