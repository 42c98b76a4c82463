"""Put the batches of a stream into a store, each row once, whatever happens in between.

It must not know log files: rows wait in segments, and go through the store's own ``put_many``.
"""
