"""Requests of operators: topics, groups, connections, progress of groups, broker state."""
