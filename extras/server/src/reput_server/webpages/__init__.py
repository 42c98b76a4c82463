"""Pages for a browser over a store that is served or followed; `reput_web` has the pages."""
