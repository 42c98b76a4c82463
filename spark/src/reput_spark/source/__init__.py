"""What Spark calls: the only room that subclasses `pyspark.sql.datasource`, and the types it needs.

It turns options and schemas into plain values and calls plain functions of the rooms below it; it
must not know how a session is started, nor the jobs that run on it.
"""
