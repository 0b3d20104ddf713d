"""One module, or one family of modules, per provider of models."""
