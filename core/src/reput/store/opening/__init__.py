"""Opens a store, in stages that hand on finished values.

This package finds the log's end, brings the plugins in line with it and starts the threads. It must
not know how an open store answers a call.
"""
