"""Install and run the git hooks that review commits and pushes."""
