"""What stands behind `llm.Model`: a module or three for each provider. Imported by `llm.select` alone."""
