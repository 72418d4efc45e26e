"""What the tests of the server share."""

from __future__ import annotations

import pytest

from tests.serve.scram_client import ScramClient


@pytest.fixture(scope="session")
def scram_client() -> type[ScramClient]:
    return ScramClient
