"""Read logs: a read is planned as tasks, and each task makes Arrow batches.

It must not know Spark, so that all of it is tested without a JVM, nor how a store is written.
"""
