"""`repoagent uses`: where symbols are used."""
