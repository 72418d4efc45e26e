"""The command line: stdout is data, stderr is narration.

====================  ======================================================================
``app``               the click application; ``__main__`` starts the process around it
``options``           the options that all commands share, and those that name a server
``exits``             exit codes, and the exit code of each error class
``sources``           statements from ``-c`` and ``-f``, in the order they were given
``batch``             runs statements after pricing all of them
``repl/``             the interactive shell
``output``            writes results to stdout, a file or a folder
``narrate``           writes messages, warnings and errors to stderr
``budget``, ``demo``  the commands of these names
``init/``             `dpsql init`, which reads names and types of columns, but no row
``bounds``            `dpsql bounds`, which releases to everybody, and charges everybody
``bounds_shown``      what it shows, as text and as JSON
``check``             `dpsql check`, which is for the owner and prints private facts
``audit``             `dpsql audit`, which searches for violations of differential privacy
====================  ======================================================================
"""

from dpsql.cli.app import main

__all__ = ["main"]
