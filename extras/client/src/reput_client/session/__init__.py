"""A client's presence at brokers: one client id, its connections, its groups, its heartbeats."""
