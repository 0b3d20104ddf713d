"""Claude, through the `anthropic` package: Anthropic's own API, Amazon Bedrock, Google Vertex AI."""
