"""How clients reach servers: which addresses keep a secret, which certificates are trusted, and why a request failed.

Guarantee: a text about a failure has nothing of what was sent; held by tests/store/test_keyring_client.py.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import httpx

from vestige.errors import ParameterError

UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures of requests of which nothing was sent."""


def split_address(address: str) -> SplitResult | None:
    """Split an address of the form https://HOST:PORT.

    Args:
        address: the address.

    Returns:
        Its parts; None if it is not of this form. What it has besides may be secret, and should not be shown.

    Example:
        >>> split_address("https://keys.example.org:8443").netloc
        'keys.example.org:8443'
        >>> split_address("https://user:secret@keys.example.org") is None
        True
    """
    try:
        httpx.URL(address)  # which refuses names that no host can have
        parts = urlsplit(address)
        is_complete = bool(parts.hostname) and parts.port != 0 and not (parts.path.strip("/") or parts.query)
    except (ValueError, httpx.InvalidURL):
        return None
    is_plain = parts.scheme in ("https", "http") and "@" not in parts.netloc and not parts.fragment
    return parts if is_complete and is_plain else None


def is_loopback(host: str) -> bool:
    """Tell whether a name is that of this host.

    Args:
        host: the name or address.

    Returns:
        Whether what is sent there stays on this host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("keys.example.org")
        (True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_context(ca: str | Path | None) -> ssl.SSLContext:
    """Make a context that checks certificates.

    Args:
        ca: file with the certificates to trust, in PEM; None for those of this host.

    Returns:
        The context.

    Raises:
        ParameterError: the file cannot be read, or has none.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:  # before OSError, which it is one of
        raise ParameterError(f"ca={ca}: is not a file of certificates in PEM; give the one to trust") from None
    except OSError as problem:
        raise ParameterError(f"ca={ca}: cannot be read ({problem.strerror}); give the certificate to trust") from None


def find_mistrust(problem: httpx.RequestError, variable: str) -> str | None:
    """Find out whether TLS has failed, so that to try again would not help.

    Args:
        problem: the failure of a request.
        variable: environment variable that names the file with the certificates to trust.

    Returns:
        A sentence; None if it was not TLS.
    """
    for cause in _iterate_causes(problem):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted ({cause.verify_message.rstrip('.')}); nothing was sent. Name the file "
                f"with the certificate of who signed it in {variable}, or use the name that it has"
            )
        was_ended = isinstance(cause, ssl.SSLEOFError) or "EOF" in str(getattr(cause, "reason", ""))
        if isinstance(cause, ssl.SSLError) and isinstance(problem, httpx.ConnectError) and not was_ended:
            return (
                f"does not speak TLS as this host does ({cause.reason or 'no reason'}); check the address: nothing was "
                "sent"
            )
    return None


def explain(problem: httpx.RequestError) -> str:
    """Say why a request failed, without what it held.

    Args:
        problem: the failure.

    Returns:
        A few words.

    Example:
        >>> explain(httpx.ReadTimeout("secret"))
        'no answer in time'
    """
    if isinstance(problem, httpx.TimeoutException):
        return "no answer in time"
    reasons = [cause.strerror for cause in _iterate_causes(problem) if isinstance(cause, OSError) and cause.strerror]
    return reasons[-1] if reasons else "the connection was closed"


def _iterate_causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__
