"""Small logs in memory, what to fill them with, and a clock that is set by hand."""
