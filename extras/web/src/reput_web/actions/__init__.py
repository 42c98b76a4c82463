"""What the pages can change in a store, and the log of it."""
