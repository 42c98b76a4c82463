"""One consume queue: how units come to it, its extent, and finding that again after a crash.

This room keeps queues and their extend files in line with the log. It must not know who reads them,
nor the plugin's hooks.
"""
