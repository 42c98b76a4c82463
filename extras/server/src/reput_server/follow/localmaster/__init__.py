"""A broker's directory on this machine as the source of its log."""
