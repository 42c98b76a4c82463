"""What programs use: consumers that are iterated, awaited, polled, or given a function."""
