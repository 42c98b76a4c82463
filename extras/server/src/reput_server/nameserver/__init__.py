"""The name server: which brokers there are, and which topics these have."""
