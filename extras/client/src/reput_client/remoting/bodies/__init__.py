"""Bodies of requests and of answers: JSON in RocketMQ's dialect, and batches of messages."""
