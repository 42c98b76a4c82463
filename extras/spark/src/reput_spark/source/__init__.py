"""Spark's entry: the only package that subclasses `pyspark.sql.datasource`, and its types.

It turns options and schemas into plain values and calls plain functions of lower packages; it
must not know how a session is started, nor the jobs that run on it.
"""
