"""The HA connection: a socket, and when what is reported."""
