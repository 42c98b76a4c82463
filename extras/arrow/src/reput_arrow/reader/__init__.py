"""Read records out of logs as Arrow: which ones, in how many tasks, and the batches of each.

It must not know Spark, nor who asks: a program, a command, a job.
"""
