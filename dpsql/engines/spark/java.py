"""Finds the Java that Spark in this process starts, and says what is wrong with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from dpsql.errors import OperationalError

OLDEST = 17
"""The version of Java from which on Spark 4 runs."""
_HINT = f"install Java {OLDEST} or newer and set JAVA_HOME to its folder"


def check_java() -> None:
    """Raise `OperationalError` if there is no Java, or one that is too old; for when Spark did not start."""
    home = os.environ.get("JAVA_HOME", "")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    if not program:
        raise OperationalError(f"Spark needs Java, and none was found: {_HINT}")
    if home and not Path(program).is_file():
        raise OperationalError(f"Spark needs Java, and JAVA_HOME names a folder without bin/java: {_HINT}")
    version = java_version(program)
    if version is not None and version < OLDEST:
        where = "JAVA_HOME" if home else "the PATH"
        raise OperationalError(f"Spark needs Java {OLDEST} or newer, and {where} has Java {version}: {_HINT}")


def java_version(program: str) -> int | None:
    """Return the major version of a Java; None if it does not say."""
    said = ""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603  the program that Spark starts
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
        said = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
