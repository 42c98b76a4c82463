"""Plugins of a store: how they are, what they are, and asking a writer for something."""
