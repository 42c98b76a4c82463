"""Routes of topics as name servers send them, and the table of routes in use."""
