"""Compaction of many queues at once: rounds of tasks that an engine runs, in other processes too.

This room cuts the work into tasks, and makes the pairs that the runs take over. It must not know
the plugin, nor which engine runs the tasks.
"""
