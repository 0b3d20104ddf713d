"""The files that a run changes: read change_set.py first, then detect.py and snapshot.py for changes by commands."""
