"""Asynchronous calls for job types, schedules, and alert channels."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Unpack, cast

from . import types as t

Json = Mapping[str, Any] | Sequence[Any]


class AsyncManagement(ABC):
    """Part of the client that manages job types, schedules, and alert channels."""

    @abstractmethod
    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool | None = None,
        retry_timeout: float | None = None,
    ) -> Any:
        """Sends any request of the API."""

    @abstractmethod
    def pages(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yields the rows of a list."""

    # Job types and their limits

    def job_types(self, **filters: Any) -> AsyncIterator[t.JobType]:
        """Job types, newest first, or in the order of `sort`."""
        return cast(AsyncIterator[t.JobType], self.pages("/job-types", filters))

    async def job_type(self, name: str) -> t.JobType:
        """One job type with its limits."""
        return cast(t.JobType, await self.request("GET", f"/job-types/{name}"))

    async def put_job_type(self, name: str, **fields: Any) -> t.JobType:
        """Creates or replaces a job type. Omitted fields get their defaults."""
        return cast(t.JobType, await self.request("PUT", f"/job-types/{name}", body={"name": name, **fields}))

    async def patch_job_type(self, name: str, /, **fields: Unpack[t.JobTypePatch]) -> t.JobType:
        """Changes the given fields of a job type, such as `rate_limit` or `concurrency_by`; `None` removes a limit."""
        return cast(t.JobType, await self.request("PATCH", f"/job-types/{name}", body=fields))

    # Schedules

    def schedules(self, **filters: Any) -> AsyncIterator[t.Schedule]:
        """Schedules, newest first, or in the order of `sort`."""
        return cast(AsyncIterator[t.Schedule], self.pages("/schedules", filters))

    async def schedule(self, schedule_id: str) -> t.Schedule:
        """One schedule with its `next_runs` and its `last_run`."""
        return cast(t.Schedule, await self.request("GET", f"/schedules/{schedule_id}"))

    def schedule_runs(self, schedule_id: str, **filters: Any) -> AsyncIterator[t.ScheduleRun]:
        """Ticks of a schedule, newest first: each with its tree, or with the reason why it has none."""
        return cast(AsyncIterator[t.ScheduleRun], self.pages(f"/schedules/{schedule_id}/runs", filters))

    async def create_schedule(self, schedule: t.NewSchedule | Mapping[str, Any], *, key: str | None = None) -> t.Schedule:
        """Creates a schedule, which creates a tree at every tick. With `key`, the same call again returns the same one."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return cast(t.Schedule, await self.request("POST", "/schedules", body=schedule, headers=headers))

    async def patch_schedule(self, schedule_id: str, **fields: Unpack[t.SchedulePatch]) -> t.Schedule:
        """Changes the given fields of a schedule; `None` clears `starts_at` or `ends_at`."""
        return cast(t.Schedule, await self.request("PATCH", f"/schedules/{schedule_id}", body=fields))

    async def pause_schedule(self, schedule_id: str, *, reason: str | None = None) -> t.Schedule:
        """Pauses a schedule: ticks during the pause are skipped and not caught up."""
        path = f"/schedules/{schedule_id}/pause"
        return cast(t.Schedule, await self.request("POST", path, body=_reason_body(reason), idempotent=True))

    async def resume_schedule(self, schedule_id: str, *, reason: str | None = None) -> t.Schedule:
        """Resumes a schedule: its next tick is the first one from now on."""
        path = f"/schedules/{schedule_id}/resume"
        return cast(t.Schedule, await self.request("POST", path, body=_reason_body(reason), idempotent=True))

    async def run_schedule(self, schedule_id: str, *, reason: str | None = None, key: str | None = None) -> t.Schedule:
        """Creates a tree of a schedule now, also while it is paused. The id of the tree is `last_run["job_id"]`.

        With `key`, the same call again creates no second tree.
        """
        path, headers = f"/schedules/{schedule_id}/run", {"Idempotency-Key": key or str(uuid.uuid4())}
        return cast(t.Schedule, await self.request("POST", path, body=_reason_body(reason), headers=headers))

    async def delete_schedule(self, schedule_id: str, *, reason: str | None = None) -> None:
        """Deletes a schedule; its trees stay."""
        await self.request("DELETE", f"/schedules/{schedule_id}", params={"reason": reason})

    # Alerts

    def alerts(self, **filters: Any) -> AsyncIterator[t.Alert]:
        """Open alerts, newest first; with `all=True` also those that have cleared."""
        return cast(AsyncIterator[t.Alert], self.pages("/alerts", filters))

    def alert_channels(self, **filters: Any) -> AsyncIterator[t.AlertChannel]:
        """Alert channels, newest first, or in the order of `sort`."""
        return cast(AsyncIterator[t.AlertChannel], self.pages("/alert-channels", filters))

    async def alert_channel(self, channel_id: str) -> t.AlertChannel:
        """One alert channel with its rule and without its secrets."""
        return cast(t.AlertChannel, await self.request("GET", f"/alert-channels/{channel_id}"))

    async def create_alert_channel(
        self, channel: t.NewAlertChannel | Mapping[str, Any], *, key: str | None = None
    ) -> t.AlertChannel:
        """Creates an alert channel: a receiver, and the rule that says which alerts it gets and when.

        With `key`, the same call again returns the same channel.
        """
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return cast(t.AlertChannel, await self.request("POST", "/alert-channels", body=channel, headers=headers))

    async def patch_alert_channel(self, channel_id: str, **fields: Unpack[t.AlertChannelPatch]) -> t.AlertChannel:
        """Changes the given fields of an alert channel; `None` removes `secret` or `quiet_hours`."""
        return cast(t.AlertChannel, await self.request("PATCH", f"/alert-channels/{channel_id}", body=fields))

    async def delete_alert_channel(self, channel_id: str) -> None:
        """Deletes an alert channel; what has not arrived is not sent any more."""
        await self.request("DELETE", f"/alert-channels/{channel_id}")

    async def test_alert_channel(self, channel_id: str) -> list[t.CallbackDelivery]:
        """Sends one message to each receiver of a channel, whatever its rule says, and returns the deliveries."""
        page = await self.request("POST", f"/alert-channels/{channel_id}/test")
        return cast(list[t.CallbackDelivery], page["data"])


def _reason_body(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}
