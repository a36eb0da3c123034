import type { Filters, RequestOptions } from './options.js';
import type * as t from './schema.js';

/** Part of the client that manages job types, schedules, and alert channels. */
export abstract class Management {
  abstract request<T = unknown>(method: string, path: string, options?: RequestOptions): Promise<T>;
  abstract pages<T = unknown>(path: string, params?: Filters): AsyncGenerator<T>;

  /** Job types, newest first, or in the order of `sort`. */
  jobTypes(filters: Filters = {}): AsyncGenerator<t.JobType> {
    return this.pages<t.JobType>('/job-types', filters);
  }

  /** One job type with its limits. */
  jobType(name: string): Promise<t.JobType> {
    return this.request('GET', `/job-types/${name}`);
  }

  /** Creates or replaces a job type. Omitted fields get their defaults. */
  putJobType(name: string, fields: Readonly<Record<string, unknown>> = {}): Promise<t.JobType> {
    return this.request('PUT', `/job-types/${name}`, { body: { name, ...fields } });
  }

  /** Changes the given fields of a job type, such as `rate_limit` or `concurrency_by`; `null` removes a limit. */
  patchJobType(name: string, fields: t.JobTypePatch): Promise<t.JobType> {
    return this.request('PATCH', `/job-types/${name}`, { body: fields });
  }

  /** Schedules, newest first, or in the order of `sort`. */
  schedules(filters: Filters = {}): AsyncGenerator<t.Schedule> {
    return this.pages<t.Schedule>('/schedules', filters);
  }

  /** One schedule with its `next_runs` and its `last_run`. */
  schedule(id: string): Promise<t.Schedule> {
    return this.request('GET', `/schedules/${id}`);
  }

  /** Ticks of a schedule, newest first: each with its tree, or with the reason why it has none. */
  scheduleRuns(id: string, filters: Filters = {}): AsyncGenerator<t.ScheduleRun> {
    return this.pages<t.ScheduleRun>(`/schedules/${id}/runs`, filters);
  }

  /** Creates a schedule, which creates a tree at every tick. With `key`, the same call again returns the same one. */
  createSchedule(schedule: t.NewSchedule, options: { readonly key?: string } = {}): Promise<t.Schedule> {
    return this.request('POST', '/schedules', { body: schedule, headers: keyed(options.key) });
  }

  /** Changes the given fields of a schedule; `null` clears `starts_at` or `ends_at`. */
  patchSchedule(id: string, fields: t.SchedulePatch): Promise<t.Schedule> {
    return this.request('PATCH', `/schedules/${id}`, { body: fields });
  }

  /** Pauses a schedule: ticks during the pause are skipped and not caught up. */
  pauseSchedule(id: string, reason?: string): Promise<t.Schedule> {
    return this.request('POST', `/schedules/${id}/pause`, { body: reasonBody(reason), idempotent: true });
  }

  /** Resumes a schedule: its next tick is the first one from now on. */
  resumeSchedule(id: string, reason?: string): Promise<t.Schedule> {
    return this.request('POST', `/schedules/${id}/resume`, { body: reasonBody(reason), idempotent: true });
  }

  /**
   * Creates a tree of a schedule now, also while it is paused. The id of the tree is `last_run.job_id`. With `key`, the
   * same call again creates no second tree.
   */
  runSchedule(id: string, reason?: string, options: { readonly key?: string } = {}): Promise<t.Schedule> {
    return this.request('POST', `/schedules/${id}/run`, { body: reasonBody(reason), headers: keyed(options.key) });
  }

  /** Deletes a schedule; its trees stay. */
  deleteSchedule(id: string, reason?: string): Promise<void> {
    return this.request('DELETE', `/schedules/${id}`, { params: { reason } });
  }

  /** Open alerts, newest first; with `all: true` also those that have cleared. */
  alerts(filters: Filters = {}): AsyncGenerator<t.Alert> {
    return this.pages<t.Alert>('/alerts', filters);
  }

  /** Alert channels, newest first, or in the order of `sort`. */
  alertChannels(filters: Filters = {}): AsyncGenerator<t.AlertChannel> {
    return this.pages<t.AlertChannel>('/alert-channels', filters);
  }

  /** One alert channel with its rule and without its secrets. */
  alertChannel(id: string): Promise<t.AlertChannel> {
    return this.request('GET', `/alert-channels/${id}`);
  }

  /**
   * Creates an alert channel: a receiver, and the rule that says which alerts it gets and when. With `key`, the same
   * call again returns the same channel.
   */
  createAlertChannel(channel: t.NewAlertChannel, options: { readonly key?: string } = {}): Promise<t.AlertChannel> {
    return this.request('POST', '/alert-channels', { body: channel, headers: keyed(options.key) });
  }

  /** Changes the given fields of an alert channel; `null` removes `secret` or `quiet_hours`. */
  patchAlertChannel(id: string, fields: t.AlertChannelPatch): Promise<t.AlertChannel> {
    return this.request('PATCH', `/alert-channels/${id}`, { body: fields });
  }

  /** Deletes an alert channel; what has not arrived is not sent any more. */
  deleteAlertChannel(id: string): Promise<void> {
    return this.request('DELETE', `/alert-channels/${id}`);
  }

  /** Sends one message to each receiver of a channel, whatever its rule says, and returns the deliveries. */
  async testAlertChannel(id: string): Promise<t.CallbackDelivery[]> {
    const page = await this.request<t.CallbackDeliveryPage>('POST', `/alert-channels/${id}/test`);
    return page.data;
  }
}

function keyed(key: string = crypto.randomUUID()): Readonly<Record<string, string>> {
  return { 'Idempotency-Key': key };
}

function reasonBody(reason?: string): t.ReasonBody {
  return reason === undefined ? {} : { reason };
}
