"""Finding messages without a queue: by key, and by physical offset."""
