"""The process `dpsql`, also as `python -m dpsql`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress

from dpsql.cli import main


class _WithoutPandas:
    """An import finder that hides pandas from the process.

    Arrow imports pandas, if it is there, whenever it makes an array. That takes as long as an answer. pyspark
    needs pandas, so the engine on Spark removes this finder.
    """

    hides_pandas = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise `ModuleNotFoundError` for pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


_OBJECTS = 200_000
"""New objects until garbage is collected: imports make a hundred thousand that stay."""


def start() -> int:
    """Run the command line in a process of its own, and end the process, unless something follows it.

    All is written and closed by then. Freeing every module would take a tenth of the time until an answer.
    Threads that wait for work of engines do not keep a process, so they are no reason to free anything.
    What numpy multiplies matrices with starts a thread for each core with it, which turns in circles until
    there is a matrix; no statement has one.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS)
    sys.meta_path.insert(0, _WithoutPandas())
    code = main()
    observed = sys.getprofile() or sys.gettrace()
    if not observed and all(thread.daemon for thread in threading.enumerate()[1:]):
        atexit._run_exitfuncs()  # noqa: SLF001  Python has no other name for it
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(start())
