"""Reports: past activity with its cost, and `repoagent doctor`."""
