"""Put rows into a store, each exactly once: the batches of a stream, or one DataFrame.

Tasks check their rows and keep them in segments; the driver holds the store's lock and puts them.
It must not know what Spark calls. Whole log files are written in `reput_arrow.logwriter`.
"""
