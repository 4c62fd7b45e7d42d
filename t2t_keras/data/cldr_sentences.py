"""Parallel sentences generated from CLDR and num2words.

The Unicode Common Locale Data Repository, which Babel includes, defines how dates,
amounts and names are written in hundreds of locales; num2words spells out numbers.
Formatting one value in two locales gives a sentence and its translation.
"""

import datetime
import functools
import random
import re
from collections.abc import Callable, Iterator
from typing import Literal

from t2t_keras.errors import UserError
from t2t_keras.optional_packages import require_extra

require_extra("cldr", "The corpus cldr")

import num2words
from babel import Locale, UnknownLocaleError, dates, lists, numbers, units

Length = Literal["long", "short"]

Formatter = Callable[[str], str]
"""Formats one fixed value in a given locale."""

SOURCES = ("babel", "num2words")
"""Distributions whose data the sentences are generated from."""

_MAX_REPEATS = 100_000
"""Number of consecutive repeated sentences after which generation gives up."""

_UNITS = [
    "length-kilometer",
    "length-meter",
    "length-centimeter",
    "length-mile",
    "length-foot",
    "mass-kilogram",
    "mass-gram",
    "mass-tonne",
    "mass-pound",
    "volume-liter",
    "volume-milliliter",
    "volume-cubic-meter",
    "area-square-kilometer",
    "area-hectare",
    "temperature-celsius",
    "speed-kilometer-per-hour",
    "energy-kilowatt-hour",
    "power-watt",
    "digital-gigabyte",
    "digital-megabyte",
    "frequency-hertz",
    "electric-volt",
    "angle-degree",
]
_CURRENCIES = [
    "EUR",
    "USD",
    "GBP",
    "JPY",
    "CHF",
    "CNY",
    "INR",
    "BRL",
    "CAD",
    "AUD",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CZK",
    "RUB",
    "TRY",
    "ZAR",
    "MXN",
    "KRW",
]
_DURATION_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_DURATION_LIMITS = (100, 12, 52, 31, 24, 60, 60)


def _date(rng: random.Random) -> Formatter:
    day = datetime.date(1900, 1, 1) + datetime.timedelta(days=rng.randrange(73_000))
    moment = datetime.datetime.combine(
        day, datetime.time(rng.randrange(24), rng.randrange(60))
    )
    kind = rng.choice(("date", "date", "datetime", "skeleton"))
    if kind == "date":
        style = rng.choice(("full", "long", "medium", "short"))
        return lambda locale: dates.format_date(day, style, locale)
    if kind == "datetime":
        style = rng.choice(("long", "medium", "short"))
        # The long form includes a time zone; the shorter forms do not.
        return lambda locale: dates.format_datetime(
            moment, style if style != "long" else "medium", locale=locale
        )
    skeleton = rng.choice(("yMMMd", "MMMMd", "yMMMM", "MMMEd", "yMMMEd"))
    return lambda locale: dates.format_skeleton(skeleton, moment, locale=locale)


def _format_unit(amount: float, unit: str, length: Length, locale: str) -> str:
    text = units.format_unit(amount, unit, length, locale=locale)
    if unit in text:
        raise KeyError(f"{locale} has no word for {unit}")
    return text


def _duration(rng: random.Random) -> Formatter:
    first = rng.randrange(len(_DURATION_UNITS) - 1)
    parts = [
        (_DURATION_UNITS[i], rng.randrange(1, _DURATION_LIMITS[i]))
        for i in range(first, min(first + rng.choice((1, 2, 2, 3)), 7))
    ]
    length: Length = rng.choice(("long", "long", "short"))
    return lambda locale: lists.format_list(
        [_format_unit(n, f"duration-{unit}", length, locale) for unit, n in parts],
        style="unit" if length == "long" else "unit-short",
        locale=locale,
    )


def _relative_time(rng: random.Random) -> Formatter:
    i = rng.randrange(len(_DURATION_UNITS))
    n = rng.choice((-1, 1)) * rng.randrange(1, _DURATION_LIMITS[i])
    seconds = dict(dates.TIMEDELTA_UNITS)[_DURATION_UNITS[i]]
    style: Length = rng.choice(("long", "short"))
    return lambda locale: dates.format_timedelta(
        datetime.timedelta(seconds=n * seconds),
        granularity="second",
        threshold=1,
        add_direction=True,
        format=style,
        locale=locale,
    )


def _amount(rng: random.Random) -> float:
    digits = rng.randrange(1, 6)
    whole = rng.randrange(10 ** (digits - 1), 10**digits)
    return whole if rng.random() < 0.6 else whole + rng.randrange(1, 100) / 100


def _quantity(rng: random.Random) -> Formatter:
    amount, unit = _amount(rng), rng.choice(_UNITS)
    length: Length = rng.choice(("long", "long", "short"))
    return lambda locale: _format_unit(amount, unit, length, locale)


def _money(rng: random.Random) -> Formatter:
    amount, currency = _amount(rng), rng.choice(_CURRENCIES)
    style: Literal["name", "standard"] = rng.choice(("name", "standard"))
    return lambda locale: numbers.format_currency(
        amount, currency, locale=locale, format_type=style
    )


@functools.cache
def _named_codes(kind: str) -> list[str]:
    """Returns the codes of territories or languages that English has a name for."""
    names = getattr(Locale("en"), kind)
    return sorted(code for code in names if re.fullmatch("[a-z]{2}|[A-Z]{2}", code))


def _names(kind: str, rng: random.Random) -> Formatter:
    codes = rng.sample(_named_codes(kind), rng.choice((1, 2, 2, 3, 3, 4)))
    style: Literal["standard", "or"] = rng.choice(("standard", "or"))

    def format_names(locale: str) -> str:
        names = getattr(Locale.parse(locale), kind)
        return lists.format_list([names[code] for code in codes], style, locale)

    return format_names


def _spelled_number(rng: random.Random) -> Formatter:
    number = rng.randrange(10 ** rng.randrange(1, 7))
    to = rng.choice(("cardinal", "cardinal", "ordinal"))
    return lambda locale: _spell(number, to, locale)


def _spell(number: int, to: str, locale: str) -> str:
    try:
        return num2words.num2words(number, to=to, lang=locale)
    except (NotImplementedError, LookupError, AttributeError, TypeError) as error:
        # num2words reports a missing language or form by different exceptions,
        # depending on the language. Babel raises a KeyError, and so do we.
        raise KeyError(f"{locale} has no word for {number} ({to})") from error


DOMAINS: dict[str, Callable[[random.Random], Formatter]] = {
    "dates": _date,
    "durations": _duration,
    "relative times": _relative_time,
    "quantities": _quantity,
    "money": _money,
    "countries": functools.partial(_names, "territories"),
    "languages": functools.partial(_names, "languages"),
    "spelled-out numbers": _spelled_number,
}
"""The topics of the sentences. A topic that one of the two locales lacks is skipped."""


def check_locales(source_lang: str, target_lang: str) -> None:
    """Checks that two locales differ and that CLDR has both.

    Raises:
        UserError: If the locales are equal or CLDR lacks one of them.
    """
    if source_lang == target_lang:
        raise UserError(f"The two languages must differ. Received: {source_lang!r}")
    for locale in (source_lang, target_lang):
        try:
            Locale.parse(locale)
        except (UnknownLocaleError, ValueError) as error:
            raise UserError(f"CLDR has no locale {locale!r}: {error}") from error


def generate_pairs(
    source_lang: str, target_lang: str, seed: int = 0
) -> Iterator[tuple[str, str]]:
    """Yields sentence pairs without end and without repeated source sentences.

    Args:
        source_lang: CLDR locale of the source side, such as "en" or "pt_BR".
        target_lang: CLDR locale of the target side.
        seed: Random seed. Together with the locales it determines the pairs. Default
            0.

    Raises:
        UserError: If a locale is unknown, the two locales have no domain in common,
            or all different sentences have been generated.
    """
    check_locales(source_lang, target_lang)
    rng = random.Random(f"cldr/{source_lang}/{target_lang}/{seed}")
    domains = [
        domain
        for name, domain in DOMAINS.items()
        if _supports(domain, source_lang) and _supports(domain, target_lang)
    ]
    if not domains:
        raise UserError(
            "CLDR and num2words have too little data to generate sentence pairs for "
            f"{source_lang!r} and {target_lang!r}."
        )
    seen: set[str] = set()
    repeats = 0
    while repeats < _MAX_REPEATS:
        repeats += 1
        formatter = rng.choice(domains)(rng)
        try:
            # CLDR uses several kinds of space between numbers and units.
            source, target = (
                " ".join(formatter(lang).split()) for lang in (source_lang, target_lang)
            )
        except KeyError:
            continue  # One of the locales lacks this name or form.
        if source and target and source not in seen:
            seen.add(source)
            repeats = 0
            yield source, target
    raise UserError(
        f"Only about {len(seen):,} different sentences can be generated for "
        f"{source_lang!r} and {target_lang!r}. Request fewer pairs."
    )


def _supports(domain: Callable[[random.Random], Formatter], locale: str) -> bool:
    """Returns whether a locale can format a domain, by trying some values."""
    failures = 0
    for seed in range(20):
        try:
            domain(random.Random(seed))(locale)
        except KeyError:
            failures += 1
    return failures < 10
