"""Parse the statements of reports: CREATE, EXPLAIN, EXECUTE and DROP REPORT."""

from __future__ import annotations

import re
from dataclasses import replace

from dpsql.kernel.loss import exact
from dpsql.language.statement import ReportCommand, StatementText

_NAME = r"(?P<name>[A-Za-z_]\w*)"
_COMMENTS = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)"
_WORD = re.compile(
    rf"{_COMMENTS}*(?P<word>CREATE|EXPLAIN|EXECUTE|DROP)\s+REPORT\b", re.IGNORECASE | re.DOTALL
)
_CREATE = re.compile(
    rf"\s+{_NAME}\s*(?:OPTIONS\s*\(\s*(?P<options>[^()]*?)\s*\)\s*)?AS\b(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"\s*(\w+)\s*=\s*(\S+)\s*")
_RUN = re.compile(
    rf"\s+{_NAME}\s*(?:\(\s*(?:DATE\s*)?'(?P<part>[^']*)'\s*\)\s*)?"
    r"(?:OPTIONS\s*\(\s*at_release\s*=\s*(?P<release>[0-9]{1,15})\s*\)\s*)?"
    rf"(?:STATEMENT\s+(?P<statement>[0-9]{{1,4}})\s*)?"
    rf";?{_COMMENTS}*",
    re.IGNORECASE | re.DOTALL,
)
_DOLLARS = re.compile(r"\s*(\$\w*\$)(?P<text>.*)\1\s*;?\s*", re.DOTALL)
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
