"""Arrow Flight SQL: programs ask over gRPC and get columns.

=====================================  ===============================================================
``front``                              the gRPC server: its limits, its methods
``calls``, ``commands``, ``statements``  what the methods do; what a command asks for
``sessions``, ``tickets``              who has logged in; what may be fetched once
``metadata``, ``sql_info``             catalogs, schemas, tables; what the server supports
``messages``, ``protobuf``, ``arrow``  the messages of the protocol and the Arrow data in them
``errors``                             errors as gRPC tells them
=====================================  ===============================================================

The server is gRPC's own: that of `pyarrow.flight` reads messages of any size from clients that have not
logged in, and tells no address before a login.
"""

from __future__ import annotations

import os

# gRPC would write to standard error, among the lines of the log. It reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
