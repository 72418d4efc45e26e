"""Read the form of a function as an expression, to prove of the table of functions what it says of each row.

A form is DuckDB's SQL with the places `{0}`, `{1}`, .. of arguments. What is read here is what DuckDB reads;
other words than the ones below are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from dpsql.kernel.check.derive import natural
from dpsql.kernel.tree import (
    Argument,
    Binary,
    Call,
    Case,
    Cast,
    Constant,
    Expr,
    IsNull,
    Lambda,
    Not,
    Parameter,
    Paren,
    Try,
    Unary,
    parts,
    walk,
)
from dpsql.types import BOOLEAN, VARCHAR, SqlType


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KNOWN = _words(
    "isnan isinf isfinite signbit contains starts_with ends_with prefix suffix regexp_matches "
    "regexp_full_match json_valid json_exists list_contains list_has list_has_any list_has_all length "
    "len char_length character_length strlen bit_length octet_length length_grapheme instr strpos "
    "levenshtein damerau_levenshtein hamming array_length date_diff datediff date_sub datesub year "
    "month day quarter dayofweek dayofmonth dayofyear weekday isodow century decade week weekofyear "
    "yearweek isoyear hour minute second millisecond microsecond ascii unicode ord list_position sign "
    "hash list_unique json_array_length gcd lcm factorial sqrt cbrt exp ln log log2 log10 sin cos tan "
    "asin acos atan sinh cosh tanh asinh acosh atanh cot gamma lgamma degrees radians even atan2 "
    "nextafter fmod fdiv pow power pi jaro_similarity jaro_winkler_similarity jaccard epoch lower "
    "upper lcase ucase trim ltrim rtrim reverse strip_accents nfc_normalize md5 sha1 sha256 left "
    "right substring substr split_part translate replace regexp_escape to_base64 hex url_encode "
    "url_decode chr parse_filename parse_dirname dayname monthname array_to_string regexp_extract "
    "strftime json_extract_string json_type lpad rpad concat concat_ws regexp_replace overlay "
    "string_split str_split split string_to_array regexp_extract_all string_split_regex json_keys "
    "encode from_base64 unhex make_date last_day date_trunc datetrunc try_strptime abs list_sort "
    "list_reverse_sort list_distinct list_slice list_filter list_transform xor nullif list_first "
    "list_last list_max list_min ceil ceiling floor trunc round date_part datepart bit_count list_sum "
    "epoch_ms time_bucket age coalesce make_timestamp"
)
"""Functions that read neither the session nor the time nor a random number."""
RAISING = _words(
    "gcd lcm factorial date_trunc datetrunc date_diff datediff date_sub datesub last_day make_date "
    "age chr from_base64 unhex url_decode jaccard hamming strftime time_bucket week weekofyear "
    "yearweek isoyear epoch epoch_ms date_part datepart left right substring substr make_timestamp"
)
"""Those that fail on some values."""
GROWING = _words(
    "replace concat concat_ws overlay regexp_replace regexp_escape translate to_base64 hex url_encode "
    "lpad rpad array_to_string strip_accents nfc_normalize"
)
"""Those whose result can be longer than their arguments: the memory that they need must be bounded."""
_TOKEN = re.compile(
    r"\s*(?:\{(?P<place>\d+)\}|'(?P<text>(?:[^']|'')*)'|(?P<number>\d+(?:\.\d+)?)|(?P<word>\w+)"
    r"|(?P<sign>::|\^@|<=|>=|<>|\|\||//|>>|[-+*/%=<>()&|~,:]))"
)
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "^@", "~", "LIKE", "ILIKE", "GLOB")
_LEVELS = (("OR",), ("AND",), (), _COMPARED, ("||", "&", "|", ">>"), ("+", "-"), ("*", "/", "//", "%"))
"""Operators, from those that bind least; the third level is NOT."""
_SEPARATORS = (",", "PLACING", "FROM", "FOR")


@lru_cache(maxsize=4096)
def template(form: str) -> Expr:
    """Return the expression that a form stands for, with an `Argument` in each place."""
    reader = _Reader(form)
    found = reader.expression(0)
    if reader.at < len(reader.tokens):
        raise ValueError(f"a form is not read to its end: {form}")
    if not _bounded(found, limited=False):
        raise ValueError(f"a form does not bound the length of its result: {form}")
    return found


def _bounded(node: Expr, *, limited: bool) -> bool:
    """Return whether what makes texts longer is in a CASE that asks for their length, or is told it."""
    if isinstance(node, Case):
        limited = limited or any(
            isinstance(part, Call) and part.name == "strlen"
            for when, _ in node.branches
            for part in walk(when)
        )
    grows = isinstance(node, Call) and node.name in GROWING and node.name not in ("lpad", "rpad")
    longer = isinstance(node, Binary) and node.operator == "||" and not isinstance(node.right, Constant)
    if (grows or longer) and not limited:
        return False
    return all(_bounded(part, limited=limited) for part in _expressions(node))


def _expressions(node: Expr) -> list[Expr]:
    if isinstance(node, Case):
        conditions = [e for when, _ in node.branches for e in (when,) if not _measures(e)]
        return [*conditions, *(then for _, then in node.branches), *([node.default] if node.default else [])]
    match node:
        case Call(_, arguments):
            return [*arguments]
        case Binary(_, left, right):
            return [left, right]
        case Paren(inner) | Try(inner) | Not(inner) | Unary(_, inner) | Cast(inner) | IsNull(inner):
            return [inner]
        case Lambda(_, body):
            return [body]
    return []


def _measures(node: Expr) -> bool:
    """Return whether a condition asks for lengths: what it measures by making it is of the same bound."""
    return any(isinstance(part, Call) and part.name == "strlen" for part in walk(node))


class _Reader:
    """Reads one form, by recursive descent."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        self.parameters: list[str] = []
        place = 0
        while place < len(form.rstrip()):
            found = _TOKEN.match(form, place)
            if found is None or found.lastgroup is None:
                raise ValueError(f"a form is not read: {form}")
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()

    def takes(self, *words: str) -> str | None:
        """Step over one of several words or signs; None if another one follows."""
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        found = text.upper() if kind == "word" else text
        if kind not in ("word", "sign") or found not in words:
            return None
        self.at += 1
        return found

    def needs(self, word: str) -> None:
        if self.takes(word) is None:
            raise ValueError(f"a form is not read: {self.form}")

    def expression(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.unary()
        if level == 2:
            return Not(self.expression(level)) if self.takes("NOT") else self.expression(level + 1)
        left = self.expression(level + 1)
        while True:
            if level == 3 and (found := self._words()) is not None:
                negated, word = found
                if word == "NULL":
                    left = IsNull(left, negated)
                    continue
                made = Binary(word, left, self.expression(level + 1))
                left = Not(made) if negated else made
            elif (operator := self.takes(*_LEVELS[level])) is not None:
                left = Binary(operator, left, self.expression(level + 1))
            else:
                return left

    def _words(self) -> tuple[bool, str] | None:
        """Step over an operator of several words: whether it is negated, and its word."""
        if self.takes("NOT"):
            return True, self.takes("LIKE", "ILIKE") or "?"
        if not self.takes("IS"):
            return None
        negated = self.takes("NOT") is not None
        if self.takes("NULL"):
            return negated, "NULL"
        self.needs("DISTINCT")
        self.needs("FROM")
        return False, "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"

    def unary(self) -> Expr:
        sign = self.takes("-", "~")
        if sign is not None:
            return Unary(sign, self.unary())
        found = self.primary()
        while self.takes("::"):
            found = Cast(found, SqlType(self.word()), safe=False)
        return found

    def word(self) -> str:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if kind != "word":
            raise ValueError(f"a form is not read: {self.form}")
        self.at += 1
        return text

    def primary(self) -> Expr:
        if self.at == len(self.tokens):
            raise ValueError(f"a form ends too early: {self.form}")
        kind, text = self.tokens[self.at]
        self.at += 1
        match kind:
            case "place":
                return Argument(int(text))
            case "text":
                return Constant(text.replace("''", "'"), VARCHAR)
            case "number" if "." in text:
                return Constant(Decimal(text), SqlType("DECIMAL", len(text) - 1, len(text.partition(".")[2])))
            case "number":
                return Constant(int(text), natural(int(text)))
            case "sign" if text == "(":
                inner = self.expression(0)
                self.needs(")")
                return Paren(inner)
            case "word":
                return self._named(text)
        raise ValueError(f"a form is not read: {self.form}")

    def _named(self, name: str) -> Expr:
        match name.upper():
            case "CASE":
                return self._case()
            case "TRUE" | "FALSE":
                return Constant(name.upper() == "TRUE", BOOLEAN)
            case "LAMBDA":
                parameter = self.word()
                self.needs(":")
                self.parameters.append(parameter)
                return Lambda(parameter, self.expression(0))
        if name in self.parameters:
            return Parameter(name)
        self.needs("(")
        if name.upper() in ("CAST", "TRY_CAST"):
            operand = self.expression(0)
            self.needs("AS")
            kind = SqlType(self.word())
            self.needs(")")
            return Cast(operand, kind, safe=name.upper() == "TRY_CAST")
        arguments: list[Expr] = []
        if not self.takes(")"):
            arguments.append(self.expression(0))
            while self.takes(*_SEPARATORS):
                arguments.append(self.expression(0))
            self.needs(")")
        return Try(*arguments) if name.upper() == "TRY" else Call(name, tuple(arguments))

    def _case(self) -> Expr:
        branches = []
        while self.takes("WHEN"):
            when = self.expression(0)
            self.needs("THEN")
            branches.append((when, self.expression(0)))
        default = self.expression(0) if self.takes("ELSE") else None
        self.needs("END")
        return Case(tuple(branches), default)


def failing(node: Expr, *, of_time: bool = False) -> set[str]:
    """Return the functions outside TRY that fail on some values; the parts of a TIME always exist."""
    match node:
        case Try():
            return set()
        case Call("date_part" | "datepart") if of_time:
            return set()
        case Call("left" | "right", (Argument(), Constant())) | Call(_, (Constant(),)):
            return set()
    own = {node.name} & RAISING if isinstance(node, Call) else set()
    return own.union(*(failing(part, of_time=of_time) for part in _parts(node)))


def _parts(node: Expr) -> list[Expr]:
    return [part for part in parts(node) if isinstance(part, Expr)]
