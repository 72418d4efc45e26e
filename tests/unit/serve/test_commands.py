"""Commands of a session are recognised by their tokens; everything else goes to dpsql's language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.language.command_statements import _SHOWN
from dpsql.serve.wire import command_words as c
from dpsql.serve.wire import commands
from dpsql.serve.wire.command_words import CopyOptions
from dpsql.serve.wire.commands import may_be_command, read_command
from dpsql.serve.wire.results import SentStatement, split_plain, split_statements

CASES: dict[str, c.Command] = {
    "BEGIN": c.Transaction("BEGIN"),
    "begin transaction": c.Transaction("BEGIN"),
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE": c.Transaction("BEGIN"),
    "BEGIN READ ONLY": c.Transaction("BEGIN"),
    "/* a */ BEGIN -- b": c.Transaction("BEGIN"),
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, NOT DEFERRABLE": c.Transaction("START TRANSACTION"),
    "COMMIT": c.Transaction("COMMIT"),
    "COMMIT WORK AND CHAIN": c.Transaction("COMMIT", chain=True),
    "END TRANSACTION": c.Transaction("COMMIT"),
    "ROLLBACK": c.Transaction("ROLLBACK"),
    "ABORT": c.Transaction("ROLLBACK"),
    "ROLLBACK AND NO CHAIN": c.Transaction("ROLLBACK"),
    "ROLLBACK TO s": c.Transaction("ROLLBACK TO", "s"),
    'ROLLBACK WORK TO SAVEPOINT "S 1"': c.Transaction("ROLLBACK TO", "S 1"),
    'SAVEPOINT "_pg3_1"': c.Transaction("SAVEPOINT", "_pg3_1"),
    'RELEASE "_pg3_1"': c.Transaction("RELEASE", "_pg3_1"),
    "release savepoint SP": c.Transaction("RELEASE", "sp"),
    "SET TRANSACTION READ ONLY": c.NoOperation("SET"),
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED": c.NoOperation("SET"),
    "SET extra_float_digits = 3": c.SetSetting("extra_float_digits", "3"),
    "SET extra_float_digits TO -3": c.SetSetting("extra_float_digits", "-3"),
    "SET SESSION DateStyle = ISO, MDY": c.SetSetting("datestyle", "iso, mdy"),
    "SET LOCAL statement_timeout = '5s'": c.SetSetting("statement_timeout", "5s", local=True),
    "SET application_name = 'JDBC Driver'": c.SetSetting("application_name", "JDBC Driver"),
    'SET application_name = "Some Tool"': c.SetSetting("application_name", "Some Tool"),
    "SET application_name = E'it\\'s'": c.SetSetting("application_name", "it's"),
    'set search_path = "public"': c.SetSetting("search_path", "public"),
    'SET search_path TO "$user", Public, "A b"': c.SetSetting("search_path", '"$user", public, "A b"'),
    "SET jit = off": c.SetSetting("jit", "off"),
    "SET x.y = DEFAULT": c.SetSetting("x.y", None),
    "SET session = 1": c.SetSetting("session", "1"),
    "SET dp_epsilon = 0.5": c.SetSetting("dp_epsilon", "0.5"),
    "SET dp_epsilon = .5": c.SetSetting("dp_epsilon", "0.5"),
    "SET dp_columns = ''": c.SetSetting("dp_columns", ""),
    'set time zone "Asia/Shanghai"': c.SetSetting("TimeZone", "Asia/Shanghai"),
    "SET TIME ZONE 'UTC'": c.SetSetting("TimeZone", "UTC"),
    "SET TIME ZONE -5": c.SetSetting("TimeZone", "-5"),
    "SET TIME ZONE LOCAL": c.SetSetting("TimeZone", None),
    "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE": c.SetSetting("TimeZone", "+02:00"),
    "SET NAMES 'UTF8'": c.SetSetting("client_encoding", "UTF8"),
    "SET SCHEMA 'public'": c.SetSetting("search_path", "public"),
    "SET CONSTRAINTS ALL DEFERRED": c.NoOperation("SET CONSTRAINTS"),
    "SET ROLE NONE": c.NoOperation("SET"),
    "SET SESSION AUTHORIZATION DEFAULT": c.NoOperation("SET"),
    "show standard_conforming_strings": c.ShowSetting("standard_conforming_strings"),
    "show transaction isolation level": c.ShowSetting("transaction_isolation"),
    "show time zone": c.ShowSetting("TimeZone"),
    "SHOW TimeZone;": c.ShowSetting("timezone"),
    "SHOW ALL": c.ShowSetting(None),
    "RESET ALL": c.ResetSetting(None),
    "RESET dp_epsilon": c.ResetSetting("dp_epsilon"),
    "RESET TIME ZONE": c.ResetSetting("TimeZone"),
    "RESET ROLE": c.NoOperation("RESET"),
    "DISCARD ALL": c.Discard("ALL"),
    "DISCARD TEMPORARY": c.Discard("TEMP"),
    'DEALLOCATE "_PLAN0x5568c053ca40"': c.Deallocate("_PLAN0x5568c053ca40"),
    "DEALLOCATE PREPARE ALL": c.Deallocate(None),
    "LISTEN changes": c.NoOperation("LISTEN"),
    "UNLISTEN *": c.NoOperation("UNLISTEN"),
    "FETCH c": c.Fetch("c"),
    "FETCH NEXT FROM c": c.Fetch("c"),
    "FETCH next": c.Fetch("next"),
    'FETCH FORWARD 100 FROM "my c"': c.Fetch("my c", 100),
    "FETCH FORWARD c": c.Fetch("c"),
    "FETCH 10 IN c": c.Fetch("c", 10),
    "FETCH ALL c": c.Fetch("c", None),
    "MOVE FORWARD ALL IN c": c.Fetch("c", None, move=True),
    "CLOSE ALL;": c.CloseCursor(None),
    "CLOSE c": c.CloseCursor("c"),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_commands(text: str) -> None:
    assert read_command(text) == CASES[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  -- nothing",
        "SELECT 1",
        "SELECT set_config('jit', 'off', false)",
        "WITH v AS (SELECT 1) SELECT * FROM v",
        "EXPLAIN SELECT 1",
        "DESCRIBE visits",
        "REFINE RELEASE 1 TO 0.5",
        "SHOW",
        "SHOW RELEASE 17",
        '"BEGIN"',
        "'BEGIN'",
        "SELECT 'not closed",
        "INSERT INTO t VALUES (1)",
        *(f"SHOW {what}" for what in _SHOWN),
    ],
)
def test_other_statements_are_no_commands(text: str) -> None:
    assert read_command(text) is None


TAGS = {
    "BEGIN": "BEGIN",
    "START TRANSACTION": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "SAVEPOINT s": "SAVEPOINT",
    "RELEASE s": "RELEASE",
    "ROLLBACK TO s": "ROLLBACK",
    "SET jit = off": "SET",
    "SET TRANSACTION READ ONLY": "SET",
    "SHOW jit": "SHOW",
    "SHOW ALL": "SHOW",
    "RESET ALL": "RESET",
    "DISCARD ALL": "DISCARD ALL",
    "DISCARD TEMP": "DISCARD TEMP",
    "DEALLOCATE ALL": "DEALLOCATE ALL",
    "DEALLOCATE p": "DEALLOCATE",
    "LISTEN x": "LISTEN",
    "DECLARE x CURSOR FOR SELECT 1": "DECLARE CURSOR",
    "CLOSE ALL": "CLOSE CURSOR ALL",
    "CLOSE x": "CLOSE CURSOR",
}


@pytest.mark.parametrize("text", TAGS)
def test_tags(text: str) -> None:
    found = read_command(text)
    assert not isinstance(found, c.Fetch | c.Copy | None)
    assert found.tag == TAGS[text]


def test_declare_keeps_the_place_of_its_query() -> None:
    text = (
        "DECLARE \"c 1\" BINARY INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR\n  SELECT ';', $1 -- x\n FROM t ;"
    )
    found = read_command(text)
    assert isinstance(found, c.Declare)
    assert (found.name, found.hold, found.binary) == ("c 1", True, True)
    assert found.query.startswith("SELECT ';', $1")
    assert text[found.at :].startswith(found.query.rstrip("; "))
    assert found.text == text
    plain = read_command("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1")
    assert plain == c.Declare("c", "SELECT 1", 34, "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1")


COPIES: dict[str, CopyOptions] = {
    "": CopyOptions(),
    "WITH (FORMAT csv, HEADER)": CopyOptions("csv", header=True, delimiter=",", null=""),
    "(FORMAT 'csv', HEADER false)": CopyOptions("csv", delimiter=",", null=""),
    "WITH CSV HEADER": CopyOptions("csv", header=True, delimiter=",", null=""),
    "CSV QUOTE AS ''''": CopyOptions("csv", delimiter=",", null="", quote="'", escape="'"),
    'WITH CSV FORCE QUOTE a, "B"': CopyOptions("csv", delimiter=",", null="", force_quote=("a", "B")),
    "WITH (FORMAT csv, FORCE_QUOTE *, ESCAPE '\\')":
        CopyOptions("csv", delimiter=",", null="", escape="\\", force_quote=None),
    "DELIMITER E'\\t' NULL AS 'none'": CopyOptions(null="none"),
    "WITH (DELIMITER '|', ENCODING 'utf-8')": CopyOptions(delimiter="|"),
    "WITH BINARY": CopyOptions("binary"),
    "BINARY": CopyOptions("binary"),
    '(FORMAT "binary")': CopyOptions("binary"),
    "WITH (FORMAT arrow)": CopyOptions("arrow"),
    "(FORMAT arrow, RELEASE)": CopyOptions("arrow", release=True),
    "(RELEASE off, FORMAT arrow)": CopyOptions("arrow"),
}  # fmt: skip


@pytest.mark.parametrize("options", COPIES)
def test_copy(options: str) -> None:
    text = f"COPY (SELECT ')', (1) FROM t) TO STDOUT {options};"
    assert read_command(text) == c.Copy("SELECT ')', (1) FROM t", 6, COPIES[options])


def test_copy_keeps_the_place_of_its_query() -> None:
    text = "copy (\n  SELECT 1\n) to stdout"
    found = read_command(text)
    assert isinstance(found, c.Copy)
    assert (found.query, text[found.at : found.at + 8]) == ("SELECT 1", "SELECT 1")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("BEGIN SLOWLY", "ISOLATION LEVEL", "SLOWLY"),
        ("BEGIN READ ONLY,", "mode", ""),
        ("START", "TRANSACTION", ""),
        ("COMMIT 1", "end of the statement", "1"),
        ("ROLLBACK TO", "savepoint", ""),
        ("SAVEPOINT 'x'", "savepoint", "'x'"),
        ("SAVEPOINT 1", "savepoint", "1"),
        ("SET", "the name of a setting", ""),
        ("SET jit", "expected = or TO", ""),
        ("SET jit =", "a value", ""),
        ("SET jit = off off", "end of the statement", "off #2"),
        ("SET jit = DEFAULT, 1", "end of the statement", ","),
        ("SET TIME ZONE", "time zone", ""),
        ("SHOW jit jit", "end of the statement", "jit #2"),
        ("RESET", "the name of a setting", ""),
        ("DISCARD x", "PLANS", "x"),
        ("DEALLOCATE", "prepared statement", ""),
        ("LISTEN", "channel", ""),
        ("UNLISTEN", "channel", ""),
        ("DECLARE c FOR SELECT 1", "CURSOR", "FOR"),
        ("DECLARE c CURSOR FOR", "SELECT", ""),
        ("DECLARE c CURSOR WITH HOLD SELECT 1", "FOR", "SELECT"),
        ("FETCH", "cursor", ""),
        ("FETCH 1.5 FROM c", "whole number", "1.5"),
        ("FETCH " + "9" * 5000, "whole number", "9"),
        ("FETCH 99999999999 FROM c", "whole number", "99999999999"),
        ("FETCH 1 FROM c c", "end of the statement", "c #2"),
        ("CLOSE", "cursor", ""),
        ("COPY (SELECT 1", "not closed", "("),
        ("COPY () TO STDOUT", "SELECT", "TO"),
        ("COPY (SELECT 1) STDOUT", "TO", "STDOUT"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT xml)", "format xml", "xml"),
        ("COPY (SELECT 1) TO STDOUT WITH (COLOUR 'red')", "no option colour", "COLOUR"),
        ("COPY (SELECT 1) TO STDOUT WITH (HEADER maybe)", "TRUE or FALSE", "maybe"),
        ("COPY (SELECT 1) TO STDOUT WITH (HEADER, HEADER)", "twice", "HEADER #2"),
        ("COPY (SELECT 1) TO STDOUT WITH (DELIMITER x)", "in quotes", "x"),
        ("COPY (SELECT 1) TO STDOUT FAST", "option of COPY", "FAST"),
    ],
)
def test_wrong_commands_show_the_place(text: str, message: str, place: str) -> None:
    with pytest.raises(QuerySyntaxError) as error:
        read_command(text)
    assert message in error.value.message
    word, _, number = place.partition(" #")
    at = -1
    for _ in range(int(number or 1)):
        at = text.index(word, at + 1) if word else len(text)
    assert error.value.col == at + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PREPARE p AS SELECT 1", "not prepared by SQL"),
        ("EXECUTE p(1)", "not prepared by SQL"),
        ("PREPARE TRANSACTION 'x'", "not prepared by SQL"),
        ("COMMIT PREPARED 'x'", "cannot be prepared"),
        ("ROLLBACK PREPARED 'x'", "cannot be prepared"),
        ("SET TRANSACTION SNAPSHOT 'x'", "snapshots"),
        ("SET ROLE bob", "cannot change its user"),
        ("SET SESSION AUTHORIZATION 'bob'", "cannot change its user"),
        ("SET LOCAL SESSION AUTHORIZATION bob", "cannot change its user"),
        ("COPY visits TO STDOUT", "takes a query"),
        ("COPY visits FROM STDIN", "are not named"),
        ("COPY (SELECT 1) FROM STDIN", "only reads"),
        ("COPY (SELECT 1) TO '/tmp/x'", "to the client only"),
        ("COPY (SELECT 1) TO PROGRAM 'rm'", "to the client only"),
        ("COPY (SELECT 1) TO STDOUT WITH (FREEZE)", "no option freeze"),
        ("COPY (SELECT 1) TO STDOUT WITH (ENCODING 'latin1')", "UTF8 only"),
        ("COPY (SELECT 1) TO STDOUT WITH (QUOTE '|')", "no option quote"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT binary, HEADER)", "no option header"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT arrow, NULL 'x')", "no option null"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, RELEASE)", "no option release"),
        ("COPY (SELECT 1) TO STDOUT WITH (DELIMITER 'ab')", "one ASCII character"),
        ("COPY (SELECT 1) TO STDOUT WITH (DELIMITER '')", "one ASCII character"),
        ("COPY (SELECT 1) TO STDOUT WITH (DELIMITER 'ü')", "one ASCII character"),
        ("COPY (SELECT 1) TO STDOUT WITH (DELIMITER 'a')", "told from an escape"),
        ("COPY (SELECT 1) TO STDOUT WITH (NULL E'a\\nb')", "line break"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, NULL 'a,b')", "in the text of NULL"),
        ("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, QUOTE ',')", "quote is the delimiter"),
    ],
)  # fmt: skip
def test_refused_commands(text: str, message: str) -> None:
    with pytest.raises(QueryRefused) as error:
        read_command(text)
    assert message in error.value.message


WORDS = st.sampled_from(
    [
        *commands._READERS,
        *(
            "TO",
            "SESSION",
            "LOCAL",
            "TIME",
            "ZONE",
            "FROM",
            "CURSOR",
            "FOR",
            "(",
            ")",
            ",",
            ";",
            "=",
            ".",
            "-",
        ),
        *(
            "1",
            "99",
            "'a'",
            '"b"',
            "ALL",
            "SELECT",
            "STDOUT",
            "WITH",
            "FORMAT",
            "csv",
            "HEADER",
            "x",
            "$1",
            "'",
        ),
        *('"', "/*", "--", "AS", "DELIMITER", "PREPARED", "TRANSACTION", "ABSOLUTE", "FORWARD", "CHAIN"),
    ]
)


@given(st.lists(WORDS, max_size=12))
def test_any_words_are_a_command_or_none_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    refused: QuerySyntaxError | QueryRefused | None = None
    found: c.Command | None = None
    try:
        found = read_command(text)
    except (QuerySyntaxError, QueryRefused) as error:
        refused = error
    if refused is not None:
        assert refused.col is not None
        assert 1 <= refused.col <= len(text) + 1
    if isinstance(found, c.Declare | c.Copy):
        assert text[found.at :].startswith(found.query)


def test_what_is_a_command_is_not_missed_by_its_first_word() -> None:
    for text in (*CASES, *(f"-- x\n{text}" for text in CASES)):
        assert may_be_command(text), text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "\n\tselect 'BEGIN'",
        "-- BEGIN\r\n  WITH x AS (SELECT 1) SELECT * FROM x",
        "(SELECT 1)",
        "EXPLAIN SELECT 1",
        "SELECTé 1",
        "begins",
    ],
)
def test_what_is_no_command_is_not_split_into_tokens(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_command(text) is None
    monkeypatch.setattr("dpsql.serve.wire.command_words._split_command", None)
    assert SentStatement(text).command is None


@given(st.lists(st.sampled_from([*"ab-/*; \n\"'$(é{#", "BEGIN", "SELECT", "SET"]), max_size=12).map("".join))
def test_the_first_word_agrees_with_the_tokens(text: str) -> None:
    try:
        found = read_command(text)
    except (QueryRefused, QuerySyntaxError):
        assert may_be_command(text)
        return
    assert found is None or may_be_command(text)


@given(st.lists(st.sampled_from(["SELECT 1", *"a-/*; \n\"'$({#}"]), max_size=12).map("".join))
def test_one_statement_is_found_without_looking_for_the_ends_of_others(text: str) -> None:
    found = split_plain(text)
    assert found is None or found == split_statements(text)
