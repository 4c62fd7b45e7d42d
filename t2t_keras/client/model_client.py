"""Asks a model server for translations: what gRPC and REST have in common."""

import abc
import ipaddress
import queue
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from t2t_keras.certificates import load_pair
from t2t_keras.client.answers import RequestError, read_answer
from t2t_keras.decoding.translator import Translation, windows
from t2t_keras.errors import UserError

MOST_RETRIES = 4
MOST_BACKOFF = 10.0
"""Seconds; a server that asks by Retry-After is waited for longer."""

_LEAST_BACKOFF = 0.01
"""A busy server is not to be asked without a pause."""

_AHEAD = 4
"""Requests, for each at once, that may be answered before an earlier one is."""


class Address(NamedTuple):
    """Where a server listens.

    Attributes:
        host: Name or IP address, without brackets.
        port: The port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Reads HOST:PORT.

        Raises:
            UserError: If it is none.
        """
        wrong = UserError(f"A server is HOST:PORT. Received: {server!r}")
        try:
            parts = urllib.parse.urlsplit(f"//{server}")
            host, port = parts.hostname, parts.port
            # What the system looks up; a part of a name has at most 63 characters.
            (host or "").encode("idna")
        except ValueError as error:
            raise wrong from error
        if not host or not port or parts.netloc != server or parts.username:
            raise wrong
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether what is sent there does not leave this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Client(abc.ABC):
    """Translates by a model server. Any number of threads may use it at once.

    Args:
        server: HOST:PORT.
        model_name: Name of the model there, an export of this project.
        version: Its version. Default the newest.
        label: Or the label of a version.
        timeout: Seconds for a request with all its retries. Default 60.
        retries: How often a request is sent again that found no server, or one that
            is too busy: at most `MOST_RETRIES`. Default 4.
        backoff: Seconds before the first retry; each further one waits twice as long
            as the one before, give or take 20%. Default 0.5.
        tls: Whether the connection is encrypted. Default: if one of the following
            files is given.
        ca_file: PEM file of who may sign the server's certificate, for TLS. Default
            whom the system trusts.
        certificate_file: PEM file of the certificate chain that this client shows a
            server that demands one. Default none.
        key_file: PEM file of its key.
        token: API token. Default none.
        n_best: Whether to ask for all hypotheses. Default the best only.

    Raises:
        UserError: If an argument is out of its range, or the token would be sent
            to another machine in the clear.
    """

    def __init__(
        self,
        server: str,
        model_name: str,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 60.0,
        retries: int = MOST_RETRIES,
        backoff: float = 0.5,
        tls: bool = False,
        ca_file: str | None = None,
        certificate_file: str | None = None,
        key_file: str | None = None,
        token: str | None = None,
        n_best: bool = False,
    ) -> None:
        self.server = server
        self.address = Address.parse(server)
        if not model_name:
            raise UserError("A model_name is needed. Received: nothing")
        for name in (model_name, label or ""):
            try:
                name.encode("utf-8")
            except UnicodeEncodeError as error:
                message = f"A name is valid UTF-8. Received: {name!r}"
                raise UserError(message) from error
        if version is not None and label:
            raise UserError(
                f"Either a version or a label. Received: {version} and {label!r}"
            )
        if not 0 < timeout <= threading.TIMEOUT_MAX:
            raise UserError(
                "timeout is above 0 seconds, and at most "
                f"{threading.TIMEOUT_MAX:.4g}. Received: {timeout}"
            )
        if backoff < _LEAST_BACKOFF:
            raise UserError(
                f"backoff is at least {_LEAST_BACKOFF}. Received: {backoff}"
            )
        if not 0 <= retries <= MOST_RETRIES:
            raise UserError(f"retries are 0 to {MOST_RETRIES}. Received: {retries}")
        if bool(certificate_file) != bool(key_file):
            raise UserError(
                "A client's certificate and its key go together. Received: "
                f"{certificate_file} and {key_file}"
            )
        tls = tls or bool(ca_file or certificate_file)
        if token and not tls and not self.address.is_loopback:
            raise UserError(
                f"The API token would be sent to {server} in the clear: use TLS."
            )
        self.model_name = model_name
        self.version = version
        self.label = label
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self.certificate_file = certificate_file
        self.key_file = key_file
        self.token = token
        self.n_best = n_best
        self._tls_context = (
            _tls_context(ca_file, certificate_file, key_file) if tls else None
        )

    @property
    def signature_name(self) -> str:
        """The signature that is asked for."""
        return "n_best" if self.n_best else "serving_default"

    def translate(self, sentences: Iterable[str]) -> list[list[Translation]]:
        """Translates sentences by one request; results are in their order.

        Args:
            sentences: As many as the server takes at once.

        Returns:
            For each sentence its hypotheses, the best first, and at least one.

        Raises:
            RequestError: If there is no answer.
            ValueError: If the sentences are a single string.
        """
        if isinstance(sentences, str):
            raise ValueError(f"A list of sentences. Received: {sentences[:80]!r}")
        sentences = list(sentences)
        if not sentences:
            return []
        outputs = self._ask(sentences)
        return read_answer(self.server, outputs, len(sentences), self.n_best)

    def _ask(self, sentences: list[str]) -> Mapping[str, Any]:
        """Sends a request until it is answered, as often and as long as is allowed."""
        ends = time.monotonic() + self.timeout
        attempt = 0
        while True:
            try:
                return self._predict(sentences, max(ends - time.monotonic(), 0.001))
            except RequestError as error:
                if not error.may_retry or attempt == self.retries:
                    raise
                failure = error
            attempt += 1
            seconds = failure.retry_after
            if seconds is None:
                seconds = min(self.backoff * 2 ** (attempt - 1), MOST_BACKOFF)
                seconds *= random.uniform(0.8, 1.2)
            if time.monotonic() + seconds >= ends:
                raise failure.at_deadline(attempt)
            time.sleep(seconds)

    def stream(
        self,
        sentences: Iterable[str],
        rows_per_request: int = 16,
        concurrent_requests: int = 4,
        wait: bool = False,
    ) -> Iterator[tuple[list[str], list[list[Translation]]]]:
        """Translates sentences as they come, several requests at once.

        Args:
            sentences: An iterable that may block, and need not end.
            rows_per_request: The most sentences of a request. Default 16.
            concurrent_requests: The most requests at once. Default 4.
            wait: Whether to wait until a request is full. Default False.

        Yields:
            The sentences of a request and the hypotheses of each, in order and as
            soon as they are there.

        Raises:
            RequestError: If a request is not answered, after the answers before it.
            Exception: What the iterable raises, likewise.
        """
        asked: queue.Queue[tuple[list[str], Future[list[list[Translation]]]]]
        asked = queue.Queue(_AHEAD * concurrent_requests)
        places = threading.Semaphore(concurrent_requests)
        pool = ThreadPoolExecutor(concurrent_requests)

        def ask() -> None:
            end: Future[list[list[Translation]]] = Future()
            try:
                # Before sentences are taken: while it waits, more of them may come.
                places.acquire()
                for group in windows(sentences, rows_per_request, wait):
                    answer = pool.submit(self.translate, group)
                    answer.add_done_callback(lambda _: places.release())
                    asked.put((group, answer))
                    places.acquire()
                end.set_result([])
            except Exception as error:
                end.set_exception(error)
            asked.put(([], end))

        threading.Thread(target=ask, daemon=True).start()
        try:
            group, answer = asked.get()
            while group:
                yield group, answer.result()
                group, answer = asked.get()
            answer.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    @abc.abstractmethod
    def _predict(self, sentences: list[str], seconds: float) -> Mapping[str, Any]:
        """Sends a request once; returns the outputs, arrays or lists, by name.

        Raises:
            RequestError: If there is no answer within so many seconds.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _tls_context(
    ca_file: str | None, certificate_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # Those of ssl among them.
        raise UserError(f"{ca_file} holds no certificates: {error}") from error
    if certificate_file and key_file:
        try:
            load_pair(context, certificate_file, key_file)
        except UserError as error:
            raise UserError(
                f"{error}. Received: {certificate_file} and {key_file}"
            ) from error
    return context
