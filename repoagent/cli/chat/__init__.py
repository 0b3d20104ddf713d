"""`repoagent chat`: a conversation with a model in the terminal. Read chat.py first."""
