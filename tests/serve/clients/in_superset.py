# mypy: ignore-errors
"""Run within Superset's own environment: a server as its database, browsed, asked, drawn, cancelled.

Arguments: a folder for its metadata, the URL of `alice`, that of `bob`, and a file with statements in JSON.
What it found is printed as JSON in the last line.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

CONFIG = """
SECRET_KEY = "only for a test, in a folder that is deleted"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
TALISMAN_ENABLED = False
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
"""


def main(alice: str, bob: str, questions: Path) -> dict[str, object]:
    from flask_appbuilder import Model
    from superset import db
    from superset.connectors.sqla.models import SqlaTable
    from superset.models.core import Database
    from superset.models.sql_lab import Query
    from superset.sql.parse import Table

    asked = json.loads(questions.read_text())
    found: dict[str, object] = {}
    Model.metadata.create_all(db.engine)
    shop = Database(database_name="shop")
    shop.set_sqlalchemy_uri(alice)
    paid = Database(database_name="paid")
    paid.set_sqlalchemy_uri(bob)
    db.session.add_all([shop, paid])
    db.session.commit()

    tables = sorted(name for name, *_ in shop.get_all_table_names_in_schema(catalog=None, schema="public"))
    found["browsed"] = {
        name: [column["column_name"] for column in shop.get_columns(Table(name, "public"))] for name in tables
    }
    with shop.get_raw_connection() as connection:
        cursor = connection.cursor()
        cursor.execute(asked["who"])
        found["who"] = list(cursor.fetchone())
        answers = []
        for text in asked["cookbook"]:
            cursor.execute(text)
            answers.append([[column[0] for column in cursor.description], cursor.fetchall()])
        found["cookbook"] = answers
        try:
            cursor.execute(asked["wrong"])
        except Exception as error:  # noqa: BLE001  the driver's own
            found["refused"] = [shop.db_engine_spec.extract_error_message(error), error.pgcode,
                                error.diag.statement_position]  # fmt: skip
    found["large"] = len(shop.get_df(asked["large"]))

    dataset = SqlaTable(table_name="patients", schema="public", database=paid)
    db.session.add(dataset)
    dataset.fetch_metadata()
    db.session.commit()
    chart = {
        "granularity": None, "from_dttm": None, "to_dttm": None, "groupby": ["sex"], "columns": ["sex"],
        "metrics": ["count"], "is_timeseries": False, "row_limit": 1000, "filter": [], "extras": {},
        "orderby": [],
    }  # fmt: skip
    result = dataset.query(chart)
    found["chart"] = [result.status.value if hasattr(result.status, "value") else str(result.status),
                      json.loads(result.df.to_json(orient="values")), result.error_message,
                      result.query]  # fmt: skip

    spec = paid.db_engine_spec
    with paid.get_raw_connection() as connection, paid.get_raw_connection() as other:
        cursor = connection.cursor()
        query = Query(database=paid, client_id="cancelled")
        number = spec.get_cancel_query_id(cursor, query)
        stop = threading.Event()
        done = []

        def cancel() -> None:
            watching = other.cursor()
            while not stop.wait(0.1) and not done:
                watching.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", (int(number),))
                if watching.fetchone()[0] == "active":
                    done.append(spec.cancel_query(watching, query, number))

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            cursor.execute(asked["long"])
            text = ""
        except Exception as error:  # noqa: BLE001  the driver's own
            text = str(error)
        stop.set()
        thread.join()
        found["cancelled"] = [text, done]
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "superset_config.py").write_text(CONFIG.format(folder=folder))
    os.environ["SUPERSET_CONFIG_PATH"] = str(folder / "superset_config.py")
    from superset.app import create_app

    with create_app().app_context():
        print("\n" + json.dumps(main(sys.argv[2], sys.argv[3], Path(sys.argv[4])), default=str))
