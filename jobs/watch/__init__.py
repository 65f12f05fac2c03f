"""``tidegate watch``: the sources that run on this machine, in the terminal or as a page that refreshes itself."""
