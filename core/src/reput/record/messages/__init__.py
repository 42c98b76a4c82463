"""Messages that a producer puts, checked and made of built-in types.

This room knows fields and limits. It must not know where a record stands in the log.
"""
