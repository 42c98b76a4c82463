"""Work over whole logs and stores, on Spark or in processes of this machine; what people call.

It must not know the command line, nor how a session is started.
"""
