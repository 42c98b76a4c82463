"""Reading, finding, choosing and showing messages, shared by several commands."""
