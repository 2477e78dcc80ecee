"""Things on a screen. They hold what is shown and never what it is made from."""
