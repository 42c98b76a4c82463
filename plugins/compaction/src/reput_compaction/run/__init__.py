"""One compaction of one queue, step by step; the files that it leaves, and recovery after a crash.

This package decides which messages stay, and replaces old pairs by new ones. It must know neither
when a run is due nor that tasks of a job may make its pairs.
"""
