"""One module a screen: which rows it shows, and what its commands do."""
