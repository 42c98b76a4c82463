"""The HA connection: a master's log as frames, and reports of how far it was taken."""
