"""The command line: stdout is data, stderr is narration.

====================  ======================================================================
``app``               the click application; ``__main__`` starts the process around it
``options``           the options that all commands share; statements from ``-c`` and ``-f``
``narrate``           messages, warnings, errors with their exit codes, progress, on stderr
``output``            writes results to stdout, a file or a folder
``batch``             runs statements after pricing all of them
``repl/``             the interactive shell
``budget``, ``demo``  the commands of these names
``init/``             `dpsql init`, which reads names and types of columns, but no row
``bounds``            `dpsql bounds`, which releases to everybody, and charges everybody
``check``             `dpsql check`, which is for the owner and prints private facts
``audit``             `dpsql audit`, which searches for violations of differential privacy
``serve``, ``user``   `dpsql serve` and `dpsql mcp`; `dpsql user`, which says who may log in
====================  ======================================================================
"""

from dpsql.cli.app import main

__all__ = ["main"]
