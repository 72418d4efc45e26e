"""Reads the Containerfile, and runs its commands in a fresh environment in the place of a container.

    python -m tests.release.containerfile FOLDER ENVIRONMENT

FOLDER is what a builder would be given (with wheels/), ENVIRONMENT a virtual environment that stands for the
image. WORKDIR and COPY work below a temporary root; the user, the volume and the ports are parsed alone. The
last command is the entrypoint with `--help`, as the entry is a server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[2] / "Containerfile"
KNOWN = ("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD")


class Instruction(NamedTuple):
    """An instruction and what follows it."""

    word: str
    rest: str


def parse_containerfile(text: str) -> list[Instruction]:
    """Return the instructions, with continued lines joined, or raise ValueError at what is not one."""
    found = list(_instructions(text))
    if not found or found[0].word != "FROM":
        raise ValueError("the first instruction is not FROM")
    if [each.word for each in found].count("ENTRYPOINT") != 1:
        raise ValueError("there is not one ENTRYPOINT")
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or (not line.strip() and not joined):
            continue
        joined += line.rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        word, _, rest = joined.strip().partition(" ")
        joined = ""
        if word not in KNOWN or not rest.strip():
            raise ValueError(f"not an instruction: {word} {rest}")
        if word in ("ENTRYPOINT", "CMD") and not isinstance(json.loads(rest), list):
            raise ValueError(f"{word} is not a list")
        yield Instruction(word, rest.strip())
    if joined:
        raise ValueError("the last line is continued")


def run_instructions(instructions: list[Instruction], context: Path, environment: Path, root: Path) -> None:
    """Run them below the root, with the environment's programs first on the path."""
    place, variables = root, dict(os.environ)
    variables |= {
        "PATH": f"{environment / 'bin'}{os.pathsep}{variables['PATH']}",
        "VIRTUAL_ENV": str(environment),
    }
    for name in ("PYTHONPATH", "PYTHONHOME"):
        variables.pop(name, None)
    for word, rest in instructions:
        match word:
            case "WORKDIR":
                place = root / rest.lstrip("/")
                place.mkdir(parents=True, exist_ok=True)
            case "COPY":
                source, target = rest.split()
                shutil.copytree(context / source, place / target)
            case "ENV":
                name, _, value = rest.partition("=")
                variables[name] = value
            case "RUN":
                subprocess.run(["sh", "-euc", rest], cwd=place, env=variables, check=True)
            case "ENTRYPOINT":
                entry = json.loads(rest)
            case "CMD":
                subprocess.run([*entry, *json.loads(rest), "--help"], cwd=place, env=variables, check=True)


def main(context: str, environment: str) -> None:
    """Run the Containerfile of this checkout."""
    with tempfile.TemporaryDirectory() as root:
        instructions = parse_containerfile(FILE.read_text("utf-8"))
        run_instructions(instructions, Path(context), Path(environment), Path(root))


if __name__ == "__main__":
    main(*sys.argv[1:])
