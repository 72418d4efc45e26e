"""The command line: stdout is data, stderr is narration.

========================  ==================================================================
``app``                   the click application; ``__main__`` is the process around it
``exits``                 exit codes, and which error ends in which
``sources``, ``batch``    ``-c`` and ``-f``: read in order, priced before the first one runs
``repl*``                 the interactive shell
``output``, ``narrate``   where answers and where words go
``render*``               answers as people read them (table, Markdown) and as programs do
``budget``, ``demo``,     the commands of these names; ``init`` reads names and types alone, ``check`` is
``init*``, ``check``      for the owner and prints private facts
========================  ==================================================================
"""

from dpsql.cli.app import main

__all__ = ["main"]
