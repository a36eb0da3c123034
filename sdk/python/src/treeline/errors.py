"""Errors of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TreelineError(Exception):
    """Base class of all errors of this package."""


class ConnectionFailed(TreelineError):
    """The server could not be reached, or a response broke off, and it was not safe or useful to try again."""


class UnexpectedResponse(ConnectionFailed):
    """A successful response that is not from Treeline but, for example, the page of a firewall."""


class ApiError(TreelineError):
    """A response with an error status.

    `status` is the HTTP status, `code` the stable code of the problem document (`not_found`, `invalid_body`, ...),
    and `problem` the whole document. `code` is empty if the response is not from Treeline but, for example, from a proxy.
    """

    def __init__(self, call: str, status: int, problem: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.problem = dict(problem)
        self.code = str(problem.get("code", ""))
        self.retry_after = retry_after
        detail = problem.get("detail") or problem.get("title") or ""
        fields = "".join(f"\n  {error.get('pointer')}: {error.get('detail')}" for error in problem.get("errors", ()))
        super().__init__(f"{call}: {status} {self.code}: {detail}{fields}")


class Cancelled(TreelineError):
    """The job was canceled, or the assignment was lost. Raised in handlers that call `Task.check`."""


class InvalidWebhook(TreelineError):
    """A webhook without a valid signature, or one that is too old or too new."""
