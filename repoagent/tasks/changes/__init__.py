"""The files that a run changes. Read change_set.py first; snapshot.py and command_watch.py detect what commands
change."""
