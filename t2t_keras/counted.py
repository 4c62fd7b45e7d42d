"""Numbers of things, for messages."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number and a noun that agrees with it: "1 line", "2,000 lines".

    Args:
        number: How many there are.
        noun: What they are, in the singular.
        plural: The same in the plural. Default: the noun and an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
