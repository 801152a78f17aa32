"""What the launchers of all families share: launch objects, checks of the arguments, sizes, splits of the keys."""
