"""Parse the options clause: `name = value` pairs with checked types and ranges; words that are completed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.kernel.loss import exact
from dpsql.language.statement import CUTS, Options, StatementText

MECHANISMS = (
    "AUTO",
    "NOISY_TOP_K",
    "SPARSE_VECTOR",
    "ADAPTIVE_SPARSE_VECTOR",
    "HYBRID_TOP_K",
    "HYBRID_SPARSE_VECTOR",
    "NOISY_MAX",
    "EXPONENTIAL",
    "LIMITED_DOMAIN",
    "TOP_STABLE",
    "LIMITED_THEN_STABLE",
    "FIRST_STABLE",
    "LAPLACE",
    "BOX",
    "JOINT",
    "LAPLACE_THRESHOLD",
    "GAUSSIAN",
    "PEELED_TOP_K",
    "GUMBEL_TOP_K",
    "SPARSE_VECTOR_BY_ROUNDS",
)
NOISES = ("EXPONENTIAL", "LAPLACE", "GEOMETRIC", "GAUSSIAN")
LAYOUTS = ("BASIC", "ORDER")
DIALECTS = ("DUCKDB", "POSTGRES", "BIGQUERY", "SNOWFLAKE", "MYSQL", "SPARK", "TSQL", "SQLITE")
MEASURE_STRATEGIES = ("AUTO", "BOX", "EACH", "ANCHOR")
INTERVALS = ("SINGLE", "SIMULTANEOUS")
STRATEGIES = ("PUBLIC_GROUPS", "LAPLACE_THRESHOLD")
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "DISTINCT", "COUNT", "AS", "ASC"),
    *("DESC", "JOIN", "LEFT JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "FILTER", "WITH", "UNION", "EXISTS", "NULL", "TRUE"),
    *("FALSE", "EXPLAIN", "DESCRIBE", "SET", "SHOW TABLES", "SHOW PRIVACY BUDGET", "SHOW RELEASES"),
    "SHOW PRIVACY BUDGET BY PARTS",
    *("REFINE RELEASE", "TO", "SHOW RELEASE", "EXPLAIN (FORMAT JSON)", "IS NOT NULL", "PARTITION BY"),
    *("EXPLAIN (FORMAT CERTIFICATE)", "CREATE REPORT", "EXPLAIN REPORT", "EXECUTE REPORT", "DROP REPORT"),
    "SHOW REPORTS",
    *("WITH DIFFERENTIAL_PRIVACY", "OPTIONS", "TOP", "BY", "ABOVE THRESHOLD", "ARGMAX"),
    *("DP_GAP()", "DP_STDDEV", "DP_INTERVAL_LOW", "DP_INTERVAL_HIGH", "DP_PVALUE()", "DP_RANK()"),
    *("DP_LEFT_OUT", "DP_BOUND"),
    *("OPEN CHECKS", "CHECK", "EXPECT", "TOLERANCE", "WITHIN", "AT MOST", "AT LEAST", "LAST PER"),
    *("REFILL STREAM", "CLOSE STREAM", "SHOW STREAMS", "SHOW STREAM", "OPEN STABLE", "ASK", "MODELS"),
    *("OPEN BOARD", "OPEN HOLDOUT", "FIRST STABLE"),
)
"""The words of the language that front ends complete."""
OPTION_VALUES = {
    "mechanism": MECHANISMS,
    "noise": NOISES,
    "measure_strategy": MEASURE_STRATEGIES,
    "intervals": INTERVALS,
    "measure": ("AUTO",),
    "combine": ("ONLY", "TRUE"),
    "fresh": ("TRUE", "FALSE"),
    "dialect": DIALECTS,
}
"""Values of options that front ends complete."""
SETTINGS = ("dp_epsilon", "dp_error", "dp_delta", "dp_measure", "dp_confidence", "dp_dialect")
"""Settings that front ends complete."""
_NAMES = {"kappa": "max_groups_contributed"}
"""Other dialects' names of options."""
_ALSO = {
    **dict.fromkeys(("eps", "budget", "privacy_budget", "epsilon_budget", "privacy_loss"), "epsilon"),
    **dict.fromkeys(
        ("l0", "l0_sensitivity", "max_partitions_contributed", "max_partitions", "contribution_limit"),
        "max_groups_contributed",
    ),
    **dict.fromkeys(
        ("max_contributions", "max_rows", "max_rows_per_unit", "row_limit"), "max_rows_contributed"
    ),
    **dict.fromkeys(("noise_kind", "noise_type", "noise_distribution"), "noise"),
    **dict.fromkeys(("confidence_level", "level", "ci"), "confidence"),
    **dict.fromkeys(("accuracy", "tolerance", "max_error", "precision"), "error"),
    **dict.fromkeys(("privacy_unit", "unit_column", "user_id_column"), "privacy_unit_column"),
}
"""Names by which other systems or people call options."""
MIN_EPSILON = Fraction(1, 10**6)
MAX_EPSILON = Fraction(10**6)
MAX_INTEGER = 10**9
MAX_NUMBER = Fraction(10**100)
"""The largest number of an option or a threshold; its inverse is the smallest above 0. All have floats."""
_LEAST_CONFIDENCE = Fraction(1, 10**9)


def parse_options(source: StatementText, tokens: Sequence[Token]) -> Options:
    """Parse `name = value, ...` (the tokens between the parentheses)."""
    values: dict[str, object] = {}
    at: dict[str, int] = {}
    for part in split_options(source, tokens):
        head = part[0]
        name = _NAMES.get(head.text.lower(), head.text.lower())
        if name not in _READERS:
            close = [_ALSO[name]] if name in _ALSO else difflib.get_close_matches(name, _READERS, 1, 0.76)
            hint = f"did you mean {close[0]}?" if close else "the options are " + ", ".join(_READERS)
            fix = Fix(close[0], head.start, head.end + 1) if close else _leave_out(source, tokens, name)
            if fix is not None and not close:
                fix = replace(fix, asks=f"it without {source.text[head.start : part[-1].end + 1]}")
            if len(part) == 1 and head.token_type == TokenType.NUMBER:
                hint, fix = "epsilon = ..", Fix("epsilon = ", head.start, head.start, guess="epsilon")
            raise source.syntax(f"there is no option {head.text}", head.start, hint, fix)
        if name in values:
            raise source.syntax(f"option {name} is given twice", head.start)
        if len(part) < 3 or part[1].token_type not in (TokenType.EQ, TokenType.FARROW):
            fix = None
            if len(part) == 2 or (len(part) == 3 and part[1].text in (":", "TO", "IS")):
                written = source.text[part[-1].start : part[-1].end + 1]
                fix = Fix(f"{name} = {written}", head.start, part[-1].end + 1)
            raise source.syntax(f"option {name} needs a value", head.start, f"write {name} = ...", fix)
        value = part[2:]
        if name == "privacy_unit_column" and len(value) > 2 and value[-2].token_type == TokenType.DOT:
            value = value[-1:]  # only its last name is compared with the policy's
        values[name] = read_value(source, name, value)
        at[name] = head.start
    if {"max_rows_contributed", "max_groups_contributed"} <= {*values}:
        raise source.refuse(
            "a bound on the rows of a unit in all groups together needs none on its groups",
            max(at["max_rows_contributed"], at["max_groups_contributed"]),
            "leave max_groups_contributed out, or leave max_rows_contributed out",
            _leave_out(source, tokens, "max_groups_contributed", "that the bound on rows holds"),
        )
    if {"epsilon", "error"} <= {*values}:
        raise source.refuse(
            "options epsilon and error exclude each other: epsilon follows from the error",
            max(at["epsilon"], at["error"]),
            "leave epsilon out, or leave error out",
            _leave_out(source, tokens, "epsilon", "that the error decides"),
        )
    _check_combining(source, values, at)
    return Options(**values, at=at)  # type: ignore[arg-type]  # each reader returns its field's type


def _leave_out(source: StatementText, tokens: Sequence[Token], name: str, guess: str = "") -> Fix | None:
    """Return the change that leaves an option out, with the comma beside it."""
    parts = split_options(source, tokens)
    i = next((i for i, part in enumerate(parts) if part[0].text.lower() == name), None)
    if i is None:
        return None
    start = parts[i][0].start if i == 0 else parts[i - 1][-1].end + 1
    return Fix("", start, parts[1][0].start if i == 0 and parts[1:] else parts[i][-1].end + 1, guess=guess)


def _check_combining(source: StatementText, values: Mapping[str, object], at: Mapping[str, int]) -> None:
    """Refuse options that have no meaning where stored numbers are added up, or where they are not."""
    if values.get("combine") == "ONLY":
        for name in ("epsilon", "delta", "fresh"):
            if name in values:
                raise source.refuse(
                    "an answer that is added up from releases costs nothing and measures nothing",
                    at[name],
                    f"leave {name} out, or leave combine out",
                )
    elif "at_release" in values:
        raise source.refuse(
            "at_release is for answers that are added up from releases",
            at["at_release"],
            "write combine = ONLY beside it, or leave it out",
        )


def split_options(source: StatementText, tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of each option, between the commas."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.COMMA and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if parts == [[]]:
        return []
    if any(not part for part in parts):
        raise source.syntax("an option is missing beside a comma", tokens[0].start)
    return parts


def read_value(source: StatementText, name: str, tokens: Sequence[Token]) -> object:
    """Parse the value of one option; an error points at the value."""
    tokens = list(tokens)
    while (
        len(tokens) > 2
        and tokens[0].token_type == TokenType.L_PAREN
        and tokens[-1].token_type == TokenType.R_PAREN
    ):
        tokens = tokens[1:-1]
    start = tokens[0].start
    sign = ""
    if tokens[0].token_type == TokenType.DASH and len(tokens) == 2:
        sign, tokens = "-", tokens[1:]
    if tokens[0].token_type == TokenType.DOT and len(tokens) == 2:  # `.5` is two tokens
        tokens = [
            Token(
                TokenType.NUMBER, "0." + tokens[1].text, tokens[0].line, tokens[0].col, start, tokens[1].end
            )
        ]
    if len(tokens) == 2 and name == "as_of" and tokens[0].text.upper() == "DATE":
        tokens = tokens[1:]
    if len(tokens) != 1:
        fix = None
        if len(tokens) == 2 and tokens[0].token_type == TokenType.NUMBER and tokens[1].text == "%":
            share = f"{float(tokens[0].text) / 100:g}"
            fix = Fix(share, start, tokens[1].end + 1, guess=f"{share} for {tokens[0].text}%")
        from dpsql.language.mistaken_forms import compute_number  # noqa: PLC0415  most are numbers

        made = compute_number(source.text[start : tokens[-1].end + 1])
        fix = Fix(made, start, tokens[-1].end + 1) if made is not None else fix
        if len(tokens) > 2 and tokens[1].text.lower() in _READERS:
            fix = Fix(",", tokens[0].end + 1, tokens[0].end + 1)
        raise source.syntax(f"option {name} takes one literal", start, None if fix is None else fix.text, fix)
    try:
        return _READERS[name](tokens[0], sign)
    except ValueError as error:
        from dpsql.language.mistaken_forms import correct_value  # noqa: PLC0415  most are right

        fix = correct_value(name, tokens[0], str(error))
        fix = fix if fix is None else replace(fix, start=start)
        comma = re.compile(r"(\d+),(\d+)(?=\s*[,)])").match(source.text, start)
        fix = fix if comma is None else Fix(f"{comma[1]}.{comma[2]}", *comma.span())
        hint = None if fix is None else fix.text
        raise source.syntax(f"option {name}: {error}", start, hint, fix) from None


def _read_number(token: Token, sign: str) -> Fraction:
    if token.token_type != TokenType.NUMBER:
        raise ValueError("expected a number")
    return exact(sign + token.text)


def _check_size(value: Fraction) -> Fraction:
    """Return a number that can be computed with in floating point; `ValueError` for others."""
    if value and not 1 / MAX_NUMBER <= value <= MAX_NUMBER:
        raise ValueError("it must be no more than 1e100, and no nearer to 0 than 1e-100")
    return value


def _read_epsilon(token: Token, sign: str) -> Fraction:
    value = _read_number(token, sign)
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise ValueError(f"epsilon must lie between {float(MIN_EPSILON):g} and {int(MAX_EPSILON):,}")
    return value


def _read_error(token: Token, sign: str) -> Fraction:
    if token.token_type == TokenType.STRING and token.text.endswith("%"):
        raise ValueError("a relative error is not supported: give it in counts, as error = 50")
    value = _read_number(token, sign)
    if value <= 0:
        raise ValueError("it must be more than 0")
    return _check_size(value)


def _make_fraction_reader(words: str, *, open_low: bool) -> Callable[[Token, str], Fraction]:
    """Return the reader of a number below 1 that is at least 0, or above 0 if `open_low`."""

    def read(token: Token, sign: str) -> Fraction:
        value = _read_number(token, sign)
        if not 0 <= value < 1 or (open_low and value == 0):
            raise ValueError(f"it must be {words}")
        return _check_size(value)

    return read


def _read_measure(token: Token, sign: str) -> Fraction | str:
    if token.text.upper() == "AUTO" and not sign:
        return "AUTO"
    return _make_fraction_reader("AUTO, or at least 0 and less than 1", open_low=False)(token, sign)


def _make_word_reader(*allowed: str) -> Callable[[Token, str], str]:
    def read(token: Token, sign: str) -> str:
        word = token.text.upper()
        if sign or word not in allowed or token.token_type == TokenType.NUMBER:
            raise ValueError("expected one of " + ", ".join(allowed))
        return word

    return read


def _read_count(token: Token, sign: str) -> int:
    value = _read_number(token, sign)
    if value.denominator != 1 or not 1 <= value <= MAX_INTEGER:
        raise ValueError(f"expected a whole number between 1 and {MAX_INTEGER:,}")
    return int(value)


def _read_flag(token: Token, sign: str) -> bool:
    if sign or token.token_type not in (TokenType.TRUE, TokenType.FALSE):
        raise ValueError("expected TRUE or FALSE")
    return token.token_type == TokenType.TRUE


def _read_day(token: Token, sign: str) -> date:
    if sign or token.token_type != TokenType.STRING:
        raise ValueError("expected a day, as in DATE '2024-12-31'")
    try:
        return date.fromisoformat(token.text)
    except ValueError:
        raise ValueError("expected a day, as in DATE '2024-12-31'") from None


def _read_name(token: Token, sign: str) -> str:
    if sign or token.token_type == TokenType.NUMBER:
        raise ValueError("expected a column's name")
    return token.text


_read_proper_fraction = _make_fraction_reader("more than 0 and less than 1", open_low=True)


def _read_confidence(token: Token, sign: str) -> Fraction:
    value = _read_proper_fraction(token, sign)
    if not _LEAST_CONFIDENCE <= value <= 1 - _LEAST_CONFIDENCE:
        raise ValueError("it must lie between 0.000000001 and 0.999999999")
    return value


_TABLE: dict[str, tuple[Callable[[Token, str], object], str]] = {
    "epsilon": (_read_epsilon, "the most the statement may cost, from 0.000001 to 1,000,000"),
    "delta": (_read_proper_fraction, "the delta for keys without a declared domain, between 0 and 1"),
    "error": (
        _read_error,
        "in place of epsilon, which is computed: half the width of the widest interval, in counts; for keys "
        "alone, the smallest difference of two counts that is detected",
    ),
    "as_of": (_read_day, "the day, as `DATE '2024-12-31'`, that current_date is, and now() its beginning"),
    "measure": (_read_measure, "the share of epsilon that measures the counts shown, or `AUTO`"),
    "measure_strategy": (
        _make_word_reader(*MEASURE_STRATEGIES),
        "`BOX` measures all selected counts with one noise, `EACH` each by itself, `ANCHOR` their total; "
        "`AUTO` is `BOX`",
    ),
    "mechanism": (_make_word_reader(*MECHANISMS), "the mechanism by name, or `AUTO`"),
    "noise": (
        _make_word_reader(*NOISES),
        "the noise of the selection; `GAUSSIAN` is that of measured counts, which needs `accounting = "
        '"zcdp"`, and `LAPLACE` also says that none is to be Gaussian',
    ),
    "layout": (
        _make_word_reader(*LAYOUTS),
        'with `accounting = "zcdp"`: `BASIC` divides epsilon among the statement\'s mechanisms, `ORDER` what '
        "it costs where costs add; by default what takes the smaller part of the budget",
    ),
    "base_hits": (_read_count, "how many groups barely above the threshold the budget must pay for"),
    "threshold_share": (
        _read_proper_fraction,
        "the share of epsilon for the noise of the threshold, between 0 and 1",
    ),
    "candidates": (
        _read_count,
        "for keys without a declared domain: the number of largest groups to select from",
    ),
    "order_share": (
        _make_fraction_reader("at least 0 and less than 1", open_low=False),
        "the share of the selection's epsilon with which `TOP_STABLE` orders the groups of its set",
    ),
    "max_groups_contributed": (
        _read_count,
        "in how many groups one unit may count when all groups are released",
    ),
    "group_selection_strategy": (
        _make_word_reader(*STRATEGIES),
        "`PUBLIC_GROUPS` shows all groups of declared keys, and refuses keys that are not declared; "
        "`LAPLACE_THRESHOLD` shows the groups of keys that are not declared with enough units; "
        "by default each is done where it applies",
    ),
    "max_rows_contributed": (
        _read_count,
        "how many rows of one unit count in a count of rows without a bound, in all groups together",
    ),
    "bound_share": (
        _read_proper_fraction,
        "the share of epsilon that finds bounds privately, where a sum has none; 0.2 by default, "
        "0.1 of the cost where that is divided",
    ),
    "confidence": (
        _read_confidence,
        "the probability that an interval covers the true count; 0.95 by default",
    ),
    "intervals": (
        _make_word_reader(*INTERVALS),
        "`SIMULTANEOUS` intervals cover all counts at once with that probability, `SINGLE` ones each count; "
        "by default `SINGLE`, except where released numbers decide what is shown",
    ),
    "cut": (
        _make_word_reader(*CUTS),
        "how intervals have what bounds cut, where its size is known: of groups, `SHARED` gives each its "
        "share and the interval twice that, `WHOLE` each interval all of it; `NOISE_ONLY` leaves it out of "
        "them; by default what the tables of the policy say, else `SHARED`",
    ),
    "dialect": (
        _make_word_reader(*DIALECTS),
        "the dialect whose meaning a function has where several dialects call different ones alike; by "
        "default DuckDB's, and what DuckDB does not have is refused with its meanings",
    ),
    "privacy_unit_column": (_read_name, "the unit's column; may only repeat what the policy declares"),
    "combine": (
        _make_word_reader("ONLY", "TRUE"),
        "`ONLY` adds numbers of your releases up, which costs nothing; refused where they do not tell it; "
        "`TRUE`, in a report: its estimate answers it, or it is refused",
    ),
    "at_release": (
        _read_count,
        "with `combine = ONLY`: the number of the newest release that is looked at; the same answer again",
    ),
    "fresh": (_read_flag, "`TRUE` asks for a new answer, and pays for it, where a stored one would be free"),
}
_READERS = {name: reader for name, (reader, _) in _TABLE.items()}

OPTIONS: dict[str, str] = {name: meaning for name, (_, meaning) in _TABLE.items()}
"""The options of a private statement, and what each means."""
