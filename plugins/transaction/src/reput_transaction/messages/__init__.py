"""The messages of a transaction: the half, its copies, the op markers, unique keys.

This package makes and reads them as RocketMQ does. It must not know which transactions are open,
nor put any message.
"""
