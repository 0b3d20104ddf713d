"""Models: requests, replies, usage, prices, conversations. Read model.py first, then registry.py and client.py."""
