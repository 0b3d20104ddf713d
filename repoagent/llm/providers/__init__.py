"""The provider modules; `repoagent.llm.registry` lists them.

anthropic*.py use the anthropic package; openai*.py and endpoints.py call servers with OpenAI's protocol; llamacpp*.py
run model files; command*.py run programs; manual.py asks the user. errors.py is shared by all.
"""
