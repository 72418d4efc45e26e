"""Run within Superset's own environment: a server as its database, asked through Superset's REST API.

Arguments: a folder for its metadata, the URL of `alice`, that of `bob`, who has agreed to a price, and a file
with statements in JSON. What it found is printed as JSON in the last line.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

CONFIG = """
SECRET_KEY = "only for a test, in a folder that is deleted"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db?check_same_thread=false"
TALISMAN_ENABLED = False
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
"""
ADMIN = {"username": "admin", "password": "admin of a test"}
ROWS = 1000
"""The number of rows that SQL Lab's menu offers first."""


class Api:
    """A browser's session: what is sent to Superset's REST API, and its answers."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.client = app.test_client()
        self.headers = {"Referer": "http://localhost/"}
        found = self.post("security/login", {**ADMIN, "provider": "db", "refresh": True})
        self.headers["Authorization"] = f"Bearer {found['access_token']}"
        self.headers["X-CSRFToken"] = self.get("security/csrf_token/")["result"]

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1/{path}", headers=self.headers).get_json()

    def post(self, path: str, body: object) -> Any:
        return self.client.post(f"/api/v1/{path}", json=body, headers=self.headers).get_json()

    def database(self, name: str, url: str) -> int:
        body = {"database_name": name, "sqlalchemy_uri": url}
        tested = self.post("database/test_connection/", body)
        assert tested == {"message": "OK"}, tested
        return self.post("database/", {**body, "expose_in_sqllab": True})["id"]

    def dataset(self, database: int, table: str) -> int:
        return self.post("dataset/", {"database": database, "schema": "public", "table_name": table})["id"]

    def chart(self, dataset: int) -> dict[str, Any]:
        """Draw a table of a count by a column, as the button that forces a refresh does."""
        query = {"columns": ["sex"], "metrics": ["count"], "row_limit": 1000}
        body = {"datasource": {"id": dataset, "type": "table"}, "queries": [query], "force": True}
        found = self.post("chart/data", {**body, "result_format": "json", "result_type": "full"})
        if "result" not in found:
            return {"error": json.dumps(found)}
        (result,) = found["result"]
        return {name: result[name] for name in ("status", "error", "query", "data")}

    def lab(self, database: int, text: str, client: str = "", rows: int = ROWS) -> dict[str, Any]:
        """Run a statement in SQL Lab."""
        body = {
            "database_id": database,
            "sql": text,
            "schema": "public",
            "client_id": client or os.urandom(5).hex(),
        }
        found = self.post("sqllab/execute/", {**body, "queryLimit": rows, "runAsync": False, "tab": "a tab"})
        if "data" not in found:
            return {"error": json.dumps(found, ensure_ascii=False)}
        names = [column["column_name"] for column in found["columns"]]
        rows = [[row[name] for name in names] for row in found["data"]]
        return {"columns": names, "rows": rows, "sent": found["query"]["executedSql"]}


def started(folder: Path) -> Any:
    """Return Superset's application with a fresh metadata database and an administrator."""
    (folder / "superset_config.py").write_text(CONFIG.format(folder=folder))
    os.environ["SUPERSET_CONFIG_PATH"] = str(folder / "superset_config.py")
    from superset.app import create_app

    app = create_app()
    with app.app_context():
        from flask_appbuilder import Model
        from superset import appbuilder, db, security_manager

        Model.metadata.create_all(db.engine)
        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        security_manager.add_user(ADMIN["username"], "A", "B", "admin@example.org", role, ADMIN["password"])
        db.session.commit()
    return app


def by_driver(app: Any, url: str, asked: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Ask on the connections that Superset opens itself, with texts that it does not look at."""
    from superset.models.core import Database

    with app.app_context():
        shop = Database(database_name="raw")
        shop.set_sqlalchemy_uri(url)
        with shop.get_raw_connection() as connection:
            cursor = connection.cursor()
            cursor.execute(asked["who"])
            who = list(cursor.fetchone())
            answers = []
            for text in asked["cookbook"]:
                cursor.execute(text)
                answers.append([[column[0] for column in cursor.description], cursor.fetchall()])
    return who, answers


def cancelled(app: Any, api: Api, database: int, url: str, text: str) -> list[Any]:
    """Stop a statement of SQL Lab as its button does, once the server runs it."""
    from superset.models.core import Database

    with app.app_context():
        watching = Database(database_name="watching")
        watching.set_sqlalchemy_uri(url)
        told: list[Any] = []
        thread = threading.Thread(target=lambda: told.append(api.lab(database, text, "stopped")))
        with watching.get_raw_connection() as connection:
            cursor = connection.cursor()
            thread.start()
            running = False
            while thread.is_alive() and not running:
                thread.join(0.1)
                cursor.execute(
                    "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
                )
                running = cursor.fetchone()[0] > 0
    stopped = Api(app).post("query/stop", {"client_id": "stopped"})
    thread.join()
    return [stopped, told[0]]


def main(folder: Path, alice: str, bob: str, questions: Path) -> dict[str, Any]:
    asked = json.loads(questions.read_text())
    app = started(folder)
    api = Api(app)
    found: dict[str, Any] = {}
    found["who"], found["cookbook"] = by_driver(app, alice, asked)
    shop, paid = api.database("shop", alice), api.database("paid", bob)
    found["own budget"] = [api.lab(shop, "SHOW PRIVACY BUDGET")["rows"]]
    tables = api.get(f"database/{shop}/tables/?q=(schema_name:public)")["result"]
    found["browsed"] = {
        table["value"]: [
            column["name"]
            for column in api.get(f"database/{shop}/table_metadata/?name={table['value']}&schema=public")[
                "columns"
            ]
        ]
        for table in tables
    }
    found["lab"] = [api.lab(shop, f"SELECT * FROM (\n{text}\n) AS r") for text in asked["cookbook"]]
    found["explained"] = api.lab(shop, asked["cookbook"][-1])
    found["limit"] = api.lab(shop, asked["limited"])
    found["refused"] = api.lab(shop, asked["wrong"])
    found["preview"] = api.lab(shop, "SELECT * FROM patients")
    found["large"] = len(api.lab(shop, asked["large"], rows=100_000)["rows"])
    free, charged = api.dataset(shop, "patients"), api.dataset(paid, "patients")
    found["columns"] = [column["column_name"] for column in api.get(f"dataset/{free}")["result"]["columns"]]
    found["values"] = api.get(f"datasource/table/{free}/column/region/values/")["result"]
    found["not agreed"] = api.chart(free)
    found["own budget"].append(api.lab(shop, "SHOW PRIVACY BUDGET")["rows"])
    found["budgets"] = [api.lab(paid, "SHOW PRIVACY BUDGET")["rows"]]
    for name in ("chart", "chart again"):
        found[name] = api.chart(charged)
        found["budgets"].append(api.lab(paid, "SHOW PRIVACY BUDGET")["rows"])
    found["cancelled"] = cancelled(app, api, paid, bob, asked["long"])
    return found


if __name__ == "__main__":
    print("\n" + json.dumps(main(Path(sys.argv[1]), *sys.argv[2:4], Path(sys.argv[4])), default=str))
