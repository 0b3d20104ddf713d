"""What an edit must not do without being asked: leave its scope, lose text, touch sensitive files."""
