"""Consumers at brokers: `port` is what `reput_consumer` asks, put into requests."""
