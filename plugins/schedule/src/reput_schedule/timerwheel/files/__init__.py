"""The timer's files: log and wheel, and also the checkpoint and the counts."""
