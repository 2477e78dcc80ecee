"""Short tasks with one right answer: what a server is worth whose speed and memory are praised."""
