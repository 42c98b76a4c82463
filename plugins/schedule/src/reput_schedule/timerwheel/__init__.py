"""Engine of the timer wheel: messages delivered at any time. It imports nothing of the levels."""
