"""Parse SHOW, DESCRIBE, SET and REFINE; find the statement in a text with what was copied around it."""

from __future__ import annotations

import difflib
import html
import re
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language import parameters as params
from dpsql.language.options import SETTINGS, read_value
from dpsql.language.parameters import Parameters
from dpsql.language.statement import Describe, Refine, Set, Show, StatementText
from dpsql.language.stream_statements import STREAMS
from dpsql.lazy_pattern import lazy_pattern

_STATEMENTS = ("SELECT", "FROM", "WITH", "VALUES", "EXPLAIN", "SHOW", "DESCRIBE", "SET", "REFINE", *STREAMS)
_SHOWN: dict[str, Literal["budget", "tables", "releases", "streams", "reports"]] = {
    "PRIVACY BUDGET": "budget",
    "BUDGET": "budget",
    "TABLES": "tables",
    "RELEASES": "releases",
    "STREAMS": "streams",
    "REPORTS": "reports",
}
_SHOW_WORDS = {
    **dict.fromkeys(("BUDGET", "EPSILON", "SPENT", "PRIVACY"), "PRIVACY BUDGET"),
    **dict.fromkeys(("TABLE", "SCHEMA", "SCHEMAS", "DATABASES", "VIEWS"), "TABLES"),
    **dict.fromkeys(("HISTORY", "QUERIES", "ANSWERS", "RESULTS", "RELEASE"), "RELEASES"),
}
"""What words of a SHOW that is none ask for."""


AROUND = "what stands around the statement is no SQL"
BARE = "leave out what stands around it"
"""The hint of a statement within other words."""


def read_other_text(text: str) -> Fix | None:
    """Return the change to the statement within other words, or to what another language's question asks."""
    from dpsql.language.dataframe_forms import read_dataframe  # noqa: PLC0415  most statements are SQL

    bare = unwrap(text)
    found = read_dataframe(text) if bare is None else (bare, "")
    return None if found is None else Fix(found[0], 0, len(text), asks=found[1])


def refuse_unknown(source: StatementText, token: Token) -> Exception:
    """Return the refusal of a statement whose first word is none, with the SELECT that it has or means."""
    word = token.text.split()[0] if token.text.split() else token.text
    meant = read_other_text(source.text)
    if meant is None and (pivot := _PIVOT.fullmatch(source.text)) is not None:
        return _refuse_pivot(source, token, pivot.groupdict(""))
    if meant is not None:
        said, hint = ("this is not SQL", meant.text) if unwrap(source.text) is None else (AROUND, BARE)
        return source.refuse(said, token.start, hint, meant)
    close = difflib.get_close_matches(word.upper(), _STATEMENTS, 1, 0.7)
    close = ["SELECT"] if word.upper() == "SEL" else close  # Teradata
    if close and not (word.upper() in _ASKING or source.text.rstrip().endswith("?")):
        fix = Fix(close[0], token.start, token.start + len(word))
        said = f"cannot read `{word[:40]}`"
        return source.syntax(said, token.start, f"did you mean {close[0]}?", fix)
    if word.upper() not in _COMMANDS:
        return source.refuse("this is not SQL", token.start, _FORMS)
    said = f"{word.upper()[:40]} statements are not run: dpsql only reads"
    changed = re.match(
        r"(?is)\s*(?:DELETE\s+FROM|UPDATE)\s+([\w.]+)(?:\s+SET\s+(?:(?!\bWHERE\b)[^;])*)?(\s+WHERE\s[^;]+)?\s*;?\s*\Z",
        source.text,
    )
    if changed is not None:
        counted = f"SELECT COUNT(*) FROM {changed[1]}{changed[2] or ''}"
        fix = Fix(counted, 0, len(source.text), asks="how many rows that would change")
        return source.refuse(said, token.start, counted, fix)
    if word.upper() in _NEEDLESS:
        return source.refuse(said, token.start, _NEEDLESS[word.upper()])
    kept = re.match(
        r"(?is)\s*(?:CREATE\s[^(]*?\bAS|INSERT\s[^()]*(?:\([^()]*\))?|COPY|UNLOAD|EXPORT\s[^;]*?\bAS)"
        r"\s*\(?\s*(?=(?:SELECT|WITH)\b)",
        source.text,
    )
    if kept is not None:
        shut = source.text[: kept.end()].count("(") > source.text[: kept.end()].count(")")
        whole = source.text[kept.end() :].rstrip("; \n\t")
        whole = re.sub(r"(?is)\)\s*TO\s[^()]*(?:\([^()]*\))?\s*\Z", ")", whole)
        whole = whole.removesuffix(")") if shut else whole
        fix = Fix(whole, 0, len(source.text), asks="the answer is shown, not kept")
        return source.refuse(said, token.start, whole, fix)
    return source.refuse(
        said,
        token.start,
        _FORMS,
    )


_PIVOT = lazy_pattern(
    r"(?is)\s*PIVOT\s+(?P<rows>\(\s*(?:SELECT|FROM|WITH)\b.+\)|[\w.\"]+)\s+ON\s+(?P<on>[\w.\"]+(?:\([^()]*\))?)(?P<listed>\s+IN\s*\([^()]*\))?\s+"
    r"USING\s+(?P<using>.+?)(?:\s+GROUP\s+BY\s+(?P<keys>.+?))?(?P<rest>\s+(?:ORDER\s+BY|LIMIT)\s.+?)?[\s;]*"
)


_ONE_CALL = lazy_pattern(r"\w+\([^()]*\)")


def _refuse_pivot(source: StatementText, token: Token, parts: dict[str, str]) -> Exception:
    """Return the refusal of PIVOT, with what it asks by a row for each value of its column."""
    rows, on, keys = parts["rows"], parts["on"], parts["keys"]
    of = f"{rows} AS p" if rows.startswith("(") else rows
    chosen = f" WHERE {on}{parts['listed']}" if parts["listed"] else ""
    groups = f"{keys}, {on}" if keys else on
    meant = f"SELECT {groups}, {parts['using']} FROM {of}{chosen} GROUP BY {groups}{parts['rest']}"
    values = [value.strip() for value in parts["listed"].partition("(")[2].rstrip(")").split(",") if value]
    if keys and values and _ONE_CALL.fullmatch(parts["using"]):
        columns = (f"""{parts["using"]} FILTER (WHERE {on} = {v}) AS "{v.strip("'")}\"""" for v in values)
        meant = f"SELECT {keys}, {', '.join(columns)} FROM {of} GROUP BY {keys}{parts['rest']}"
        fix = Fix(meant, 0, len(source.text))
        return source.refuse("PIVOT is not supported over private data", token.start, meant, fix)
    asks = f"a row for each {on}, not a column{'' if keys else ', of all rows'}"
    fix = Fix(meant, 0, len(source.text), asks=asks)
    return source.refuse("PIVOT is not supported over private data", token.start, meant, fix)


_FORMS = "statements are SELECT, EXPLAIN, SHOW, DESCRIBE, REFINE RELEASE and SET dp_..."
_ASKING = frozenset(("HOW", "WHAT", "WHICH", "WHO", "WHERE", "GIVE", "LIST", "FIND", "COUNT", "CALCULATE"))
"""The first words of questions in English."""
_NEEDLESS = dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "END"), "leave it out: nothing is changed")
_NEEDLESS |= dict.fromkeys(("PROC", "QUIT", "EXIT", "RUN"), "leave it out: a statement is run as it is")
_NEEDLESS |= {"DECLARE": "leave it out, and write the value where its name stands"}
_NEEDLESS |= {"USE": "leave it out: a policy is one database, and SHOW TABLES lists its tables"}
"""Commands that a statement does not need."""
_COMMANDS = frozenset(
    """
    ALTER ANALYZE ATTACH CALL COPY CREATE DECLARE DELETE DETACH DROP EXEC EXECUTE EXPORT GRANT IMPORT INSERT
    INSTALL KILL LOAD LOCK MERGE PRAGMA REPLACE REVOKE SAVEPOINT SUMMARIZE TABLE TRUNCATE UNLOAD UPDATE
    UPSERT VACUUM
    """.split()  # noqa: SIM905  a table of words
) | frozenset(_NEEDLESS)
"""The first words of statements of SQL that change something, or set something up."""


def refuse_several(source: StatementText, at: int) -> Exception:
    """Return the refusal of several statements in one text; the first one can be asked."""
    meant = read_other_text(source.text)
    if meant is not None:
        return source.refuse(AROUND, 0, BARE, meant)
    opened = source.text[:at].count("(") - source.text[:at].count(")")
    if opened > 0:
        return source.syntax("found `;` inside of parentheses", at, "`,`", Fix(",", at, at + 1))
    behind = re.match(r"\W*(\w+)", source.text[at:])
    if behind is None or behind[1].upper() not in _STATEMENTS or behind[1].upper() == "FROM":
        return source.syntax("one statement at a time: found `;` inside", at)
    fix = Fix("", at, len(source.text), asks="the first statement alone; ask the others after it")
    return source.syntax("one statement at a time: found `;` inside", at, "ask one after the other", fix)


def parse_show(source: StatementText, tokens: list[Token]) -> Show:
    """Return a SHOW; raise `QuerySyntaxError` with what it may mean for another one."""
    words = [token.text.upper() for token in tokens[1:]]
    what = _SHOWN.get(" ".join(words))
    if what is not None:
        return Show(source, what)
    if words[:2] == ["PRIVACY", "BUDGET"] and words[2:] in (["BY", "PARTS"], ["BY", "PARTS", "ALL"]):
        return Show(source, "parts", every=words[-1] == "ALL")
    if words[:1] == ["RELEASE"] and len(words) == 2 and re.fullmatch("[0-9]{1,9}", words[1]):
        return Show(source, "release", int(words[1]))
    if words[:1] == ["STREAM"] and len(words) == 2 and tokens[2].token_type != TokenType.STRING:
        return Show(source, "stream", name=tokens[2].text.lower())
    at = tokens[1].start if len(tokens) > 1 else tokens[0].start
    meant = _guess_show(words)
    if meant:
        fix = Fix(meant, tokens[0].start, tokens[-1].end + 1)
        raise source.syntax("SHOW does not support this", at, f"did you mean {meant}?", fix)
    forms = "SHOW PRIVACY BUDGET (BY PARTS), SHOW TABLES, SHOW RELEASES, SHOW RELEASE 1, SHOW STREAMS, SHOW "
    raise source.syntax("SHOW does not support this", at, f"{forms}STREAM daily or SHOW REPORTS")


def _guess_show(words: list[str]) -> str:
    """Return the statement that a SHOW which is none may mean; "" if none is like it.

    >>> [_guess_show(words.split()) for words in ("REMAINING BUDGET", "COLUMNS FROM visits", "TABELS", "x")]
    ['SHOW PRIVACY BUDGET', 'DESCRIBE visits', 'SHOW TABLES', '']
    """
    if len(words) > 1 and words[0] in ("COLUMNS", "COLUMN", "FIELDS", "CREATE"):
        return f"DESCRIBE {words[-1].lower()}" if words[-1].isidentifier() else ""
    named = next((_SHOW_WORDS[word] for word in words if word in _SHOW_WORDS), "")
    close = difflib.get_close_matches(" ".join(words), _SHOWN, 1, 0.7)
    found = named or (close[0] if close else "")
    return f"SHOW {found}" if found else ""


def parse_describe(source: StatementText, tokens: list[Token]) -> Describe:
    """Return a DESCRIBE of one table; raise `QuerySyntaxError` for other forms."""
    if len(tokens) != 2 or tokens[1].token_type == TokenType.STRING:
        at, table = tokens[min(1, len(tokens) - 1)].start, tokens[-1].text
        words = [token.text.upper() for token in tokens]
        table = tokens[words.index("FROM", 0, -1) + 1].text if "FROM" in words[:-1] else table
        table = tokens[1].text if words[2:3] == ["."] and len(words) == 4 else table
        if len(tokens) == 1 or not table.isidentifier():
            raise source.syntax("DESCRIBE takes one table", at, "SHOW TABLES lists them")
        fix = Fix(f"DESCRIBE {table}", tokens[0].start, tokens[-1].end + 1)
        hint = f"DESCRIBE {table}" if words[1] != table.upper() else f"leave out what follows {table}"
        raise source.syntax("DESCRIBE takes one table", at, hint, fix)
    return Describe(source, tokens[1].text, tokens[1].start)


def parse_set(source: StatementText, tokens: list[Token], parameters: Parameters) -> Set:
    """Return a SET of one of dpsql's settings; raise an error with the nearest one for others."""
    bound, _ = params.bind_parameters(source, tokens, parameters)
    name = bound[1].text.lower() if len(bound) > 1 else ""
    if [token.text.lower() for token in bound[1:3]] == ["dp", "."] and len(bound) > 3:
        meant = f"dp_{bound[3].text.lower()}"
        joined = Fix(meant, bound[1].start, bound[3].end + 1)
        raise source.refuse("there is no setting dp", bound[1].start, f"did you mean {meant}?", joined)
    if name not in SETTINGS:
        at = bound[1].start if len(bound) > 1 else bound[0].start
        said = f"there is no setting {name[:40] or '(missing)'}"
        close = difflib.get_close_matches(
            f"dp_{name.removeprefix('dp_').removeprefix('default_')}", SETTINGS, 1, 0.7
        )
        if close and name:
            named = Fix(close[0], bound[1].start, bound[1].end + 1)
            raise source.refuse(said, at, f"did you mean {close[0]}?", named)
        raise source.refuse(said, at, "settings are " + ", ".join(SETTINGS))
    if len(bound) < 4 or bound[2].token_type != TokenType.EQ:
        fix = None
        if len(bound) > 2:
            written = source.text[bound[-1].start : bound[-1].end + 1]
            fix = Fix(f"SET {name} = {written}", bound[0].start, bound[-1].end + 1)
        raise source.syntax("SET needs a value", bound[1].start, f"write SET {name} = ...", fix)
    return Set(source, name.removeprefix("dp_"), read_value(source, name.removeprefix("dp_"), bound[3:]))


def parse_refine(source: StatementText, tokens: list[Token]) -> Refine:
    """Return a REFINE of one release to an epsilon; raise `QuerySyntaxError` for other forms."""
    words = [token.text.upper() for token in tokens]
    named = words[1:2] + words[3:4] == ["RELEASE", "TO"] and tokens[2].token_type == TokenType.NUMBER
    if not named or len(tokens) < 5 or not re.fullmatch("[0-9]{1,9}", words[2]):
        numbers = [token.text for token in tokens if token.token_type == TokenType.NUMBER]
        meant, fix = "REFINE RELEASE 1 TO 0.5", None
        if len(numbers) == 2 and numbers[0].isdigit():
            meant = f"REFINE RELEASE {numbers[0]} TO {numbers[1]}"
            fix = Fix(meant, tokens[0].start, tokens[-1].end + 1)
        raise source.syntax(
            "REFINE takes the number of a release and an epsilon",
            tokens[min(1, len(tokens) - 1)].start,
            f"{meant}; SHOW RELEASES lists the numbers",
            fix,
        )
    epsilon = read_value(source, "epsilon", tokens[4:])
    return Refine(source, int(words[2]), epsilon, tokens[2].start, tokens[4].start)  # type: ignore[arg-type]  # as read


_PROMPT = (
    r"(?:[\w.@:/~() \[\]-]{0,40}?[\w)\]*'\"(!-][=#$]?[>#$%](?=\s)|[>$%](?=\s)|In \[\d*\]:|\.\.\.:?|-+>|\d+:)"
)
_PROMPTS = lazy_pattern(rf"(?m)^[ \t]*(?:{_PROMPT}[ \t]+|>>>[ \t]*)+")
"""What clients write before what is typed, at the beginning of a line."""
_STATEMENT = r"(?:SELECT|WITH|EXPLAIN|SHOW|DESCRIBE|FROM)\b"
_BEFORE = lazy_pattern(
    rf"""(?xis)\A(?:\s|[`'"(]
    | ```\w*[^\S\n]* | %%?\w+(?:[^\S\n]+(?!{_STATEMENT})\S+)*
    | (?:\#|//|--)[^\n]*(?=\n)
    | (?:\d+[.)]|[*•-])(?=\s)
    | [A-Za-z][\w ]{0, 30}:+ | (?:sql|query|q)\s*=
    | (?!(?:INSERT|CREATE|UPDATE|DELETE|MERGE|COPY|EXPORT|UNLOAD|REPLACE|SELECT|WITH)\b)
      [A-Z][^;()=\n]*[:.,!?]?(?=\n)
    | (?:PROC\s+SQL)\b[^;]*; | LOCK(?:ING)?\s[\w. ]+?\sFOR\s+ACCESS\b
    | (?:USE|BEGIN|START\s+TRANSACTION|GO|SET\s+(?:NOCOUNT|ANSI_NULLS)\s+\w+)\b
      [^\S\n;]*[\w.`"\[\]]*\s*(?:;|\n)
    )+(?={_STATEMENT})"""
)
_BEHIND = lazy_pattern(
    r"""(?xis)(?:\s|```|;|\\[gGxX]\b|(?<=\s)(?:GO\b|QUIT;|RUN;)|^/\s*$|^(?:COMMIT|END)\s*;
    | ^\(?\d+\s+rows?\b[^\n]*)+\Z""",
    re.MULTILINE,
)
_QUOTED = lazy_pattern(
    rf"""(?isx)\s*(?:[\w.]+\s*=\s*)?(?:[\w.]+\(\s*|(?:[\w./$-]+\s+)+(?:--?\w+[=\s]\s*)?)
    [rfbn]?(\"\"\"|\'\'\'|["'])\s*({_STATEMENT}.*?)\s*;?\s*\1"""
)
"""A statement in quotes, as an argument of a call or of a command of a shell."""
_NAMED = (
    r"(?:DECLARE|SET|DEFINE|LET|\\set)\s+(@?\w+)(?:\s+[A-Z]\w*(?:\s*\([^()]*\))?)?\s*(?::?=|\bDEFAULT\b)?"
)
_EARLY = lazy_pattern(r"(?i)\s*(?:WITH\s+)?(EPSILON|DELTA)\s*=?\s*([\d.]+(?:e-\d+)?)\s*[;,]?\s*(?=SELECT\s)")
"""An amount of privacy before a SELECT."""
_VARIABLE = lazy_pattern(rf"(?i){_NAMED}\s*('[^']*'|[^\s;']+)\s*(?:;|\n)")
_VARIABLES = lazy_pattern(rf"(?i)\s*(?:{_NAMED}\s*(?:'[^']*'|[^\s;']+)\s*(?:;|\n)\s*)+")
"""Variables that a script sets, each to a constant, before its statement."""
_PSQL = {
    r"\\dt?\+?|\.tables|\\l|ls|dir|LIST\s+TABLES|HELP": "SHOW TABLES",
    r"(?:\\d\+?|\.schema|(?:EXEC(?:UTE)?\s+)?sp_(?:help|columns))\s+'?(?:\w+\.)?(\w+)'?": r"DESCRIBE \1",
    r"PRAGMA\s+table_info\s*\(\s*'?(\w+)'?\s*\)": r"DESCRIBE \1",
    r"PRAGMA\s+show_tables": "SHOW TABLES",
    r"(?:BUDGET|\\budget|privacy\s+budget)": "SHOW PRIVACY BUDGET",
}
"""Commands of other clients, and the statements that show the same."""


def _put_value(text: str, variable: str, value: str) -> str:
    """Return a text with a value in the place of a variable, but within texts.

    >>> _put_value("SELECT town FROM t WHERE town = 'on n' LIMIT n", "n", "5")
    "SELECT town FROM t WHERE town = 'on n' LIMIT 5"
    """
    named = rf"(?i)'[^']*'|(?<!\w){re.escape(variable)}\b"
    return re.sub(named, lambda found: found[0] if found[0][0] == "'" else value, text)


def unwrap(text: str) -> str | None:
    r"""Return the statement of a text without prompts, fences and commands around it; None if none are there.

    >>> unwrap("clinic=# SELECT COUNT(*)\nclinic-# FROM visits;")
    'SELECT COUNT(*)\nFROM visits'
    >>> unwrap("```sql\nSELECT COUNT(*) FROM visits\n```"), unwrap("SELECT COUNT(*) FROM visits\nGO")
    ('SELECT COUNT(*) FROM visits', 'SELECT COUNT(*) FROM visits')
    >>> unwrap("SELECT COUNT(*) FROM visits"), unwrap("DELETE FROM visits")
    (None, None)
    """
    for meant, written in _PSQL.items():
        match = re.fullmatch(rf"(?i)\s*(?:{meant})\s*;?\s*", text)
        if match is not None:
            return match.expand(written)
    if re.search(r"&(?:gt|lt|amp|quot|apos|nbsp|#39);", text):
        plain = html.unescape(text)
        return unwrap(plain) or plain
    if re.match(r"(?is)\s*[A-Za-z_]\w*\s+AS\s*\(\s*SELECT\b.*\)\s*SELECT\b", text):
        return f"WITH {text.strip().rstrip(';')}"
    early = _EARLY.match(text)
    if early is not None:
        clause = f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({early[1].lower()} = {early[2]}) "
        rest = text[early.end() :]
        return rest[: len("SELECT ")] + clause + rest[len("SELECT ") :]
    bound = _VARIABLES.match(text)
    if bound is not None and re.match(rf"(?i){_STATEMENT}", text[bound.end() :]):
        rest = text[bound.end() :]
        for each in _VARIABLE.finditer(bound[0]):
            if each[1].lower() in ("epsilon", "delta") and not re.search(r"(?i)DIFFERENTIAL_PRIVACY", rest):
                said = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({each[1].lower()} = {each[2]})"
                rest = re.sub(r"(?i)\bSELECT\b", said, rest, count=1)
                continue
            rest = _put_value(rest, each[1], each[2])
        return rest.strip().rstrip(";")
    quoted = _QUOTED.match(text)
    if quoted is not None:
        return quoted[2].strip()
    bare = _PROMPTS.sub("", text)
    bare = re.sub(r"(?m)^\s*\d+\s+(?=\S)", "", bare) if re.match(r"\s*SQL>", text) else bare
    opening = _BEFORE.match(bare)
    if opening is not None:
        bare = bare[opening.end() :]
        around = re.search(r"[\"'`](?=[\"'`(\s]*\Z)", opening[0])
        bare = re.sub(rf"{around[0]}\s*;?\s*\Z", "", bare) if around is not None else bare
    bare = _BEHIND.sub("", bare)
    if opening is not None and opening[0].count("(") > bare.count(")") - bare.count("("):
        opened = bare.count(")") - bare.count("(")
        bare = bare.rstrip()[: -opened or None] if opened > 0 and bare.endswith(")" * opened) else bare
    begins = re.match(rf"(?i){_STATEMENT}", bare)
    return bare if begins is not None and bare.strip() != text.strip().rstrip(";").strip() else None
