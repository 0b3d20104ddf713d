"""Reports over everything else: past activity with its cost, and `repoagent doctor`."""
