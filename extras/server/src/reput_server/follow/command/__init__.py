"""The commands ``reput follow`` and ``reput promote``."""
