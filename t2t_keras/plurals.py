"""Formats counts for messages."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number and a noun that agrees with it: "1 line", "2,000 lines".

    Args:
        number: The number.
        noun: The noun in the singular.
        plural: The noun in the plural. Default "" (the singular with an "s").
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
