"""The engines: each test that takes `store` runs on each, behind the engine's marker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.servers import postgres
from support.stores import PostgresStore, SparkStore, Store

ENGINES = [
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", ENGINES, indirect=True, scope="session")


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "postgres":
        return PostgresStore(folder, request.getfixturevalue("postgres_address"))
    return SparkStore(folder)
