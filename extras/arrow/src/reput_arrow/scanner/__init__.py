"""Scans: what a program asks for, read lazily as a stream of Arrow batches of bounded size.

It must not know Spark, files that are written, or the command line.
"""
