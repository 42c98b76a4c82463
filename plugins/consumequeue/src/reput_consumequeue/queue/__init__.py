"""One consume queue: adding units, its extent, and recovering the extent after a crash.

This package keeps queues and their extend files in line with the log. It must know neither how
queues are read nor the plugin's hooks.
"""
