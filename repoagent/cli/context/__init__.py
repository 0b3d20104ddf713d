"""`repoagent context`: the prompt that an edit would send."""
