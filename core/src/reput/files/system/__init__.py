"""The operating system's files, within one store's directory.

This is the only package that calls the operating system. It must not know which files a store has.
"""
