"""Any server that speaks OpenAI's Chat Completions, through the `openai` package."""
