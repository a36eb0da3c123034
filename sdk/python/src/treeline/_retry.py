"""Decides which calls are sent again, and when."""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime
from datetime import datetime, timezone
from typing import Any

from .errors import ApiError, ConnectionFailed, UnexpectedResponse

#: Statuses with which the server says that it did nothing.
NOT_DONE = frozenset({429, 503})
#: Statuses of a proxy or a server that may have done it.
UNCLEAR = frozenset({502, 504})
#: Code of a 503 of a server that may have done it.
UNCLEAR_CODE = "database_unavailable"
#: Code of the 409 to a request whose `Idempotency-Key` is that of another one which is being answered.
IN_PROGRESS_CODE = "duplicate"
LONGEST_PAUSE = 60.0
#: Statuses of a report that are about the assignment, and about the content of the report.
ABOUT_REPORT = frozenset({404, 409, 410, 413, 422})
#: Media type of a problem document.
PROBLEM = "application/problem+json"


def backoff(tries: int) -> float:
    """Seconds to wait after the given number of tries: from 0.1 doubling to 10, with jitter."""
    return float(min(10.0, 0.1 * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0))


def retry_after(value: str | None) -> float | None:
    """Seconds of a `Retry-After` header: a number or a date."""
    if value is None:
        return None
    try:
        return min(LONGEST_PAUSE, max(0.0, float(value)))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return min(LONGEST_PAUSE, max(0.0, (at - datetime.now(timezone.utc)).total_seconds()))


def is_transient(error: BaseException) -> bool:
    """True if the same call may succeed later: there was no response, or one with a status that passes."""
    if isinstance(error, ConnectionFailed):
        return not isinstance(error, UnexpectedResponse)
    return isinstance(error, ApiError) and is_transient_status(error.status)


def is_transient_status(status: int) -> bool:
    """True of 408, 429, and 5xx."""
    return status in (408, 429) or status >= 500


def is_foreign(error: BaseException) -> bool:
    """True of a response that is not from Treeline, such as the 404 of a proxy that is reloading.

    413 is none, whoever sent it: it is about the body.
    """
    if isinstance(error, UnexpectedResponse):
        return True
    return isinstance(error, ApiError) and not (error.code or error.status == 413 or is_transient_status(error.status))


def is_unanswered(error: BaseException) -> bool:
    """True if Treeline has not answered a report: there was no response, one that passes, or one of something else.

    401, 403, and 421 are about the caller or the host, not the report: it may be accepted after a rolling restart.
    """
    if isinstance(error, ApiError):
        return is_foreign(error) or error.status not in ABOUT_REPORT
    return isinstance(error, ConnectionFailed)


def is_refusal(error: BaseException) -> bool:
    """True if the same call is refused every time."""
    return isinstance(error, ApiError) and not (is_transient_status(error.status) or is_foreign(error))


def problem_of(media_type: str, body: Any) -> dict[str, Any] | None:
    """The problem document of a response; `None` if it is not from Treeline."""
    if media_type.partition(";")[0].strip().lower() != PROBLEM or not isinstance(body, dict):
        return None
    return body if body.get("type") == f"urn:treeline:problem:{body.get('code')}" else None


def may_repeat(error: ApiError, *, idempotent: bool, keyed: bool = False) -> bool:
    """True if a call may be sent again after this answer. `keyed` says that it has an `Idempotency-Key`."""
    if error.status in UNCLEAR or error.code == UNCLEAR_CODE:
        return idempotent
    if error.status == 409:
        return keyed and error.code == IN_PROGRESS_CODE and error.retry_after is not None
    return error.status in NOT_DONE
