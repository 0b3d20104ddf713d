"""Models: requests, replies, usage, prices, conversations.

Read model.py first (`Model`, `Request`, `Reply`), then registry.py (the table of providers), open_model.py (from
settings to a model) and complete.py (retries, continuation, limits). catalog.py has prices and windows, usage.py counts
cost; conversation.py and media.py hold the content of requests.
"""
