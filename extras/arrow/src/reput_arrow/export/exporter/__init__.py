"""Exports: messages of logs as Parquet, JSON lines or CSV, written by the tasks that read the log.

It must not know the command line, nor what runs its tasks.
"""
