"""The model loop: a reply is parsed into actions, tools perform them, and observations go back.

Read loop.py first; then protocol.py and reply_parser.py (the text format), actions.py and state.py (the types).
"""
