"""For those who watch a server: metrics, a status page, and whether it is well, over HTTP."""
