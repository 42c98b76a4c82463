"""Disks that fail, die or forget what was not flushed, and damage to files."""
