"""Where logs are, on any file system, and how those of DLedger are read."""
