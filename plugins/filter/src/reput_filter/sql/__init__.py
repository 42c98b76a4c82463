"""SQL92 conditions: cut into tokens, parsed, and kept as nodes that judge a message or a column.

This room knows RocketMQ's grammar, and what is refused where that is asked for. It must not know
subscriptions, consumers or stores.
"""
