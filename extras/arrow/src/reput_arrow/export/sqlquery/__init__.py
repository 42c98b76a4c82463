"""Queries in SQL: DuckDB reads the messages of stores as a table, batch by batch.

It must not know the command line.
"""
