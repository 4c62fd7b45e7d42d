"""The exception for mistakes of the user, as opposed to bugs of this project."""


class UserError(ValueError):
    """Reports something that the user can correct: a value, a file, an environment.

    Raised on purpose, where a value is checked or a file is read; the message names the
    value or the file received and says what to do. A stage prints the message on one
    line and exits with status 2. Any other exception, a plain `ValueError` among them,
    is a bug or a failure of the machine, and a stage exits with status 1.

    It is a `ValueError`, so callers of the library need to know no other class.
    """
