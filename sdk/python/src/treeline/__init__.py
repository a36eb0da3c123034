"""Treeline for Python: client, worker, uploads, live updates, and webhook verification."""

from . import types, webhooks
from .aio import AsyncClient
from .client import Client
from .errors import ApiError, Cancelled, ConnectionFailed, InvalidWebhook, TreelineError, UnexpectedResponse
from .worker import Failure, Release, Summary, Task, Wait, Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "Cancelled",
    "Client",
    "ConnectionFailed",
    "Failure",
    "InvalidWebhook",
    "Release",
    "Summary",
    "Task",
    "TreelineError",
    "UnexpectedResponse",
    "Wait",
    "Worker",
    "types",
    "webhooks",
]
