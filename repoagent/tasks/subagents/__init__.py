"""Sub-agents: runs that a run delegates to. Read tool.py first."""
