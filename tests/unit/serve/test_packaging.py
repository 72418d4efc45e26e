"""The systemd unit and the container file under examples/serve."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_shipped_unit(tmp_path: Path) -> None:
    unit = (ROOT / "examples" / "serve" / "dpsql.service").read_text()
    (tmp_path / "dpsql.service").write_text(unit.replace("/opt/dpsql/bin/dpsql", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "dpsql.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_file_names_what_there_is() -> None:
    text = (ROOT / "examples" / "serve" / "Dockerfile").read_text()
    extras = re.findall(r"/source\[([a-z,]+)\]", text)
    project = (ROOT / "pyproject.toml").read_text()
    assert extras
    for extra in extras[0].split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    assert 'ENTRYPOINT ["dpsql"]' in text
    assert 'CMD ["serve"]' in text


def test_the_server_loads_without_the_packages_of_other_doors() -> None:
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('anyio', 'starlette', 'uvicorn', 'mcp', 'cryptography')))\n"
        "import dpsql.serve.server, dpsql.serve.service"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
