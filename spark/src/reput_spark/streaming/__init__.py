"""Logs that grow as streaming DataFrames."""
