"""What is asked at each door for the recording: fixed, in this order, on one connection each."""

from __future__ import annotations

from typing import Any

from tests.serve import frontend as f

PRICED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) "
BY_PAGE = PRICED + "page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
TOP = PRICED + "hour, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY hour ORDER BY n DESC LIMIT 3"
MEASURES = PRICED + "COUNT(*) AS n, SUM(spent) AS s, AVG(spent) AS a, MEDIAN(spent) AS m FROM visits"
UNPRICED = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
KINDS = "SELECT * FROM kinds ORDER BY i"
BY_PARAMETER = PRICED + "COUNT(*) AS n FROM visits WHERE page = $1 AND hour >= $2"

SIMPLE = (
    "",
    ";",
    "SELECT 1 AS one, NULL AS none, 'x' AS text; SELECT 2",
    KINDS,
    "SELECT COUNT(*) FROM kinds",
    "SELECT i FROM kinds WHERE i > 3",
    UNPRICED,
    BY_PAGE,
    BY_PAGE,
    TOP,
    MEASURES,
    "EXPLAIN " + TOP,
    PRICED + "page, COUNT(*) AS n, AVG(spent) AS a FROM visits GROUP BY page HAVING COUNT(*) > 10",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) COUNT(*) AS n FROM visits",
    "SELECT user_id FROM visits",
    "SELECT * FROM visits",
    "SELECT nothing FROM kinds",
    "SELECT 'ü' FROM nowhere",
    "SELEC 1",
    "SELECT 1; SELECT nothing FROM kinds; SELECT 2",
    "INSERT INTO kinds VALUES (1)",
    "SELECT i / 0 FROM kinds",
    "SHOW TABLES",
    "SHOW PRIVACY BUDGET",
    "SHOW RELEASES",
    "SHOW RELEASE 1",
    "SHOW RELEASE 99",
    "SHOW server_version",
    "SHOW dp_epsilon",
    "SET dp_epsilon = 0.5",
    UNPRICED,
    "RESET dp_epsilon",
    "SET dp_epsilon = 'much'",
    "SET nothing = 1",
    "SHOW nothing",
    "SET dp_columns = 'interval'",
    BY_PAGE,
    TOP,
    "RESET dp_columns",
    "SET application_name = 'golden'; SET TimeZone = 'Europe/Berlin'; SHOW TimeZone; RESET ALL",
    "SET extra_float_digits = -3",
    "SELECT x, y FROM kinds ORDER BY i",
    "RESET ALL",
    "BEGIN",
    BY_PAGE,
    "SELECT nothing FROM kinds",
    "SELECT 1",
    "ROLLBACK",
    "COMMIT",
    "BEGIN; DECLARE c CURSOR FOR " + KINDS,
    "FETCH 2 FROM c; FETCH ALL FROM c; CLOSE c; COMMIT",
    "PREPARE p AS SELECT 1",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "LISTEN x",
    f"COPY ({KINDS}) TO STDOUT",
    f"COPY ({KINDS}) TO STDOUT (FORMAT csv, HEADER)",
    f"COPY ({KINDS}) TO STDOUT (FORMAT binary)",
    f"COPY ({KINDS}) TO STDOUT (FORMAT arrow)",
    f"COPY ({BY_PAGE}) TO STDOUT",
    f"COPY ({BY_PAGE}) TO STDOUT (FORMAT arrow)",
    f"COPY ({BY_PAGE}) TO STDOUT (FORMAT arrow, RELEASE)",
    "COPY kinds TO STDOUT",
    "COPY kinds FROM STDIN",
    "COPY (SELECT 1) TO STDOUT (FORMAT xml)",
)
WHOLE = (f.describe(b"P"), f.execute(), f.SYNC)
EXTENDED: dict[str, tuple[bytes, ...]] = {
    "describe a public statement": (f.parse(KINDS), f.describe(b"S"), f.SYNC),
    "public, text": (f.parse(KINDS), f.bind(), *WHOLE),
    "public, binary": (f.parse(KINDS), f.bind(columns=(1,)), *WHOLE),
    "public, mixed formats": (f.parse("SELECT i, s FROM kinds ORDER BY i"), f.bind(columns=(1, 0)), *WHOLE),
    "wrong number of formats": (f.parse("SELECT i FROM kinds"), f.bind(columns=(1, 0)), *WHOLE),
    "describe a private statement": (f.parse(BY_PARAMETER), f.describe(b"S"), f.SYNC),
    "private, with values": (f.parse(BY_PARAMETER, "s"), f.bind((b"home", b"7"), statement="s"), *WHOLE),
    "private again, in binary": (
        f.bind((b"home", bytes(7) + b"\7"), statement="s", codes=(0, 1), columns=(1,)),
        *WHOLE,
    ),
    "a value that is none": (f.bind((b"home", b"seven"), statement="s"), *WHOLE),
    "too few values": (f.bind((b"home",), statement="s"), *WHOLE),
    "close the statement": (f.close(b"S", "s"), f.bind(statement="s"), f.SYNC),
    "a declared type": (f.parse("SELECT $1 AS v", oids=(701,)), f.bind((b"0.5",)), *WHOLE),
    "a portal in parts": (
        f.parse(KINDS),
        f.bind(portal="c"),
        f.execute("c", 2),
        f.execute("c", 2),
        f.execute("c", 2),
        f.SYNC,
    ),
    "private without a price": (f.parse(UNPRICED), f.describe(b"S"), f.bind(), f.execute(), f.SYNC),
    "an error, and what follows is skipped": (
        f.parse("SELECT nothing FROM kinds"),
        f.bind(),
        f.execute(),
        f.SYNC,
        f.parse("SELECT 1 AS one"),
        f.bind(),
        *WHOLE,
    ),
    "several in one": (f.parse("SELECT 1; SELECT 2"), f.SYNC),
    "an empty one": (f.parse(""), f.describe(b"S"), f.bind(), *WHOLE),
    "a command": (f.parse("SET dp_epsilon = 0.25"), f.describe(b"S"), f.bind(), *WHOLE),
    "a copy": (f.parse("COPY (SELECT 1 AS one) TO STDOUT"), f.describe(b"S"), f.bind(), f.execute(), f.SYNC),
    "a portal that is unknown": (f.describe(b"P", "none"), f.SYNC),
    "a message that is unknown to a query": (f.message(b"F", b""), f.SYNC),
}
POSTGRES: dict[str, tuple[bytes, ...]] = {
    **{f"{place}: {text}": (f.query(text),) for place, text in enumerate(SIMPLE)},
    **EXTENDED,
}
"""Messages by name; each ends with one that makes the server ready."""

LOGINS = {
    "plain": f.startup({"user": "alice", "database": "shop", "application_name": "golden"}),
    "settings": f.startup({"user": "alice", "options": "-c dp_epsilon=0.5", "client_encoding": "UTF8"}),
    "newer version, unknown option": f.startup({"user": "alice", "_pq_.other": "1"}, (3 << 16) + 9),
    "another database": f.startup({"user": "alice", "database": "bank"}),
    "nobody": f.startup({"user": "eve"}),
    "an unknown setting": f.startup({"user": "alice", "options": "-c nothing=1"}),
    "no user": f.startup({"database": "shop"}),
}

Request = tuple[str, str, Any, dict[str, str | None]]


def _explain(sql: str) -> Request:
    return ("POST", "/v1/explain", {"sql": sql}, {})


def _query(sql: str, **more: object) -> Request:
    return ("POST", "/v1/query", {"sql": sql, **more}, {})


def _get(path: str, **headers: str | None) -> Request:
    return ("GET", path, None, headers)


HTTP: dict[str, Request] = {
    "nobody": _get("/v1/budget", authorization=None),
    "a wrong token": _get("/v1/budget", authorization="Bearer no"),
    "who": _get("/v1/session"),
    "tables": _get("/v1/tables"),
    "language": _get("/v1/language"),
    "budget": _get("/v1/budget"),
    "explain by page": _explain(BY_PAGE),
    "ask without a confirmation": _query(BY_PAGE),
    "ask by page": _query(BY_PAGE, confirm=...),
    "explain by page again": _explain(BY_PAGE),
    "ask by page again": _query(BY_PAGE),
    "explain top": _explain(TOP),
    "ask top": _query(TOP, confirm=...),
    "explain measures": _explain(MEASURES),
    "ask measures": _query(MEASURES, confirm=...),
    "explain without a price": _explain(UNPRICED),
    "public": _query(KINDS),
    "a command": _query("SHOW PRIVACY BUDGET"),
    "explain a command": _explain("SHOW RELEASES"),
    "refused": _explain("SELECT user_id, COUNT(*) FROM visits GROUP BY user_id"),
    "refused when asked": _query("SELECT MAX(spent), page FROM visits"),
    "no such table": _explain("SELECT COUNT(*) FROM nowhere"),
    "no SQL": _explain("SELEC 1"),
    "no text": ("POST", "/v1/explain", {"sql": 7}, {}),
    "no JSON": ("POST", "/v1/explain", None, {}),
    "another type": ("POST", "/v1/explain", {"sql": "SELECT 1"}, {"content-type": "text/plain"}),
    "another origin": _get("/v1/budget", origin="http://elsewhere.example"),
    "another host": _get("/v1/budget", host="elsewhere.example"),
    "releases": _get("/v1/releases"),
    "release": _get("/v1/releases/1"),
    "release, from a row": _get("/v1/releases/1?first_row=1"),
    "release, from no row": _get("/v1/releases/1?first_row=x"),
    "no such release": _get("/v1/releases/99"),
    "rows.csv": _get("/v1/releases/1/rows.csv"),
    "rows.parquet": _get("/v1/releases/1/rows.parquet"),
    "chart.svg": _get("/v1/releases/1/chart.svg"),
    "cancel": ("POST", "/v1/cancel", {}, {}),
    "no such path": _get("/v1/nothing"),
    "no such method": ("PUT", "/v1/budget", {}, {}),
}

MCP: dict[str, tuple[str, dict[str, Any]]] = {
    "tables()": ("tables", {}),
    "budget()": ("budget", {}),
    "explain by page": ("explain", {"sql": BY_PAGE}),
    "ask without a confirmation": ("ask", {"sql": BY_PAGE}),
    "ask by page": ("ask", {"sql": BY_PAGE, "confirm": ...}),
    "ask by page again": ("ask", {"sql": BY_PAGE}),
    "explain top": ("explain", {"sql": TOP}),
    "ask top": ("ask", {"sql": TOP, "confirm": ...}),
    "public": ("ask", {"sql": KINDS}),
    "refused": ("explain", {"sql": "SELECT user_id, COUNT(*) FROM visits GROUP BY user_id"}),
    "no such table": ("ask", {"sql": "SELECT COUNT(*) FROM nowhere"}),
    "releases()": ("releases", {}),
    "release(1)": ("release", {"number": 1}),
    "release(99)": ("release", {"number": 99}),
    "budget() after": ("budget", {}),
}
