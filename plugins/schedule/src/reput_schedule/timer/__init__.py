"""The engine of the timer wheel: messages at any time. It knows nothing of the levels."""
