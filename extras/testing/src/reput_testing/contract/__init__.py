"""The tests that every plugin must pass, and the driver that calls a plugin's hooks in them."""
