"""The members of each group of a store now, for readers in this process and in others."""
