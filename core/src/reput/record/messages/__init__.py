"""Messages that a producer puts, checked and made of built-in types.

This package knows fields and limits. It must not know where a record is in the log.
"""
