"""Work over whole logs, on Spark or in processes of this machine."""
