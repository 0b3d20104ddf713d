"""The model loop: parse a reply into actions, perform them with tools, and return observations.

Read loop.py first; then parse_reply.py (the protocol), actions.py and state.py (the types).
"""
