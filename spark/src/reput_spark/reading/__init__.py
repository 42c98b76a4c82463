"""Logs as DataFrames: options, conditions, tasks, rows."""
