"""Put rows into a store: at once, as whole log files, or batch by batch as a stream brings them.

It must not know Spark, nor how logs are read for it.
"""
