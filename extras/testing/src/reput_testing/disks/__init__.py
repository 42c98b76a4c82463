"""Disks that fail, that kill their process or forget what was not flushed; damage to files."""
