"""Read only what a question needs: queues and the key index lead to records, the log decides.

The files that are derived from a log prove a place only. The record there is checked, and what they
cannot answer for is read from the log. So they change how much is read, and never what is found.
This package must not know Spark, nor make Arrow batches.
"""
