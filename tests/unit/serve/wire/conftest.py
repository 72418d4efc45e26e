"""The certificate that the tests of the wire protocol share."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dpsql.serve import state


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return state.make_self_signed(tmp_path_factory.mktemp("tls"))[0]


@pytest.fixture(scope="session")
def server_tls(certificate: Path) -> state.Tls:
    return state.load_tls(certificate, certificate.with_name(state.KEY))


@pytest.fixture(scope="session")
def client_tls(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))
