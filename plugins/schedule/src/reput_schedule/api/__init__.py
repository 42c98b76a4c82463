"""What users call: delay a message, cancel it, and ask what waits."""
