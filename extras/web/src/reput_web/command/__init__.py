"""``reput browse``."""
