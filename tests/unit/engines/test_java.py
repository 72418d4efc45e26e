"""What is said of the Java that Spark needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.engines.spark import spark_connection
from dpsql.errors import OperationalError


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OperationalError, match="JAVA_HOME names a folder without bin/java"):
        spark_connection.check_java()


def test_an_absent_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationalError, match=r"none was found.*set JAVA_HOME"):
        spark_connection.check_java()


@pytest.mark.parametrize(("said", "refused"), [("1.8.0_392", True), ("17.0.9", False)])
def test_an_old_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, refused: bool
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\"' >&2\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert spark_connection.java_version(str(program)) == (8 if refused else 17)
    if refused:
        with pytest.raises(OperationalError, match="JAVA_HOME has Java 8"):
            spark_connection.check_java()
    else:
        spark_connection.check_java()
