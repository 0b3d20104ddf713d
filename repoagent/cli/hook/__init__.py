"""`repoagent hook`: git's hooks that review each commit or push."""
