"""Foreign web pages are rejected; responses carry the required headers."""

import asyncio
import json
import re
import sys

import pytest

from t2t_keras.server.api_token import is_authorized
from t2t_keras.server.http_security import HttpPolicy


def send_request(headers, status=200, method="POST", **options):
    """Sends a request; returns the status, the headers and the body."""
    messages = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message):
        messages.append(message)

    scope = {
        "type": "http",
        "method": method,
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }
    asyncio.run(HttpPolicy(app, **options)(scope, None, send))
    start, body = messages
    response_headers = {
        name.decode(): value.decode() for name, value in start["headers"]
    }
    return start["status"], response_headers, json.loads(body["body"])


@pytest.mark.parametrize(
    "host",
    [
        *("localhost:8501", "LOCALHOST", "127.0.0.1:8501", "[::1]:8501", "10.1.2.3"),
        *("serving:8501", "me.localhost", "localhost.", "", "in.example.com"),
        "Named.Example.Org:80",
    ],
)
def test_local_and_allowed_host_names_are_accepted(host):
    allowed = [".example.com", "named.example.org"]
    assert send_request({"host": host}, allowed_hosts=allowed)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8501", "127.0.0.1.evil.example", "0x7f.1"),
        *("example.com", "aexample.com", "localhost.evil.example", "a@127.0.0.1"),
        *("127.0.0.1/x", "a:b", "[::1"),
    ],
)
def test_foreign_host_name_is_rejected_and_flag_is_named(host):
    status, _, body = send_request({"host": host}, allowed_hosts=[".example.com"])
    assert status == 403
    assert "--allowed_hosts" in body["error"]
    assert send_request({"host": host}, allowed_hosts=["*"])[0] == (
        200 if host not in ("a@127.0.0.1", "127.0.0.1/x", "a:b", "[::1") else 403
    )


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8501", 200),  # The server's own page.
        (
            "https://localhost:8501",
            200,
        ),  # The server's own page behind a proxy with TLS.
        ("https://translate.example.com", 200),
        ("https://evil.example", 403),
        ("http://localhost:3000", 403),  # Another server's page.
        ("http://127.0.0.1:8501", 403),
        ("null", 403),  # A file or a sandboxed frame.
        ("file://", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_only_own_pages_may_use_the_server(origin, status):
    # Browsers send forms and plain text without a CORS preflight request.
    headers = {
        "host": "localhost:8501",
        "origin": origin,
        "content-type": "text/plain",
    }
    allowed = ["translate.example.com"]
    assert send_request(headers, allowed_hosts=allowed)[0] == status
    response = send_request(headers, allow_origins=True)
    assert (response[0], response[1]["access-control-allow-origin"]) == (200, "*")


@pytest.mark.parametrize(
    "origin", ["null", "file://", "https://evil.example", "http://localhost:3000"]
)
def test_flags_suggested_by_a_rejection_work(origin):
    headers = {"host": "localhost:8501", "origin": origin}
    _, _, body = send_request(headers)
    suggested = re.findall(r"--(\w+)(?:=([^\s;]+))?", body["error"])
    tested = []
    for flag, value in suggested:
        options = {
            "allowed_hosts": {"allowed_hosts": [value]},
            "rest_api_enable_cors_support": {"allow_origins": True},
        }[flag]
        assert send_request(headers, **options)[0] == 200
        if flag != "allowed_hosts":
            # A browser sends a preflight request before JSON.
            status, response_headers, _ = send_request(
                headers, method="OPTIONS", **options, status=405
            )
            assert (status, response_headers["access-control-allow-origin"]) == (
                200,
                "*",
            )
        tested.append(flag)
    expected = ["allowed_hosts", "rest_api_enable_cors_support"]
    assert tested == expected[0 if "//" in origin and "file" not in origin else 1 :]


def test_cors_preflight_succeeds_if_all_sites_are_allowed():
    headers = {"host": "localhost", "origin": "https://a.example"}
    status, response_headers, _ = send_request(
        headers, method="OPTIONS", allow_origins=True, status=405
    )
    assert status == 200
    assert "POST" in response_headers["access-control-allow-methods"]
    assert "Content-Type" in response_headers["access-control-allow-headers"]
    del headers["origin"]
    status, _, body = send_request(headers, method="OPTIONS", allow_origins=True)
    assert (status, "Origin" in body["error"]) == (400, True)
    assert send_request(headers, method="OPTIONS", status=405)[0] == 405


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, {"www-authenticate": "Bearer"}),
        (429, {"retry-after": "1"}),
        (503, {"retry-after": "1"}),
        (200, {}),
        (500, {}),
    ],
)
def test_extra_headers_depend_on_the_status(status, expected):
    assert send_request({"host": "localhost"}, status=status)[1] == expected


@pytest.mark.parametrize(
    ("header", "is_valid"),
    [
        ("Bearer s3cret", True),
        ("bearer s3cret", True),
        (b"BEARER  s3cret", True),
        ("Bearer S3cret", False),
        ("Bearers3cret", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer", False),
        ("", False),
        (None, False),
    ],
)
def test_authentication_scheme_is_case_insensitive(header, is_valid):
    assert is_authorized(header, "s3cret") == is_valid


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
