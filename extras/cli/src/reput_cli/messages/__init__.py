"""Messages: reading, finding, choosing and showing them, for several commands."""
