"""The PostgreSQL wire protocol, version 3: messages of a client in, answers out.

=====================================  ==============================================================
``protocol``                           one connection from its first byte to its last
``channel``                            its bytes: buffers, TLS, the end at any time
``messages``                           messages as bytes, read and written
``startup``                            until the client has logged in
``connection``                         the loop behind that: simple queries
``extended``                           the messages of the extended query
``prepared``                           its statements and portals
``session``, ``statement``             running one statement, whatever it is
``transactions``                       the status byte: nothing is written, so there is nothing more
``commands``, ``cursors``              the commands of a session; results that are read in parts
``sending``                            rows, copies, notices
``types``, ``copy``                    values and rows as bytes
``registry``                           all connections, their cancel keys and rates; what they share
``errors``                             what a client sees of an error
=====================================  ==============================================================
"""
