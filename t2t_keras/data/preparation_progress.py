"""Progress lines of long preparations."""

import datetime
import time
from collections.abc import Callable

from t2t_keras.plurals import counted

_REPORT_SECONDS = 5


class Progress:
    """Reports counts of pairs every few seconds, with the rate and the time left.

    Args:
        title: Start of each line.
        total: Number of pairs to process, or None if it is unknown.
        report: Called with each line.
    """

    def __init__(
        self, title: str, total: int | None, report: Callable[[str], None]
    ) -> None:
        self._title = title
        self._total = total
        self._report = report
        self._done = 0
        self._started = self._reported = time.monotonic()

    def add(self, pairs: int) -> None:
        """Counts processed pairs."""
        self._done += pairs
        now = time.monotonic()
        if self._done == self._total or now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        rate = self._done / (now - self._started)
        of_total = left = ""
        if self._total:
            of_total = f" of {self._total:,} ({self._done / self._total:.0%})"
            seconds = round((self._total - self._done) / rate)
            left = f", {datetime.timedelta(seconds=seconds)} left"
        pairs_done = counted(self._done, "pair")
        self._report(f"{self._title} {pairs_done}{of_total}, {rate:,.0f} pairs/s{left}")
