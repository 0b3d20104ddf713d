"""`repoagent chat`: a conversation with a model in the terminal.

Read command.py (options, loop), chat_session.py (state, one turn), input.py (line editor), then slash_commands.py.
"""
