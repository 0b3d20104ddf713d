"""Review by a model. Read `review` first.

`chunks` cuts a change into blocks, `prompt` builds the prompt of a call, `loop` runs the call, `claims` parses and
verifies the reported findings.
"""
