"""What a run has changed: read change_set.py first, then detect.py and snapshot.py for what commands change."""
