"""`repoagent review`: what is wrong or missing in a change."""
