"""The model loop: a reply is parsed into actions, tools perform them, and observations go back.

Read loop.py first; then parse_reply.py and reply_pieces.py (the text format), actions.py and state.py (the types).
"""
