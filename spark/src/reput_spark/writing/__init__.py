"""Put the rows of a stream into a store, batch by batch as Spark brings them, each exactly once.

It must not know what Spark calls. Writes at once are in `reput_export.writing`.
"""
