"""What the small files beside the log tell: offsets of consumers, delays, places of plugins."""
