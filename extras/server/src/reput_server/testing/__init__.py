"""A broker for tests of programs that use RocketMQ, in whatever language they are written.

`broker` is the broker, `fixture` the plugin of pytest that brings ``rocketmq_broker``, and
``python -m reput_server.testing`` a process that takes commands line by line.
"""
