"""Read logs that grow: where a stream begins, how far its next batch goes, and the tasks of it.

It must not know Spark, nor where offsets are kept.
"""
