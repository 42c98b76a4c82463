"""Pop: messages are handed out one by one, and are invisible to others until a deadline."""
