"""`repoagent review`: findings about a change. Read review.py first, then checks/ and llm/."""
