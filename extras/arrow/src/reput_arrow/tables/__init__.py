"""Tables that people of RocketMQ ask for, as Arrow: of one store, or of messages of a trace topic.

They are made of queues, of the small files in ``config/``, and of the log; see `queuerows`,
`queuesurvey` and `messagetrace`. `reput_spark.tables` makes DataFrames of them.
"""
