"""Plugins of a store: their states, their documentation, and requests to the writing process."""
