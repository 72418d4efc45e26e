"""The PostgreSQL wire protocol, version 3: messages of a client in, answers out.

=====================================  ==============================================================
``protocol``                           one connection from its first byte to its last
``channel``                            its bytes: buffers, TLS, the end at any time
``framing``, ``messages``              messages as bytes, read and written
``startup``, ``authentication``        until the client has logged in
``connection``                         the loop behind that: simple queries
``extended``                           the messages of the extended query
``prepared``, ``portals``              its statements and portals
``session``, ``statement``             running one statement, whatever it is
``transactions``                       the status byte: nothing is written, so there is nothing more
``commands``, ``cursors``              the commands of a session; results that are read in parts
``sending``                            rows, copies, notices
``types``, ``copy``                    values and rows as bytes
``registry``, ``context``              all connections with their cancel keys; what they use of the server
``errors``                             what a client sees of an error
=====================================  ==============================================================
"""
