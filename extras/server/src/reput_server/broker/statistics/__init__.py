"""What a broker has done: counts by topic and group, times of puts, waits for threads."""
