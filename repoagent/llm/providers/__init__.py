"""The modules of providers; `repoagent.llm.registry` lists them.

anthropic*.py use the anthropic package, openai*.py and endpoints.py every server that speaks OpenAI's protocol,
llamacpp*.py and gguf.py model files, command*.py programs, manual.py the user. errors.py is what they share.
"""
