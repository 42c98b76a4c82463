"""Queues that a reader finds in the log, where a broker keeps them in files that reput cannot read.

This package makes units from the log, and keeps them while the reader is open. It must not write
into the store's directory, and must know neither RocksDB's files nor how queues are read.
"""
