"""The operating system's files, within one store's directory.

This room is the only one that calls the operating system. It must not know which files a store has.
"""
