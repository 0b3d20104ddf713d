"""What a run has changed, told apart from what the user changed. Read change_set.py first."""
