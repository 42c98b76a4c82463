"""Put rows into a store as whole log files: staged by tasks, numbered, and published by a rename.

It must not know Spark, nor where the rows come from.
"""
