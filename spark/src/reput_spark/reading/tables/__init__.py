"""Rows of the tables that people of RocketMQ ask for: of one store, or of one task of a log.

It must not know Spark.
"""
