"""What operators ask: topics, groups, connections, how far groups are, how the broker is."""
