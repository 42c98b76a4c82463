"""Makes a plain store of a directory whose log or queues a broker keeps in another format.

The log is written record by record (`logcopy`), so that it has neither heads of entries nor
damage; ids of moved messages go to a file (`movedids`), settings in RocksDB to the files that plain
brokers read, and everything else is made as for a repair (`convertrun`).
"""
