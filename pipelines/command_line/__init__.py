"""Command-line code that stages share: models by flags, input, output, outcomes."""
