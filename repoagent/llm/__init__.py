"""Models: requests, replies, usage, prices, conversations.

Read model.py first (`Model`, `Request`, `Reply`), then provider.py (the table of providers), registry.py (from settings
to a model) and client.py (retries, continuation, limits). catalog.py knows prices and windows, usage.py counts cost,
availability.py checks what can be reached; conversation.py, media.py and attachments.py are what is sent.
"""
