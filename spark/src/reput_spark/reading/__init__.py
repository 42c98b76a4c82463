"""Read logs: what was asked for, planned as tasks, each of which makes batches of Arrow.

It must not know Spark, so that all of it is tested without a JVM, nor how a store is written.
"""
