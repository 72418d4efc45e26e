"""The process `dpsql`, also as `python -m dpsql.cli`."""

from __future__ import annotations

import sys

from dpsql.cli.app import main


class _WithoutPandas:
    """An import finder that hides pandas from the process.

    Arrow imports pandas, if it is there, whenever it makes an array. That takes as long as an answer.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise `ModuleNotFoundError` for pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def start() -> int:
    """Run the command line in a process of its own."""
    sys.meta_path.insert(0, _WithoutPandas())
    return main()


if __name__ == "__main__":
    sys.exit(start())
