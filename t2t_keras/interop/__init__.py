"""Models of other frameworks: import from and export to their formats."""
