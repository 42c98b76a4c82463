"""One compaction of one queue, step by step; what it leaves behind, and mending that after a crash.

This room decides which messages stay and puts new pairs in the place of old ones. It must not know
when a run is due, nor that tasks of a job may make its pairs.
"""
