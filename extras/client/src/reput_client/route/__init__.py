"""Where topics are: routes as name servers tell them, and the table of routes in use."""
