"""What users call: a message says when it comes, is cancelled, and what waits is told."""
