"""Imports: stores made of Parquet, JSON lines and CSV, in the order that the messages had.

It must not know the command line.
"""
