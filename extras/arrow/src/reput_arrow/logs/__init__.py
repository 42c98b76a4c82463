"""Find the logs that paths lead to, on any file system, and open them: plain ones and DLedger's.

It must not know Spark, Arrow's columns, or what is read of a log.
"""
