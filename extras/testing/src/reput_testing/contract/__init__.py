"""The tests that every plugin must pass, and the driver that takes one through its hooks."""
