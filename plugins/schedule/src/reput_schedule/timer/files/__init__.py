"""The timer's files: log and wheel, and beside them the checkpoint and the counts."""
