"""Starting a server that the scenario launches, and describing the one that answers."""
