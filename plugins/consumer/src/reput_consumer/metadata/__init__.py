"""Files in which RocketMQ keeps topics, groups and offsets; read and written as a broker does.

Nothing here knows a message, a queue's content or a consumer.
"""
