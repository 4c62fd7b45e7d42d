"""Base class of the gRPC and REST clients of a model server."""

import abc
import functools
import ipaddress
import queue
import ssl
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from t2t_keras.certificates import load_pair
from t2t_keras.client.responses import read_response
from t2t_keras.client.retrying import MAX_RETRIES, Retrying
from t2t_keras.decoding.translator import Translation, windows
from t2t_keras.errors import UserError

_READ_AHEAD = 4
"""Requests to read ahead per concurrent request while a response is pending."""


class Address(NamedTuple):
    """Address of a server.

    Attributes:
        host: Name or IP address, without brackets.
        port: Port number.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Parses HOST:PORT.

        Raises:
            UserError: If `server` is not an address.
        """
        invalid_address = UserError(
            f"The server must be HOST:PORT. Received: {server!r}"
        )
        try:
            parts = urllib.parse.urlsplit(f"//{server}")
            host, port = parts.hostname, parts.port
            # The resolver's encoding; it limits each label to 63 characters.
            (host or "").encode("idna")
        except ValueError as error:
            raise invalid_address from error
        if not host or not port or parts.netloc != server or parts.username:
            raise invalid_address
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether the address is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Client(abc.ABC):
    """Translates with a model server. Thread-safe.

    Args:
        server: Address, HOST:PORT.
        model_name: Name of the served model, an export of this project.
        version: Version of the model. Default the newest.
        label: Label of a version; excludes `version`. Default none.
        timeout: Seconds for a request including all its retries. Default 60.
        retries: Maximum number of retries if no server is reached or the server is
            busy, at most `MAX_RETRIES`. Default 4.
        backoff: Seconds before the first retry; doubles with each further retry, with
            a jitter of 20%. Default 0.5.
        tls: Whether to encrypt the connection. Always on if one of the following files
            is given. Default False.
        ca_file: PEM file of the authorities that may sign the server's certificate.
            Default the system's trusted authorities.
        certificate_file: PEM file of this client's certificate chain, for servers that
            require one. Default none.
        key_file: PEM file of the certificate's private key.
        token: API token. Default none.
        n_best: Whether to request all hypotheses instead of the best. Default False.

    Raises:
        UserError: If an argument is out of range, or the token would be sent to
            another machine unencrypted.
    """

    def __init__(
        self,
        server: str,
        model_name: str,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 60.0,
        retries: int = MAX_RETRIES,
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
            raise UserError("A model_name is required. Received: an empty string")
        for name in (model_name, label or ""):
            try:
                name.encode("utf-8")
            except UnicodeEncodeError as error:
                message = f"A name must be valid UTF-8. Received: {name!r}"
                raise UserError(message) from error
        if version is not None and label:
            raise UserError(
                f"Give either a version or a label. Received: {version} and {label!r}"
            )
        if bool(certificate_file) != bool(key_file):
            raise UserError(
                "A client certificate and its key must be given together. Received: "
                f"{certificate_file} and {key_file}"
            )
        tls = tls or bool(ca_file or certificate_file)
        if token and not tls and not self.address.is_loopback:
            raise UserError(
                f"The API token would be sent unencrypted to {server}: use TLS."
            )
        self.model_name = model_name
        self.version = version
        self.label = label
        self.retrying = Retrying(timeout, retries, backoff)
        self.certificate_file = certificate_file
        self.key_file = key_file
        self.token = token
        self.n_best = n_best
        self._tls_context = (
            _tls_context(ca_file, certificate_file, key_file) if tls else None
        )

    @property
    def signature_name(self) -> str:
        """Name of the requested signature."""
        return "n_best" if self.n_best else "serving_default"

    def translate(self, sentences: Iterable[str]) -> list[list[Translation]]:
        """Translates sentences with one request.

        Args:
            sentences: No more than the server accepts in one request.

        Returns:
            Hypotheses of each sentence, in order, the best first, at least one.

        Raises:
            RequestError: If the request fails.
            ValueError: If `sentences` is a single string.
        """
        if isinstance(sentences, str):
            raise ValueError(f"sentences must be a list. Received: {sentences[:80]!r}")
        sentences = list(sentences)
        if not sentences:
            return []
        outputs = self.retrying.call(functools.partial(self._predict, sentences))
        return read_response(self.server, outputs, len(sentences), self.n_best)

    def stream(
        self,
        sentences: Iterable[str],
        rows_per_request: int = 16,
        concurrent_requests: int = 4,
        wait: bool = False,
    ) -> Iterator[tuple[list[str], list[list[Translation]]]]:
        """Translates a stream of sentences with several concurrent requests.

        Args:
            sentences: Iterable of sentences. It may block and may be endless.
            rows_per_request: Maximum number of sentences per request. Default 16.
            concurrent_requests: Maximum number of concurrent requests. Default 4.
            wait: Whether to wait until a request is full. Default False.

        Yields:
            The sentences of a request and the hypotheses of each, in order, as soon as
            they arrive.

        Raises:
            RequestError: If a request fails; raised after all earlier results.
            Exception: What the iterable raises; raised after all earlier results.
        """
        pending: queue.Queue[tuple[list[str], Future[list[list[Translation]]]]]
        pending = queue.Queue(_READ_AHEAD * concurrent_requests)
        free_slots = threading.Semaphore(concurrent_requests)
        pool = ThreadPoolExecutor(concurrent_requests)

        def send() -> None:
            end: Future[list[list[Translation]]] = Future()
            try:
                # Waits before it takes sentences, since more may arrive meanwhile.
                free_slots.acquire()
                for group in windows(sentences, rows_per_request, wait):
                    future = pool.submit(self.translate, group)
                    future.add_done_callback(lambda _: free_slots.release())
                    pending.put((group, future))
                    free_slots.acquire()
                end.set_result([])
            except Exception as error:
                end.set_exception(error)
            pending.put(([], end))

        threading.Thread(target=send, daemon=True).start()
        try:
            group, future = pending.get()
            while group:
                yield group, future.result()
                group, future = pending.get()
            future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    @abc.abstractmethod
    def _predict(self, sentences: list[str], seconds: float) -> Mapping[str, Any]:
        """Sends a request once.

        Args:
            sentences: Sentences to translate.
            seconds: Timeout in seconds.

        Returns:
            Outputs by name, arrays or lists.

        Raises:
            RequestError: If the request fails or times out.
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
    except OSError as error:  # Includes ssl.SSLError.
        raise UserError(f"{ca_file} holds no certificates: {error}") from error
    if certificate_file and key_file:
        try:
            load_pair(context, certificate_file, key_file)
        except UserError as error:
            raise UserError(
                f"{error}. Received: {certificate_file} and {key_file}"
            ) from error
    return context
