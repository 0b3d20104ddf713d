"""Review by a model. Read `review` first.

`chunks` cuts a change into blocks, `prompt` builds the prompt of a call, `loop` runs it, `claims` parses and verifies
what comes back, `cache` saves it.
"""
