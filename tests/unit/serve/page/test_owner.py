"""The owner's page: for this machine and the key alone; what it tells, and what it never tells."""

from __future__ import annotations

import json
import re
import stat
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.kernel.loss import Charge
from dpsql.policy import Address
from dpsql.serve.page.owner import FILES, OwnerFront, OwnerPages, link_file, owner_app, tables_of
from tests.unit.serve.page.conftest import BY_PAGE, COUNT, PASSWORD, Reply, Site

HERE = "127.0.0.1"


class Owner:
    """Sends requests to the owner's application."""

    def __init__(self, site: Site) -> None:
        service = site.service
        self.pages = OwnerPages(service)
        self._site = Site(
            owner_app(self.pages, Address(HERE, 8081)),
            service,
            site.throttle,
            [],
            site.runner,
            "",
            site.folder,
            {"host": f"{HERE}:8081"},
        )

    def __call__(
        self, method: str, path: str, given: object = None, *, client: str = HERE, **headers: str
    ) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._site(method, path, given, named, client=client)

    def sign_in(self) -> None:
        self._site.headers["authorization"] = f"Bearer {self.pages.key}"


@pytest.fixture
def owner(site: Site) -> Owner:
    return Owner(site)


def test_only_the_key_opens_it(owner: Owner) -> None:
    key = owner.pages.key
    for given in ("", "Bearer ", "Bearer x", f"Bearer {key[:-1]}", f"Bearer {key}A", f"Basic {key}", key):
        assert owner("GET", "/owner/v1/overview", authorization=given).status == 401
    assert owner("GET", f"/owner/v1/overview?key={key}").status == 401
    assert owner("GET", "/owner/v1/overview", cookie=f"dpsql_owner={key}").status == 401
    reply = owner("GET", "/owner/v1/overview", authorization=f"Bearer {key}")
    assert reply.status == 200
    assert "set-cookie" not in reply.headers  # other servers of this machine would be sent it


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://127.0.0.1:8080"}, {"sec_fetch_site": "same-site"}, {"host": "evil.example"}],
    ids=str,
)
def test_requests_of_other_sites_are_refused(owner: Owner, headers: dict[str, str]) -> None:
    owner.sign_in()
    assert owner("GET", "/owner/v1/overview", **headers).status in (403, 421)


def test_other_machines_are_refused(owner: Owner) -> None:
    owner.sign_in()
    for client in ("192.0.2.1", "", "::ffff:10.0.0.1"):
        assert owner("GET", "/owner/v1/overview", client=client).status == 403
    assert owner("GET", "/owner/v1/overview", client="::1").status == 200


def test_analysts_logins_do_not_open_it(site: Site, owner: Owner) -> None:
    site.sign_in()
    assert site("GET", "/owner/v1/overview").status == 404
    assert site("GET", "/owner").status == 404
    assert owner("GET", "/owner/v1/overview", cookie=site.headers["cookie"]).status == 401
    assert owner("GET", "/owner/v1/overview", authorization=f"Bearer {site.token}").status == 401
    assert owner("POST", "/v1/explain", {"sql": COUNT}).status == 404


def test_it_tells_where_the_budget_went(site: Site, owner: Owner) -> None:
    site.sign_in()
    site.ask(BY_PAGE)
    site.ask(COUNT)
    owner.sign_in()
    facts = owner("GET", "/owner/v1/overview").facts
    spent = facts["budget"]["spent"]["epsilon"]
    assert spent == site.spent
    for what in ("analyst", "table", "mechanism"):
        assert sum(each["epsilon"] for each in facts["by"][what]) == pytest.approx(spent)
    assert [each["name"] for each in facts["by"]["table"]] == ["visits"]
    assert facts["over_time"][-1]["epsilon"] == spent
    assert facts["entries_in_all"] == len(facts["entries"])
    (latest,) = [each for each in facts["entries"] if each["statement"] == COUNT and each["epsilon"]]
    assert (latest["analyst"], latest["epsilon"], latest["state"]) == ("alice", 0.75, "settled")
    standing = {each["analyst"]: each for each in facts["analysts"]}
    assert standing["alice"]["left"]["epsilon"] == 5 - standing["alice"]["spent"]["epsilon"]
    assert standing["bob"]["locked"] is False
    table = facts["policy"]["tables"][0]
    assert (table["name"], table["kind"], len(table["columns"][1]["values"])) == ("visits", "unit", 2)


def test_a_locked_analyst_is_shown(site: Site, owner: Owner) -> None:
    ledger = site.service.generation.database.ledger

    for _ in range(3):
        reserved = ledger.reserve(
            analyst="agent",
            statement="SELECT 1",
            selection="count",
            mechanism="Laplace",
            charge=Charge(Fraction(1, 64)),
        )
        ledger.fail(reserved)
    owner.sign_in()
    try:
        found = {each["analyst"]: each for each in owner("GET", "/owner/v1/overview").facts["analysts"]}
        assert (found["agent"]["failed"], found["agent"]["locked"]) == (3, True)
        assert found["bob"]["locked"] is False
    finally:
        ledger.clear_failures()


def test_it_tells_no_secret_and_no_row(site: Site, owner: Owner) -> None:
    owner.sign_in()
    body = owner("GET", "/owner/v1/overview").body.decode()
    secrets = [PASSWORD, site.token, owner.pages.key, "SCRAM", "sha256"]
    file = (site.folder / "dpsql-users.toml").read_text()
    secrets += re.findall(r"[A-Za-z0-9+/=]{24,}", file)
    assert len(secrets) > 10
    assert not [each for each in secrets if each in body]
    numbers = [each for each in json.loads(body)["policy"]["tables"][0] if each in ("rows", "units", "size")]
    assert numbers == []


def test_tables_of_statements_that_cannot_be_read(site: Site) -> None:
    policy = site.service.policy
    assert tables_of(BY_PAGE, policy) == "visits"
    assert tables_of("SELECT COUNT(*) FROM (SELECT * FROM Visits) v", policy) == "visits"
    for statement in ("", "REFINE RELEASE 1 TO 2", "SELECT $1 FROM visits WHERE (", "(" * 5000):
        assert tables_of(statement, policy) == "(not read)"


def test_the_link_is_in_a_file_of_the_owner_while_it_serves(site: Site, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    link = link_file(tmp_path / "dpsql-users.toml")
    service = site.service
    front = OwnerFront(service, Address(HERE, 0), link)

    async def served() -> list[str]:
        urls = await front.start()
        assert stat.S_IMODE(link.stat().st_mode) == 0o600
        assert link.read_text().startswith(f"{urls[0]}#")
        await front.stop()
        return urls

    (url,) = site.runner.run(served())
    assert url.endswith("/owner")  # without the key: it is logged
    assert not link.exists()


def test_the_files_are_those_of_the_page(owner: Owner) -> None:
    for path, _ in FILES:
        reply = owner("GET", path)
        assert reply.status == 200
        assert b"innerHTML" not in reply.body
