"""Exit statuses of the commands; the README lists them."""

EXIT_FAILURE = 1
"""A failure at run time, or a bug."""
EXIT_USAGE = 2
"""A user error in flags or input."""
EXIT_SAVED = 75
"""Stopped by a signal after saving; the same command line resumes (EX_TEMPFAIL)."""
EXIT_INTERRUPTED = 130
"""Interrupted from the keyboard."""
