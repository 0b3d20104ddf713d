"""`repoagent mcp`: repoagent as tools for other assistants. Read server.py first."""
