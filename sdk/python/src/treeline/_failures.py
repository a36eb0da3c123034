"""Failures as the server takes them: one that it refuses would be lost, and its item would run again.

What an exception of a handler leads to is decided in `worker.py`.
"""

from __future__ import annotations

import math
import re
from typing import Any

#: Most characters of a message and of a kind.
LONGEST_MESSAGE = 65_536
LONGEST_KIND = 255
#: Longest pause before the next attempt: ten years.
LONGEST_PAUSE = 315_360_000.0

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def error_of(message: str, kind: str | None = None, detail: Any = None) -> dict[str, Any]:
    """Error of a failure, with a message and a kind that are cut to what the server stores."""
    error: dict[str, Any] = {"message": _text(message, LONGEST_MESSAGE) or "The handler failed without a message."}
    if kind is not None and (cut := _text(kind, LONGEST_KIND)):
        error["kind"] = cut
    if detail is not None:
        error["detail"] = detail
    return error


def without_detail(error: dict[str, Any], why: str) -> dict[str, Any]:
    """The same error without the detail that was refused."""
    kept = {name: value for name, value in error.items() if name != "detail"}
    return kept | {"message": f"{error['message'][:1_000]} (the detail was refused: {_text(why, 1_000)})"}


def without_content(ending: dict[str, Any], status: int | None) -> dict[str, Any]:
    """The failure to report in place of an ending that something on the way to Treeline refuses for its content.

    The work of a result is done, so it is not retryable; a failure stays what its handler said. A release has no content.
    """
    if "release" in ending:
        return ending
    reason = "an answer that is not Treeline's" if status is None else f"status {status}"
    error = error_of(f"The answer was refused on the way to Treeline with {reason}.", "answer_refused")
    if "error" in ending:
        return ending | {"error": error}
    return {"assignment_id": ending["assignment_id"], "error": error, "retryable": False}


def pause_of(seconds: float | None) -> float | None:
    """Seconds until the next attempt, from 0 to ten years; `None` if there is no such number."""
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(0.0, float(seconds)), LONGEST_PAUSE)


def _text(value: object, most: int) -> str:
    return _UNSTORABLE.sub("\ufffd", str(value)[:most])
