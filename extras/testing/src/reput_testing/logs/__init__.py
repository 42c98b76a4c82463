"""Small logs in memory, messages to fill them with, and a clock that is set by hand."""
