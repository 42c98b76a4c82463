"""Compaction of many queues at once: rounds of tasks that an engine runs, also in other processes.

This package cuts the work into tasks, and makes the pairs that the runs take over. It must know
neither the plugin nor which engine runs the tasks.
"""
