"""SQL92 conditions: cut into tokens, parsed, and evaluated for one message or a column.

This package knows RocketMQ's grammar, and what strict compiling refuses. It must not know
subscriptions, consumers or stores.
"""
