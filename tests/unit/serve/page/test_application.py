"""JSON over HTTP: who may ask, what is charged, whose releases are opened, what a browser is told."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.render.svg_elements import ELEMENTS
from dpsql.serve import users
from dpsql.serve.gate import Login
from dpsql.serve.page import FILES, MOST, Logins
from dpsql.serve.page.answers import FORMS, answer_facts, hash_secret
from dpsql.serve.state import CLIENT
from dpsql.serve.users import User, Users
from dpsql.session_api import StatementResult
from tests.unit.serve.page.conftest import BY_PAGE, COUNT, HOSTILE, ORIGIN, PASSWORD, Site

ASKED = [
    ("GET", "/v1/session"),
    ("GET", "/v1/tables"),
    ("GET", "/v1/language"),
    ("GET", "/v1/budget"),
    ("POST", "/v1/explain"),
    ("POST", "/v1/query"),
    ("POST", "/v1/cancel"),
    ("GET", "/v1/releases"),
    ("GET", "/v1/releases/1"),
    *(("GET", f"/v1/releases/1/{form}") for form in FORMS),
]

# -- who asks


def test_a_login_is_a_cookie_that_no_script_reads_and_no_site_sends(site: Site) -> None:
    reply = site.sign_in()
    cookie = reply.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert "secure" not in cookie
    assert "domain" not in cookie
    assert site("GET", "/v1/session").facts == {"user": "alice", "analyst": "alice"}


def test_over_tls_the_cookie_is_secure_and_no_other_is_read(site: Site) -> None:
    given = {"name": "alice", "password": PASSWORD}
    reply = site("POST", "/v1/session", given, scheme="https")
    cookie, key = reply.headers["set-cookie"], reply.facts["key"]
    assert cookie.startswith("__Host-dpsql=")
    assert "; Secure" in cookie
    value = cookie.partition(";")[0].partition("=")[2]
    for name, status in (("__Host-dpsql", 200), ("dpsql", 401)):
        headers = {"cookie": f"{name}={value}", "x-dpsql": key}
        assert site("GET", "/v1/session", headers=headers, scheme="https").status == status


def test_a_cookie_without_its_key_is_nobody(site: Site) -> None:
    first = site.sign_in().facts["key"]
    site.sign_in()
    for key in (None, "", "1", first, site.headers["cookie"].partition("=")[2]):
        assert site("GET", "/v1/session", headers={"x-dpsql": key}).status == 401
        assert site("GET", "/v1/releases/1/rows.csv", headers={"x-dpsql": key}).status == 401
        assert site("DELETE", "/v1/session", headers={"x-dpsql": key}).status == 401
    assert site("GET", "/v1/session", headers={"cookie": None}).status == 401
    assert site("GET", "/v1/session").status == 200


def test_a_browser_that_signs_in_again_has_one_login(site: Site) -> None:
    site.sign_in()
    before = dict(site.headers)
    site.sign_in()
    assert site("GET", "/v1/session", headers=before).status == 401


@pytest.mark.parametrize(("method", "path"), ASKED)
def test_nobody_is_answered_without_a_login(site: Site, method: str, path: str) -> None:
    for headers in ({}, {"cookie": "dpsql=" + "A" * 43}, {"authorization": "Bearer dpsql_x"}):
        reply = site(method, path, {} if method == "POST" else None, headers)
        assert reply.status == 401
        assert "signed in" in reply.facts["refused"]


def test_a_wrong_password_and_an_unknown_name_look_alike(site: Site) -> None:
    replies = [site.sign_in("alice", "wrong"), site.sign_in("nobody", "wrong"), site.sign_in("", "")]
    assert {(each.status, each.body) for each in replies} == {(401, replies[0].body)}
    assert "set-cookie" not in replies[0].headers
    names = [fields.get("user") for event, fields in site.events if event == "handshake failed"]
    assert names == ["alice", None, None]  # what no user has as a name could be a password


def test_a_sign_in_is_delayed_after_failures(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("dpsql.serve.page.asyncio.sleep", sleep)
    for _ in range(7):
        site.sign_in("alice", "wrong")
    site.throttle.forget_failures("alice", "192.0.2.1")
    assert waited == [0, 0, 0, 0, 0, 1, 2]


def test_a_token_needs_no_mark(site: Site) -> None:
    headers = {"authorization": f"Bearer {site.token}", "x-dpsql": None}
    assert site("GET", "/v1/session", headers=headers).facts["user"] == "agent"
    assert site("POST", "/v1/explain", {"sql": COUNT}, headers).facts["epsilon"] == 0.75


def test_only_the_login_beyond_the_most_ends_another() -> None:
    """As many as a user may have stay; one more ends the one that was used least recently."""

    nobody: Any = None  # no password is looked at
    logins = Logins(nobody, lambda event, fields: None)
    alice = Login(User("alice", "alice"))
    made = [logins._new(alice) for _ in range(MOST)]
    other = logins._new(Login(User("bob", "bob")))
    assert len(logins._logins) == MOST + 1
    logins._new(alice)
    left = set(logins._logins)
    assert len(left) == MOST + 1
    assert {hash_secret(one.cookie) for one in (other, *made[1:])} < left


def test_signing_out_ends_the_login(site: Site) -> None:
    site.sign_in()
    assert site("DELETE", "/v1/session").status == 204
    assert site("GET", "/v1/session").status == 401


def test_a_login_ends_with_its_password(site: Site) -> None:
    site.sign_in("bob")
    file = site.folder / "dpsql-users.toml"
    before = file.read_text()
    try:
        with users.change_accounts(file) as accounts:
            accounts["bob"] = accounts["bob"].with_password("another password")
        site.service.gate.users = Users.load(file)
        assert site("GET", "/v1/session").status == 401
    finally:
        file.write_text(before)
        site.service.gate.users = Users.load(file)


def test_a_login_ends_with_its_users_analyst(site: Site) -> None:
    """Else the login would spend another analyst's budget, and see his releases."""
    site.sign_in("bob")
    before = site.service.gate.users
    moved = replace(before.accounts["bob"], user=replace(before.accounts["bob"].user, analyst="alice"))
    try:
        site.service.gate.users = replace(before, accounts={**before.accounts, "bob": moved})
        assert site("GET", "/v1/session").status == 401
    finally:
        site.service.gate.users = before


def test_another_users_certificate_is_refused(site: Site) -> None:
    given = {"name": "alice", "password": PASSWORD}
    assert site("POST", "/v1/session", given, state={CLIENT: "bob"}).status == 401
    assert site("POST", "/v1/session", given, state={CLIENT: "alice"}).status == 200
    site.sign_in()
    assert site("GET", "/v1/session", state={CLIENT: "bob"}).status == 401


# -- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8080"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-dpsql": None},
        {"host": "evil.example"},
        {"host": "127.0.0.1:9999"},
        {"host": ""},
    ],
    ids=str,
)
def test_requests_of_other_sites_charge_nothing(site: Site, headers: dict[str, str | None]) -> None:
    site.sign_in()
    confirm = site("POST", "/v1/explain", {"sql": COUNT}).facts.get("confirm")
    before = site.spent
    reply = site("POST", "/v1/query", {"sql": COUNT, "confirm": confirm}, headers)
    assert reply.status in (401, 403, 421)
    assert site.spent == before
    assert site("POST", "/v1/session", {"name": "alice", "password": PASSWORD}, headers).status in (403, 421)
    assert site("DELETE", "/v1/session", None, headers).status in (401, 403, 421)
    assert site("GET", "/v1/session").status == 200


def test_a_form_of_another_site_is_no_json(site: Site) -> None:
    site.sign_in()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert site("POST", "/v1/query", {"sql": COUNT}, {"content-type": kind}).status == 415


def test_a_link_of_another_site_opens_the_page_alone(site: Site) -> None:
    follows = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert site("GET", "/", headers=follows).status == 200
    site.sign_in()
    assert site("GET", "/v1/releases", headers=follows).status == 403


def test_the_page_itself_is_answered(site: Site) -> None:
    site.sign_in()
    headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
    assert site("POST", "/v1/explain", {"sql": COUNT}, headers).status == 200
    assert site("GET", "/v1/budget", headers={"host": "localhost:8080"}).status == 200


def test_every_answer_says_what_a_browser_may_do(site: Site) -> None:
    paths = [path for path, _ in FILES] + ["/v1/session", "/nowhere"]
    for path in paths:
        headers = site("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "access-control-allow-origin" not in headers


def test_paths_lead_to_no_other_file(site: Site) -> None:
    for path in ("/../asking.py", "/static/index.html", "/%2e%2e/asking.py", "//etc/passwd", "/index.html"):
        assert site("GET", path).status == 404


# -- what is asked


def test_a_price_reads_no_data_and_charges_nothing(site: Site) -> None:
    site.sign_in()
    before = site.spent
    facts = site("POST", "/v1/explain", {"sql": BY_PAGE}).facts
    assert (facts["epsilon"], facts["private"], facts["mechanism"] != "") == (1.0, True, True)
    assert facts["half_width"] > 0
    assert [each["why"] for each in facts["considered"]].count("chosen") == 1
    assert facts["left"]["epsilon"] <= 5
    assert not {"compiled_sql", "outer_sql"} & {*facts}
    assert site.spent == before


def test_a_confirmed_price_is_charged_once(site: Site) -> None:
    site.sign_in()
    sql = COUNT.replace("0.75", "0.5")
    before = site.spent
    for confirm in (None, "1-1-" + "A" * 43, "x"):
        reply = site("POST", "/v1/query", {"sql": sql, "confirm": confirm})
        assert (reply.status, reply.facts["code"]) == (409, "ZP001")
    assert site.spent == before
    confirm = site("POST", "/v1/explain", {"sql": sql}).facts["confirm"]
    facts = site("POST", "/v1/query", {"sql": sql, "confirm": confirm}).facts
    assert (facts["epsilon"], facts["rows_in_all"], facts["release"] > 0) == (0.5, 1, True)
    assert facts["columns"][0] == {"name": "n", "type": "double"}
    assert facts["left"]["epsilon"] == 5 - (before + 0.5)
    assert site("POST", "/v1/query", {"sql": sql, "confirm": confirm}).facts["epsilon"] == 0
    assert site.spent == before + 0.5


def test_a_confirmation_is_for_its_user_alone(site: Site) -> None:
    site.sign_in()
    sql = COUNT.replace("0.75", "0.0625")
    confirm = site("POST", "/v1/explain", {"sql": sql}).facts["confirm"]
    site.sign_in("bob")
    assert site("POST", "/v1/query", {"sql": sql, "confirm": confirm}).status == 409


def test_a_refusal_tells_every_obstacle_with_its_place_and_a_rewrite(site: Site) -> None:
    site.sign_in()
    reply = site("POST", "/v1/explain", {"sql": "SELECT pag, usr FROM visits"})
    assert reply.status == 422
    listed = [reply.facts, *reply.facts["others"]]
    places = {each["refused"]: (each["line"], each["column"]) for each in listed}
    assert places["there is no column pag"] == (1, 8)
    assert places["there is no column usr"] == (1, 13)
    unpriced = site("POST", "/v1/explain", {"sql": "SELECT COUNT(*) FROM visits"})
    assert unpriced.status == 422
    rewrite = unpriced.facts["would_be_accepted"]
    assert site("POST", "/v1/explain", {"sql": rewrite}).status == 200


def test_commands_and_public_statements_are_free(site: Site) -> None:
    site.sign_in()
    for sql in ("SHOW TABLES", "SELECT 1 AS one", "DESCRIBE visits"):
        facts = site("POST", "/v1/explain", {"sql": sql}).facts
        assert (facts["epsilon"], facts["private"], "confirm" in facts) == (0, False, False)
        assert site("POST", "/v1/query", {"sql": sql}).facts["epsilon"] == 0
    assert site("POST", "/v1/explain", {"sql": "SET dp_epsilon = 1"}).status == 422


@pytest.mark.parametrize(("size", "rows"), [(10, 1000), (60_000, 62), (5_000_000, 1)])
def test_long_rows_come_in_several_answers(size: int, rows: int) -> None:
    count = 1200 if size < 100_000 else 3
    text = pa.repeat("x" * size, count) if size < 100_000 else pa.array(["x" * size] * count)
    facts = answer_facts(StatementResult(pa.table({"x": text}), None))
    assert (len(facts["rows"]), facts["rows_in_all"]) == (rows, count)
    assert [len(column["cells"]) for column in facts["shown"]] == [rows]
    later = answer_facts(StatementResult(pa.table({"x": text}), None), count - 1)
    assert (len(later["rows"]), later["first_row"]) == (1, count - 1)


def test_more_than_is_left_is_refused_uncharged(site: Site) -> None:
    site.sign_in("bob")
    sql = COUNT.replace("0.75", "6")
    before = site.spent
    reply = site.ask(sql)
    assert (reply.status, reply.facts["code"]) == (402, "ZP002")
    assert site.spent == before


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b'{"sql": 1}', 400),
        (b'{"sql": "SELECT 1", "more": 1}', 400),
        (b"[" * 100_000, 400),
        (b'{"sql": "' + b"x" * 300_000 + b'"}', 413),
        (b'{"sql": "' + b"x" * 70_000 + b'"}', 413),
        (b'{"sql": "\\ud800"}', 422),
        (b'{"sql": "SELECT 1\\u0000"}', 422),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bodies_that_are_wrong_are_refused(site: Site, raw: bytes, status: int) -> None:
    site.sign_in()
    reply = site("POST", "/v1/explain", raw=raw)
    assert reply.status == status
    assert "internal error" not in reply.facts["refused"]


# -- releases


def test_a_release_is_opened_and_downloaded_by_its_analyst_alone(site: Site) -> None:
    site.sign_in()
    asked = site.ask(BY_PAGE).facts
    number, before = asked["release"], site.spent
    assert number in [each["number"] for each in site("GET", "/v1/releases").facts["releases"]]
    again = site("GET", f"/v1/releases/{number}").facts
    assert (again["rows"], again["statement"]) == (asked["rows"], BY_PAGE)
    assert site("GET", f"/v1/releases/{number}?first_row=1").facts["rows"] == asked["rows"][1:]
    files = {form: site("GET", f"/v1/releases/{number}/{form}") for form in FORMS}
    for form, reply in files.items():
        assert reply.headers["content-type"].startswith(FORMS[form].partition(";")[0])
        assert reply.headers["content-disposition"].startswith('attachment; filename="release-')
    listed = list(csv.DictReader(io.StringIO(files["rows.csv"].body.decode())))
    assert [float(row["n"]) for row in listed] == [row[1] for row in asked["rows"]]
    read = pq.read_table(io.BytesIO(files["rows.parquet"].body))
    assert read.column("n").to_pylist() == [row[1] for row in asked["rows"]]
    assert site.spent == before
    for name in ("bob", None):
        if name is None:
            site.headers = {"authorization": f"Bearer {site.token}"}
        else:
            site.sign_in(name)
        for path in ("", *(f"/{form}" for form in FORMS)):
            assert site("GET", f"/v1/releases/{number}{path}").status == 404
            for other in ("9" * 5_000, "-1", "x", "1" * 18):
                assert site("GET", f"/v1/releases/{other}{path}").status == 404
        assert site("GET", "/v1/releases").facts["releases"] == []


@pytest.mark.parametrize("path", ["/v1/session", "/v1/explain", "/v1/query"])
@pytest.mark.parametrize(
    "value", ["[" * 100 + "]" * 100, "[" + "1," * 1_000 + "1]", "[" + "{}," * 999 + "{}]", "9" * 1_000]
)
def test_a_body_that_stands_for_much_is_refused_before_it_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str, value: str
) -> None:
    site.sign_in()
    read: list[object] = []
    monkeypatch.setattr("dpsql.serve.page.answers.json.loads", read.append)
    reply = site("POST", path, raw=b'{"sql": ' + value.encode() + b"}")
    assert reply.status == 400
    assert read == []


def test_who_has_not_signed_in_sends_short_bodies_and_addresses(site: Site) -> None:
    site.headers.clear()
    assert site("POST", "/v1/session", {"name": "a", "password": "b" * 5_000}).status == 413
    assert site("GET", "/?" + "a&" * 1_000).status == 414


def test_a_download_for_a_spreadsheet_has_no_formula(site: Site) -> None:
    site.sign_in()
    number = site.ask(BY_PAGE.replace(" = 1)", " = 0.5)").replace(" AS n", ' AS "=1+n"')).facts["release"]
    path = f"/v1/releases/{number}/rows.csv"
    heads = [site("GET", path + asked).body.decode().split("\r\n")[0] for asked in ("", "?spreadsheet=true")]
    assert [head.split(",")[1] for head in heads] == ["=1+n", '"\'=1+n"']
    assert site("GET", f"{path}?spreadsheet=1").status == 400
    assert "?spreadsheet=true" in site("GET", "/answer.js").body.decode()  # the page's own downloads


@pytest.mark.parametrize("number", ["0", "999", "9" * 40, "-1", "1e3", "x", "1;2"])
def test_numbers_of_no_release_are_not_found(site: Site, number: str) -> None:
    site.sign_in()
    reply = site("GET", f"/v1/releases/{number}")
    assert reply.status == 404
    assert site("GET", f"/v1/releases/{number}/rows.csv").status == 404


def test_names_of_groups_stay_text(site: Site) -> None:
    site.sign_in()
    facts = site.ask(BY_PAGE).facts
    assert HOSTILE in [row[0] for row in facts["rows"]]
    assert facts["shown"][0]["name"] == "page"
    drawn = site("GET", f"/v1/releases/{facts['release']}/chart.svg").body.decode()
    root = ElementTree.fromstring(drawn)  # it is well formed, so no name has ended an element
    assert {each.tag.rpartition("}")[2] for each in root.iter()} <= ELEMENTS
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on")]
    assert "\x1b" not in drawn


# -- the files of the page


def test_the_files_are_small_and_fetch_nothing_from_elsewhere(site: Site) -> None:
    sizes = 0
    for path, name in FILES:
        reply = site("GET", path)
        assert reply.status == 200
        sizes += len(reply.body)
        text = reply.body.decode()
        if name.endswith((".js", ".html")):
            assert "innerHTML" not in text
            assert "insertAdjacentHTML" not in text
            assert "eval(" not in text
            assert " style=" not in text
        addresses = [word for word in text.replace('"', " ").replace("'", " ").split() if "://" in word]
        allowed = ("http://www.w3.org/2000/svg", "http://127.0.0.1", "https://spec.openapis.org")
        assert all(word.startswith(allowed) for word in addresses), addresses
    assert sizes < 200_000


def test_a_file_that_is_known_is_not_sent_again(site: Site) -> None:
    tag = site("GET", "/page.js").headers["etag"]
    assert site("GET", "/page.js", headers={"if-none-match": tag}).status == 304


# -- OpenAPI


def described() -> Any:
    import dpsql.serve.page as package

    file = Path(package.__file__).parent / "static" / "openapi.json"
    return json.loads(file.read_text())


def test_the_description_has_every_route_and_no_other(site: Site) -> None:
    routes = {
        (route.path.replace(":int", ""), method.lower())
        for route in site.application.routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith("/v1/")
    }
    paths = described()["paths"]
    assert {
        (path, method) for path, item in paths.items() for method in item if method != "parameters"
    } == routes


def test_answers_have_the_form_that_is_described(site: Site) -> None:
    document = described()
    site.sign_in()
    number = site.ask(BY_PAGE).facts["release"]
    asked: list[tuple[str, str, str, Any]] = [
        ("get", "/v1/session", "/v1/session", None),
        ("post", "/v1/session", "/v1/session", {"name": "alice", "password": PASSWORD}),
        ("post", "/v1/session", "/v1/session", {"name": "alice", "password": "wrong"}),
        ("get", "/v1/tables", "/v1/tables", None),
        ("get", "/v1/language", "/v1/language", None),
        ("get", "/v1/budget", "/v1/budget", None),
        ("post", "/v1/explain", "/v1/explain", {"sql": BY_PAGE}),
        ("post", "/v1/explain", "/v1/explain", {"sql": COUNT}),
        ("post", "/v1/explain", "/v1/explain", {"sql": "SHOW TABLES"}),
        ("post", "/v1/explain", "/v1/explain", {"sql": "SELECT pag, usr FROM visits"}),
        ("post", "/v1/query", "/v1/query", {"sql": BY_PAGE}),
        ("post", "/v1/query", "/v1/query", {"sql": COUNT}),
        ("post", "/v1/query", "/v1/query", {"sql": "SELECT 1 AS one"}),
        ("post", "/v1/cancel", "/v1/cancel", None),
        ("get", "/v1/releases", "/v1/releases", None),
        ("get", "/v1/releases/{number}", f"/v1/releases/{number}", None),
        ("get", "/v1/releases/{number}", "/v1/releases/999", None),
        ("delete", "/v1/session", "/v1/session", None),
    ]
    for method, template, path, given in asked:
        reply = site(method.upper(), path, given)
        responses = document["paths"][template][method]["responses"]
        found = responses.get(str(reply.status), responses.get("default"))
        while "$ref" in found:
            found = _at(document, found["$ref"])
        content = found.get("content")
        if content is None:
            assert reply.body == b""
            continue
        _conforms(document, content["application/json"]["schema"], reply.facts, f"{method} {path}")
        if (method, path, reply.status) == ("post", "/v1/session", 200):
            site.headers = {
                "cookie": reply.headers["set-cookie"].partition(";")[0],
                "x-dpsql": reply.facts["key"],
            }


def _at(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document


_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def _conforms(document: Any, schema: Any, value: Any, place: str) -> None:
    """Check a value by the part of JSON Schema that the description uses; fields it does not know fail."""
    if "$ref" in schema:
        _conforms(document, _at(document, schema["$ref"]), value, place)
        return
    kinds = schema.get("type")
    if kinds is None:
        return
    allowed = [kind for name in ([kinds] if isinstance(kinds, str) else kinds) for kind in _KINDS[name]]
    assert isinstance(value, tuple(allowed)), (place, value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert {*schema.get("required", ())} <= {*value}, (place, sorted(value))
        if schema.get("additionalProperties") is False:
            assert {*value} <= {*properties}, (place, sorted({*value} - {*properties}))
        for name, each in value.items():
            if name in properties:
                _conforms(document, properties[name], each, f"{place}.{name}")
    if isinstance(value, list) and "items" in schema:
        for each in value:
            _conforms(document, schema["items"], each, f"{place}[]")
