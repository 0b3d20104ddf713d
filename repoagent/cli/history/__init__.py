"""`repoagent history`: who works on a file, and what each commit did to it."""
