"""Who is in which group of a store now, for readers in this process and in others."""
