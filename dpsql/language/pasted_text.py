"""Find the statement in a text that was copied with what stood around it, and commands of other clients."""

from __future__ import annotations

import html
import re

from dpsql.lazy_pattern import lazy_pattern

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
    | (?:PROC\s+SQL)\b[^;]*;
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
_VARIABLE = lazy_pattern(rf"(?i){_NAMED}\s*('[^']*'|[^\s;']+)\s*(?:;|\n)")
_VARIABLES = lazy_pattern(rf"(?i)\s*(?:{_NAMED}\s*(?:'[^']*'|[^\s;']+)\s*(?:;|\n)\s*)+")
"""Variables that a script sets, each to a constant, before its statement."""
_COMMANDS = {
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
    for meant, written in _COMMANDS.items():
        match = re.fullmatch(rf"(?i)\s*(?:{meant})\s*;?\s*", text)
        if match is not None:
            return match.expand(written)
    if re.search(r"&(?:gt|lt|amp|quot|apos|nbsp|#39);", text):
        plain = html.unescape(text)
        return unwrap(plain) or plain
    if re.match(r"(?is)\s*[A-Za-z_]\w*\s+AS\s*\(\s*SELECT\b.*\)\s*SELECT\b", text):
        return f"WITH {text.strip().rstrip(';')}"
    bound = _VARIABLES.match(text)
    if bound is not None and re.match(rf"(?i){_STATEMENT}", text[bound.end() :]):
        rest = text[bound.end() :]
        for each in _VARIABLE.finditer(bound[0]):
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
