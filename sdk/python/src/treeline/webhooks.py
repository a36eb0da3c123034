"""Verification of webhooks: completion webhooks, pushed items, and alerts.

Treeline signs according to Standard Webhooks (https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidWebhook

#: Largest difference between the clock of the sender and ours, in seconds.
TOLERANCE = 300.0


def key_of(secret: str) -> bytes:
    """Bytes of a secret: base64 after `whsec_`, also without padding, else the text itself. Raises `ValueError` if empty."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        coded = secret.removeprefix("whsec_").rstrip("=")
        try:
            key = base64.b64decode(coded + "=" * (-len(coded) % 4), validate=True)
        except binascii.Error as error:
            raise ValueError("the secret is not base64 after whsec_") from error
    if not key:
        raise ValueError("the secret is empty: anybody could sign with it")
    return key


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    now: float | None = None,
) -> Any:
    """Returns the JSON of a webhook whose signature is valid.

    `body` must be the bytes as received. `secret` is one secret or, during a rotation, several.
    Raises `ValueError` if a secret is empty, and `InvalidWebhook` if a header is missing, no signature matches, or the time differs by more than five minutes.
    """
    content = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp, signatures = (
            given["webhook-id"],
            given["webhook-timestamp"],
            given["webhook-signature"],
        )
        at = int(timestamp)
    except (KeyError, ValueError) as error:
        raise InvalidWebhook(f"expected webhook-id, webhook-timestamp, and webhook-signature: {error}") from error
    if abs((time.time() if now is None else now) - at) > TOLERANCE:
        raise InvalidWebhook("the webhook is more than five minutes old, or from the future")
    signed = f"{message_id}.{timestamp}.".encode() + content
    secrets = [secret] if isinstance(secret, str) else list(secret)
    expected = [base64.b64encode(hmac.new(key_of(one), signed, hashlib.sha256).digest()).decode() for one in secrets]
    found = [value for version, _, value in (part.partition(",") for part in signatures.split()) if version == "v1"]
    # Every pair is compared, so that the time tells nothing.
    matches = [hmac.compare_digest(one.encode(), other.encode()) for one in expected for other in found]
    if not any(matches):
        raise InvalidWebhook("no signature matches")
    return json.loads(content)
