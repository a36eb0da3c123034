// Types of the API, generated from its description by scripts/generate.mjs.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Actor of an action, with their name at that time. */
        Actor: {
            kind: components["schemas"]["ActorKind"];
            /** @description Name; empty if the actor is not known. */
            name: string;
        };
        /**
         * @description Kind of an actor.
         * @enum {string}
         */
        ActorKind: "user" | "service" | "operator" | "nobody";
        /** @description Dead items of an error group in one job. */
        AffectedJob: {
            /** Format: int64 */
            count: number;
            /** Format: uuid */
            job_id: string;
            last_seen_at: components["schemas"]["Timestamp"];
            name?: string | null;
            owner: components["schemas"]["Owner"];
            /** Format: uuid */
            root_id: string;
        };
        /** @description Dead items of an error group of one owner. */
        AffectedOwner: {
            /** Format: int64 */
            count: number;
            last_seen_at: components["schemas"]["Timestamp"];
            owner: components["schemas"]["Owner"];
        };
        /** @description Alert, open while `cleared_at` is null. Each kind and subject has at most one open alert. */
        Alert: {
            cleared_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int64
             * @description For `dead_letters`, the current number; for `many_failures`, the number of failures of the item; for other
             *     kinds, how often the alert was raised while open.
             */
            count: number;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            item_id?: string | null;
            /** Format: uuid */
            job_id?: string | null;
            kind: components["schemas"]["AlertKind"];
            /** @description Time at which the alert was last raised, or its count or message last changed. */
            last_seen_at: components["schemas"]["Timestamp"];
            message: string;
            raised_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            root_id?: string | null;
            /** @description Subject of the alert: name of a type, or id of a job or item. */
            subject: string;
            /** @description Job type that the alert is about; null if it is about none. */
            type?: string | null;
        };
        /** @description Body of `POST /assignments/{id}/alert`. */
        AlertBody: {
            /** @description Text of the alert, 1 to 2,000 bytes. */
            message: string;
        };
        /** @description Alert channel. Secrets are never returned. */
        AlertChannel: {
            /**
             * Format: int64
             * @description Time in seconds for which an alert must be open.
             */
            after_seconds: number;
            created_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            kind: components["schemas"]["ChannelKind"];
            /** @description Kinds of alerts that are sent. Empty: all. */
            kinds: components["schemas"]["AlertKind"][];
            /**
             * Format: int64
             * @description Minimum `count` of an alert that is sent.
             */
            min_count: number;
            name: string;
            paused: boolean;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description True if a message is also sent when an alert is cleared. */
            send_cleared: boolean;
            /** @description Email addresses. */
            to: string[];
            /** @description Job types whose alerts are sent. Empty: all, including alerts that are about no type. */
            types: string[];
            updated_at: components["schemas"]["Timestamp"];
            /** @description URL of the receiver, without parts that may be secret; absent for email. */
            url?: string | null;
        };
        /** @description One page of a list. */
        AlertChannelPage: {
            data: components["schemas"]["AlertChannel"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /alert-channels/{id}`: the given fields change; `null` removes `secret` and `quiet_hours`. */
        AlertChannelPatch: {
            /** Format: int64 */
            after_seconds?: number | null;
            kinds?: components["schemas"]["AlertKind"][] | null;
            /** Format: int64 */
            min_count?: number | null;
            name?: string | null;
            paused?: boolean | null;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description Required if `url` has another host, because the key is sent there. */
            routing_key?: string | null;
            secret?: components["schemas"]["SigningSecret"] | null;
            send_cleared?: boolean | null;
            to?: string[] | null;
            types?: string[] | null;
            /** Format: uri */
            url?: string | null;
        };
        /** @description An alert was cleared; `data.id` is the id of the alert that was raised. */
        AlertCleared: {
            data: components["schemas"]["Alert"];
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "alert.cleared";
        };
        /** @description Message about an alert, in a delivery. */
        AlertDelivery: {
            /**
             * Format: uuid
             * @description Id of the alert; absent for a test.
             */
            alert_id?: string | null;
            /** @description Name of the channel; absent if it was deleted. */
            channel?: string | null;
            /** Format: uuid */
            channel_id: string;
            event: components["schemas"]["AlertEvent"];
            kind?: components["schemas"]["ChannelKind"] | null;
        };
        /**
         * @description Event of an alert that is sent to a channel.
         * @enum {string}
         */
        AlertEvent: "raised" | "cleared" | "test";
        /**
         * @description Kind of an alert.
         * @enum {string}
         */
        AlertKind: "dead_letters" | "many_failures" | "ending_refused" | "stalled" | "unclaimed" | "delivery_failed" | "broker_away" | "worker";
        /** @description One page of a list. */
        AlertPage: {
            data: components["schemas"]["Alert"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description An alert was raised; `cleared_at` is null. */
        AlertRaised: {
            data: components["schemas"]["Alert"];
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "alert.raised";
        };
        /** @description Test message of an alert channel. */
        AlertTest: {
            data: {
                /** @description Name of the alert channel */
                channel: string;
                /**
                 * Format: uuid
                 * @description Id of the alert channel
                 */
                channel_id: string;
            };
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "alert.test";
        };
        /** @description Item as a worker receives it. */
        AssignedItem: {
            /** Format: int32 */
            attempts: number;
            created_at: components["schemas"]["Timestamp"];
            dedupe_key?: string | null;
            /** @description Delivery of the job: with `at_most_once`, work that has begun must not be released */
            delivery?: components["schemas"]["DeliveryStrategy"];
            event?: components["schemas"]["ReceivedEvent"] | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** Format: int32 */
            failures: number;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            job_id: string;
            max_failures: components["schemas"]["MaxFailures"];
            metadata: {
                [key: string]: unknown;
            };
            payload: components["schemas"]["JsonValue"];
            /** Format: int32 */
            priority: number;
            /** Format: uuid */
            root_id: string;
            /** Format: int64 */
            row?: number | null;
            /** Format: int64 */
            seq: number;
            serialize_key?: string | null;
            step?: components["schemas"]["ItemStep"] | null;
            /** @description Parent of the spans of this attempt (W3C Trace Context), if the item was added within a trace. */
            traceparent?: string | null;
            type: string;
        };
        /** @description Item assigned to a worker. */
        Assignment: {
            /** Format: int32 */
            attempt: number;
            /** Format: double */
            heartbeat_seconds: number;
            /**
             * Format: uuid
             * @description Assignment id, required to end the assignment.
             */
            id: string;
            /**
             * @description For a job that waited for others (`after`): by job key, the results of a job of one item, else a link to the
             *     results.
             */
            inputs?: {
                [key: string]: components["schemas"]["JobInputs"];
            } | null;
            item: components["schemas"]["AssignedItem"];
            lease_expires_at: components["schemas"]["Timestamp"];
        };
        /** @description Response to the end of one assignment, with the current state of the item. */
        AssignmentEnded: {
            ended_as: components["schemas"]["AttemptOutcome"];
            /** Format: uuid */
            item_id: string;
            item_state: components["schemas"]["ItemState"];
            retry_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description End of one assignment: a failure if it has an `error`, else a result. */
        AssignmentEnding: {
            assignment_id: string;
            cancel_tree?: boolean;
            error?: components["schemas"]["WorkError"] | null;
            result?: components["schemas"]["JsonValue"];
            /**
             * Format: double
             * @description Seconds until the next attempt, at most ten years, instead of the backoff of the type.
             */
            retry_after_seconds?: number | null;
            retryable?: boolean;
        };
        AssignmentEndingResult: {
            /** @description Assignment id as given in the request; empty if it had none. */
            assignment_id: string;
            code?: components["schemas"]["ProblemCode"] | null;
            /** @description For `invalid_body`: the invalid places, as pointers into the request, and what was expected there. */
            errors?: components["schemas"]["FieldProblem"][];
            /**
             * Format: int32
             * @description HTTP status that the request for this assignment alone would have returned.
             */
            status: number;
        };
        AssignmentHeartbeat: {
            assignment_id: string;
            progress?: components["schemas"]["ItemProgress"] | null;
        };
        AssignmentHeartbeatResult: {
            /** @description Assignment id as given in the request; empty if it had none. */
            assignment_id: string;
            cancel?: boolean | null;
            code?: components["schemas"]["ProblemCode"] | null;
            /** @description For `invalid_body`: the invalid places, as pointers into the request, and what was expected there. */
            errors?: components["schemas"]["FieldProblem"][];
            lease_expires_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description HTTP status that the request for this assignment alone would have returned.
             */
            status: number;
        };
        /** @description One attempt, as `GET /items/{id}/attempts` lists it. */
        Attempt: {
            /** Format: int32 */
            attempt: number;
            ended_as?: components["schemas"]["AttemptOutcome"] | null;
            ended_at?: components["schemas"]["Timestamp"] | null;
            error?: components["schemas"]["ItemError"] | null;
            result?: components["schemas"]["JsonValue"];
            started_at?: components["schemas"]["Timestamp"] | null;
            step?: components["schemas"]["ItemStep"] | null;
            /** @description Name of the event, if the worker ended the attempt to wait for one. */
            waited_for?: string | null;
            worker_id?: string | null;
        };
        /**
         * @description Outcome of an attempt.
         * @enum {string}
         */
        AttemptOutcome: "succeeded" | "failed" | "lease_lost" | "timed_out" | "released" | "cancelled" | "waiting";
        /** @description One page of a list. */
        AttemptPage: {
            data: components["schemas"]["Attempt"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Entries of the audit log, in order. */
        AuditEntries: {
            data: {
                entries: components["schemas"]["AuditEntry"][];
            };
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "audit.entries";
        };
        /** @description Entry of `GET /audit`. The objects that it names may have been deleted. */
        AuditEntry: {
            /** @description Action, such as `job.delete`. */
            action: string;
            /** @description Actor, with their name at that time. */
            actor: components["schemas"]["Actor"];
            /** @description Network address of the client. */
            address?: string | null;
            at: components["schemas"]["Timestamp"];
            /**
             * Format: uuid
             * @description Id of the session or token that was used.
             */
            credential_id?: string | null;
            /** @description Further details as text. */
            detail?: string | null;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            item_id?: string | null;
            /** Format: uuid */
            job_id?: string | null;
            /**
             * Format: uuid
             * @description Bulk operation that this action started or stopped. Its effects on single items have no entries of their own.
             */
            operation_id?: string | null;
            owner?: components["schemas"]["Owner"] | null;
            reason?: string | null;
            /** Format: uuid */
            root_id?: string | null;
        };
        /** @description One page of a list. */
        AuditEntryPage: {
            data: components["schemas"]["AuditEntry"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Backoff b = min(max, min × factor^(failures−1)); with jitter the wait is uniform in [b, 1.5 b]. */
        Backoff: {
            /**
             * Format: double
             * @description Default: `2.0`.
             */
            factor?: number;
            /** @description Default: `true`. */
            jitter?: boolean;
            /**
             * Format: double
             * @description `null`: no cap. Default: `3600.0`.
             */
            max_seconds?: number | null;
            /**
             * Format: double
             * @description Default: `3.0`.
             */
            min_seconds?: number;
        };
        /** @description User and password for HTTP basic authentication. */
        BasicAuth: {
            password: string;
            user: string;
        };
        /** @description State of the broker. */
        BrokerStats: {
            /** @description Reason why the broker is unavailable. */
            fault?: string | null;
            /**
             * Format: int64
             * @description Number of message batches that wait to be published, counted up to 10,000.
             */
            outbox_waiting: number;
            /** @description Number of messages in the queue of each job type when last checked, by type name. */
            queues: components["schemas"]["QueueStats"][];
            /** @description Time since which `up` has its current value. */
            since: components["schemas"]["Timestamp"];
            /** @description True if messages can be published. */
            up: boolean;
        };
        /**
         * @description Executor that is built into Treeline.
         * @enum {string}
         */
        BuiltinExecutor: "validate" | "export" | "echo";
        /**
         * @description Action of a bulk operation on each of its members.
         * @enum {string}
         */
        BulkAction: "retry" | "cancel" | "delete";
        /** @description A bulk operation. */
        BulkOperation: {
            action: components["schemas"]["BulkAction"];
            created_at: components["schemas"]["Timestamp"];
            dry_run: boolean;
            /**
             * Format: int64
             * @description Number of members that failed because of a server error; the server log has the details.
             */
            errored: number;
            filter: {
                [key: string]: unknown;
            };
            finished_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            id: string;
            /** @description Person or service that requested the operation. */
            owner: components["schemas"]["Owner"];
            payload_edit: components["schemas"]["PayloadEdit"][];
            /**
             * Format: int64
             * @description Number of members that were processed.
             */
            processed: number;
            /** Format: double */
            rate_per_second?: number | null;
            reason?: string | null;
            /** @description Sample of the members, as they were when they were selected. */
            sample: components["schemas"]["BulkSample"][];
            /** @description Members that could not be processed, by reason. */
            skipped: components["schemas"]["BulkSkipped"][];
            state: components["schemas"]["BulkState"];
            /** @description Reason why the server stopped the operation: the credential that requested it is no longer valid. */
            stopped_reason?: string | null;
            target: components["schemas"]["BulkTarget"];
            /**
             * Format: int64
             * @description Number of members; grows while the state is `counting`.
             */
            total: number;
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        BulkOperationPage: {
            data: components["schemas"]["BulkOperation"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Member of a bulk operation, as it was when it was selected. */
        BulkSample: {
            /**
             * Format: uuid
             * @description Id of the item or job.
             */
            id: string;
            /** Format: uuid */
            job_id: string;
            /** @description Last error of the item, or status message of the job. */
            message?: string | null;
            /** Format: uuid */
            root_id: string;
            /** @description State of the item, or status of the job. */
            state: string;
            type: string;
        };
        BulkSkipped: {
            /** Format: int64 */
            count: number;
            /** @description Problem code, or `edit_does_not_fit` or `payload_invalid`. */
            reason: string;
        };
        /**
         * @description State of a bulk operation.
         * @enum {string}
         */
        BulkState: "counting" | "ready" | "running" | "completed" | "cancelling" | "cancelled";
        /**
         * @description Kind of the members of a bulk operation.
         * @enum {string}
         */
        BulkTarget: "items" | "jobs";
        /**
         * @description Delivery of a message: one for each completion of a tree with `on_completed`, one for each event of an alert and
         *     receiver of an alert channel, and one for each notice and receiver. The first kind outlives its tree by 30 days, the
         *     others are kept for 30 days.
         */
        CallbackDelivery: {
            alert?: components["schemas"]["AlertDelivery"] | null;
            /**
             * Format: int32
             * @description Number of the tree's completion, from 1; absent for an alert and a notice.
             */
            completion?: number | null;
            created_at: components["schemas"]["Timestamp"];
            /**
             * Format: uuid
             * @description Id of the delivery, sent as `webhook-id` with every attempt.
             */
            id: string;
            /**
             * Format: uuid
             * @description Id of the tree's root; absent for an alert and a notice.
             */
            job_id?: string | null;
            /** @description Name of the tree's root, if it has one and still exists. */
            job_name?: string | null;
            next_try_at?: components["schemas"]["Timestamp"] | null;
            notice?: components["schemas"]["NoticeDelivery"] | null;
            outcome?: components["schemas"]["Outcome"] | null;
            state: components["schemas"]["DeliveryState"];
            tries: components["schemas"]["DeliveryTry"][];
            /**
             * @description URL of the receiver, without parts that may be secret; absent if there is no receiver anymore. For email,
             *     `mailto:` and the address.
             */
            url?: string | null;
        };
        /** @description One page of a list. */
        CallbackDeliveryPage: {
            data: components["schemas"]["CallbackDelivery"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /**
         * @description Handling of ticks that were missed because no server was running, within the catch-up window.
         * @enum {string}
         */
        CatchUp: "none" | "last" | "all";
        /**
         * @description Kind of an alert channel.
         * @enum {string}
         */
        ChannelKind: "email" | "slack" | "pagerduty" | "webhook";
        /**
         * @description Format of the result of a check.
         * @enum {string}
         */
        CheckFormat: "json" | "csv";
        /** @description One row of a checked file. */
        CheckedRow: {
            /** @description Cells of a table row by column, after the edits; cells beyond the last column come last. */
            cells: string[];
            /**
             * Format: int64
             * @description Number of the column with the problem, from 1; null for a file that is not a table, or without a problem.
             */
            column?: number | null;
            /** @description True if the row has edits. */
            edited: boolean;
            /** @description True if the edits omit the row. */
            left_out: boolean;
            /** @description True if the problem cannot be solved by editing cells, such as a quote that is never closed. */
            needs_file: boolean;
            /** @description Reason why the row would fail; null if it would not. */
            problem?: string | null;
            /**
             * Format: int64
             * @description First line of the row in the file, from 1; in a workbook, its number in the sheet.
             */
            row: number;
        };
        /** @description Body of `POST /assignments`. */
        ClaimRequest: {
            /**
             * Format: uuid
             * @description Id chosen by the client: a repeated claim with this id returns the same assignments that are still open.
             */
            claim_id?: string | null;
            /** @description Items to claim, instead of `types`; those that cannot be claimed are in `refused`. */
            item_ids?: string[] | null;
            /**
             * Format: int32
             * @description Maximum number of assignments, 1 to 1,000; absent: 1.
             */
            max?: number | null;
            types?: string[];
            /**
             * Format: int32
             * @description Seconds to wait for items, 0 to 30; absent: 0.
             */
            wait_seconds?: number | null;
            worker_id: string;
        };
        /** @description Response to a claim; may be empty. */
        ClaimResponse: {
            assignments: components["schemas"]["Assignment"][];
            /** @description Items of `item_ids` that could not be claimed */
            refused?: components["schemas"]["RefusedItem"][];
        };
        /** @description Comparison of the columns and first rows of a file with the schema of a job type. */
        ColumnCheck: {
            /** @description Names of the properties in the schema. */
            expected: string[];
            /** @description Mismatches, at most 30; empty if none was found. */
            findings: components["schemas"]["ColumnFinding"][];
            /**
             * Format: int64
             * @description Number of rows that were checked.
             */
            rows: number;
            type: string;
        };
        /** @description Mismatch of one column. */
        ColumnFinding: {
            /** @description Name of the column; null if the mismatch is about the row as a whole. */
            column?: string | null;
            kind: components["schemas"]["FindingKind"];
            /** @description Description of the mismatch for people. */
            message: string;
            /**
             * Format: int64
             * @description First line with the mismatch, from 1; null if it is about the column itself.
             */
            row?: number | null;
        };
        /** @description Limit on the number of items with the same value in their payload that run at once. */
        ConcurrencyBy: {
            /** @description JSON Pointer into the payload. */
            key: string;
            /** Format: int64 */
            limit: number;
        };
        /** @description Connection of the caller's account with an OpenID Connect provider. */
        Connection: {
            created_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description Display name of the provider, or its issuer. */
            label: string;
            last_used_at: components["schemas"]["Timestamp"];
            /** @description Name of the provider in the settings; null if the settings no longer contain it. */
            provider?: string | null;
            /** @description Id of the account at the provider. */
            subject: string;
        };
        /** @description Response of `GET /me/connections`. */
        Connections: {
            /** @description Connections, oldest first. */
            data: components["schemas"]["Connection"][];
        };
        /** @description Number of items in each state: exact totals at any size. */
        Counts: {
            /** Format: int64 */
            available: number;
            /** Format: int64 */
            blocked: number;
            /** Format: int64 */
            cancelled: number;
            /** Format: int64 */
            dead: number;
            /** Format: int64 */
            expired: number;
            /** Format: int64 */
            retryable: number;
            /** Format: int64 */
            running: number;
            /** Format: int64 */
            scheduled: number;
            /** Format: int64 */
            succeeded: number;
            /**
             * Format: int64
             * @description Number of `cancelled` items that were replaced by corrected rows. Absent if there are none.
             */
            superseded?: number;
            /** Format: int64 */
            waiting_for_event: number;
        };
        /** @description Response of `POST /jobs/{id}/share`. */
        CreatedShare: {
            expires_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description URL of the link. Returned only once. */
            url: string;
        };
        /** @description Response of `POST /tokens`. */
        CreatedToken: {
            /** @description Token to send as `Authorization: Bearer …`. Returned only once. */
            secret: string;
            token: components["schemas"]["Token"];
        };
        /** @description Response of `POST /users`. */
        CreatedUser: components["schemas"]["User"] & {
            /** @description Sign-in link that works once, within an hour; null if a password was given. Returned only once. */
            sign_in_link?: string | null;
        };
        /** @description Caller, as `GET /me` returns it. */
        CurrentCaller: {
            kind: components["schemas"]["OwnerKind"];
            /**
             * @description True if the person must choose a new password (`POST /me/password`), because someone else chose the current one.
             *     Absent if false.
             */
            must_change_password?: boolean;
            name: string;
            /**
             * @description Role of a person: `user`, `support` or `admin`.
             * @enum {string|null}
             */
            role?: "user" | "support" | "admin" | null;
            /** @description Scopes of a token. */
            scopes: ("jobs:read" | "jobs:write" | "work" | "metrics" | "admin")[];
        };
        /** @description Number of items of a type that were added and that ended on one day (UTC). */
        DayTotal: {
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            cancelled: number;
            /** @description Day, such as `2026-11-20`. */
            day: string;
            /** Format: int64 */
            dead: number;
            /** Format: int64 */
            expired: number;
            /** Format: int64 */
            succeeded: number;
        };
        /** @description Debounce of an item: later items with the same key replace its payload while it waits. */
        Debounce: {
            /** @description Debounce key, unique among the waiting items of one type and owner. */
            key: string;
            /**
             * Format: int64
             * @description Maximum number of seconds from the first item with the key to the start.
             */
            max_seconds: number;
            /**
             * Format: int64
             * @description Seconds from the last item with the key to the start.
             */
            seconds: number;
        };
        /**
         * @description State of a delivery.
         * @enum {string}
         */
        DeliveryState: "pending" | "delivered" | "failed" | "abandoned" | "superseded";
        /**
         * @description Delivery guarantee of items.
         * @enum {string}
         */
        DeliveryStrategy: "at_least_once" | "at_most_once";
        /** @description One attempt of a delivery. */
        DeliveryTry: {
            at: components["schemas"]["Timestamp"];
            /** @description Reason why the attempt failed, with the beginning of the response; absent if it succeeded. */
            error?: string | null;
            /**
             * Format: int32
             * @description Status of the receiver's response; absent if there was none.
             */
            status?: number | null;
        };
        /** @enum {string} */
        EditOp: "set" | "remove";
        /** @description Response to a request that ends sessions. */
        EndedSessions: {
            /** Format: int64 */
            ended: number;
        };
        /** @description Dead items of one job type whose last errors are equal without their variable parts. */
        ErrorGroup: {
            /** Format: int64 */
            count: number;
            fingerprint: string;
            first_seen_at: components["schemas"]["Timestamp"];
            kind?: string | null;
            last_seen_at: components["schemas"]["Timestamp"];
            message: string;
            /**
             * Format: int64
             * @description Number of further failures at which a muted group reopens.
             */
            muted_failures?: number | null;
            muted_until?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            sample_item_id: string;
            /** @description State of the group over all owners. */
            state: components["schemas"]["GroupState"];
            type: string;
        };
        /** @description An error group of all owners, as `GET /dead-letters/groups/{type}/{fingerprint}` returns it. */
        ErrorGroupDetail: {
            group: components["schemas"]["ErrorGroup"];
            /** @description Latest changes of the state, at most 50. */
            history: components["schemas"]["GroupChange"][];
            /** @description Failures in each of the last 168 hours, oldest first; the last one is the current hour. */
            hours: number[];
            /** @description Start of the first hour. */
            hours_from: components["schemas"]["Timestamp"];
            /** @description Newest jobs with dead items of the group, at most 20. */
            jobs: components["schemas"]["AffectedJob"][];
            /** @description Failures in each of the last 60 minutes, oldest first; the last one is the current minute. */
            minutes: number[];
            /** @description Start of the first minute. */
            minutes_from: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Number of owners with dead items of the group, at most 1,000.
             */
            owner_count: number;
            /** @description Owners with the most dead items of the group, at most 20. */
            owners: components["schemas"]["AffectedOwner"][];
        };
        /** @description One page of a list. */
        ErrorGroupPage: {
            data: components["schemas"]["ErrorGroup"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Change of the state of an error group. */
        ErrorGroupPatch: {
            /**
             * Format: int64
             * @description Number of further failures at which a muted group reopens.
             */
            failures?: number | null;
            /** @description Decision and reason, such as the deployed version. Required for `resolved`. */
            note?: string | null;
            /** @description New state: `open`, `muted` or `resolved`. */
            state: components["schemas"]["GroupState"];
            until?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Form that a person fills in to end a wait. Without fields, the person only confirms. */
        EventForm: {
            description?: string | null;
            fields?: components["schemas"]["FormField"][];
            title?: string | null;
        };
        /** @description Body of `POST /items/{id}/events`: the event that the item waits for. */
        EventRequest: {
            /** @description Data of the event; absent: null, or `{}` if the wait has a form. */
            data?: components["schemas"]["JsonValue"];
            name: string;
            /** @description Reason, stored in the audit log. */
            reason?: string | null;
        };
        /** @description Event that an item waits for. */
        EventWait: {
            form?: components["schemas"]["EventForm"] | null;
            name: string;
            since: components["schemas"]["Timestamp"];
            until?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Executor of a type. Its other fields depend on `kind`. */
        Executor: {
            auth?: components["schemas"]["BasicAuth"] | null;
            headers?: components["schemas"]["PushHeaders"] | null;
            kind: components["schemas"]["ExecutorKind"];
            name?: components["schemas"]["BuiltinExecutor"] | null;
            secret?: components["schemas"]["SigningSecret"] | null;
            /**
             * Format: double
             * @description `push`: lease in seconds, from the time of sending. Absent: 300.
             */
            timeout_seconds?: number | null;
            /**
             * Format: uri
             * @description `push`: URL of the worker; `{type} {item_id} {job_id}` are filled in.
             */
            url?: string | null;
        };
        /**
         * @description Kind of executor.
         * @enum {string}
         */
        ExecutorKind: "pull" | "push" | "builtin";
        /**
         * @description Format of the rows: a JSON value on each line, or a table as text or as a workbook.
         * @enum {string}
         */
        ExportFormat: "ndjson" | "csv" | "xlsx";
        /** @description Response of `GET /me/factors`. */
        Factors: {
            /** @description Passkeys, oldest first. */
            passkeys: components["schemas"]["Passkey"][];
            /**
             * Format: int64
             * @description Number of unused recovery codes.
             */
            recovery_codes_left: number;
            /** @description True if the person's role requires a second factor. */
            required: boolean;
            /** @description Name that the person gave the authenticator app; null without an app. */
            totp_name?: string | null;
            totp_since?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Body of `POST /assignments/{id}/failure`. */
        FailureBody: {
            cancel_tree?: boolean;
            error: components["schemas"]["WorkError"];
            /**
             * Format: double
             * @description Seconds until the next attempt, at most ten years, instead of the backoff of the type.
             */
            retry_after_seconds?: number | null;
            retryable?: boolean;
        };
        /** @description A line of `GET /jobs/{id}/failures` as NDJSON. */
        FailureLine: {
            /** Format: int32 */
            attempts: number;
            error?: components["schemas"]["ItemError"] | null;
            /** Format: uuid */
            item_id: string;
            /** Format: uuid */
            job_id: string;
            payload: components["schemas"]["JsonValue"];
            /** Format: int64 */
            row?: number | null;
            state: components["schemas"]["ItemState"];
        };
        /** @description Rule for how a job receives items from its parent. All fields but `each` are templates: JSON in which `{"$from": "<JSON Pointer>"}` is replaced from `{payload, result, item_id, job_id, element?, index?}`. */
        FeedRule: {
            /** @description Template of a text */
            dedupe_key?: unknown;
            /** @description JSON Pointer to an array: one item is added for each of its elements */
            each?: string | null;
            /** @description Template of the payload; default: payload and result of the parent's item */
            payload?: unknown;
            /** @description Template of a whole number from -100 to 100 */
            priority?: unknown;
            /** @description Template of a time */
            run_after?: unknown;
            /** @description Template of a text */
            serialize_key?: unknown;
        };
        /** @description Invalid place in a body, as a JSON Pointer, and what was expected there. */
        FieldProblem: {
            detail: string;
            pointer: string;
        };
        /**
         * @description Type of a form field.
         * @enum {string}
         */
        FieldType: "string" | "text" | "number" | "boolean" | "choice";
        /** @description Result of the check of a file. */
        FileCheck: {
            /** @description Names of the columns of a table with a header, as in the file. */
            columns: string[];
            /**
             * Format: int64
             * @description Number of rows that would fail.
             */
            failed: number;
            /** @description True if there are more such rows than `listed` contains. */
            is_cut: boolean;
            /**
             * Format: int64
             * @description Number of rows that the edits omit.
             */
            left_out: number;
            /** @description Rows that would fail and rows with edits, in the order of the file, at most 1,000. */
            listed: components["schemas"]["CheckedRow"][];
            /**
             * Format: int64
             * @description Number of rows in the file, all of which were read.
             */
            rows: number;
        };
        /** @description Job type and options for reading the file; the fields have the same names as in `POST /jobs`. */
        FileCheckBody: {
            delimiter?: string | null;
            edits?: components["schemas"]["RowEdit"][];
            encoding?: string | null;
            format?: components["schemas"]["UploadFormat"] | null;
            header?: boolean | null;
            /** Format: int64 */
            header_row?: number | null;
            mapping?: components["schemas"]["Mapping"] | null;
            sheet?: string | null;
            type: string;
        };
        /** @description Form with a file. */
        FileForm: {
            /** Format: binary */
            file: string;
        };
        /** @enum {string} */
        FindingKind: "missing" | "unknown" | "mismatch";
        /** @description Body of `POST /assignments/finish`: ends of assignments, and the next claim. */
        FinishRequest: {
            claim?: components["schemas"]["ClaimRequest"] | null;
            endings?: components["schemas"]["AssignmentEnding"][];
        };
        /** @description Response of `POST /assignments/finish`, in request order; a refused ending does not affect the others. */
        FinishResponse: {
            assignments: components["schemas"]["Assignment"][];
            endings: components["schemas"]["AssignmentEndingResult"][];
        };
        /** @description Form field: a member of the event's data. */
        FormField: {
            /** @description Possible answers of a field of the type `choice`; not allowed for other types. */
            choices?: string[];
            /** @description Hint below the field. */
            description?: string | null;
            /** @description Name of the member, unique in the form. */
            name: string;
            /** @description True if an answer is required. A required boolean may be false. */
            required?: boolean;
            /** @description Label on the page; absent: the name. */
            title?: string | null;
            type: components["schemas"]["FieldType"];
        };
        /** @description An entry in the history of an error group. */
        GroupChange: {
            at: components["schemas"]["Timestamp"];
            /** @description Name of the person or service; `null` if the group reopened by itself. */
            by?: string | null;
            /** Format: int64 */
            failures?: number | null;
            note?: string | null;
            /** @description New state of the group. */
            state: components["schemas"]["GroupState"];
            until?: components["schemas"]["Timestamp"] | null;
        };
        /**
         * @description State of an error group.
         * @enum {string}
         */
        GroupState: "open" | "muted" | "resolved" | "regressed";
        /** @description Response of a healthy server, with a single word. */
        Health: {
            status: string;
        };
        /** @description Body of `POST /assignments/{id}/heartbeat`. */
        HeartbeatRequest: {
            progress?: components["schemas"]["ItemProgress"] | null;
        };
        /** @description Response to a heartbeat. */
        HeartbeatResponse: {
            /** @description True if the worker must stop because the job or item was canceled. */
            cancel: boolean;
            lease_expires_at: components["schemas"]["Timestamp"];
        };
        /** @description Body of `POST /assignments/heartbeat`. */
        HeartbeatsRequest: {
            heartbeats: components["schemas"]["AssignmentHeartbeat"][];
        };
        /** @description Response of `POST /assignments/heartbeat`, in request order. */
        HeartbeatsResponse: {
            heartbeats: components["schemas"]["AssignmentHeartbeatResult"][];
        };
        /** @description Payload property that a column can be mapped to. */
        ImportProperty: {
            name: string;
            /** @description True if the schema requires it. */
            required: boolean;
            /** @description JSON type besides `null`, such as `number`; null if the schema allows several or does not say. */
            type?: string | null;
        };
        /** @description Import settings of a job type. */
        ImportSettings: {
            /** @description Other names of columns by property, used to suggest a mapping. */
            aliases?: {
                [key: string]: string[];
            };
            /** @description False if no job of the type can be created from a file. */
            enabled?: boolean;
            /**
             * @description Roles of people who may create a job from a file. Absent or null: all. Services only need the scope
             *     `jobs:write`.
             */
            roles?: ("user" | "support" | "admin")[] | null;
            template?: components["schemas"]["ImportTemplate"] | null;
        };
        /** @description Content of a template file. */
        ImportTemplate: {
            /** @description Example rows: objects with values by property. */
            examples?: {
                [key: string]: unknown;
            }[];
        };
        /** @description Unit of work, with its state and result. */
        Item: {
            assignment?: components["schemas"]["LeaseHolder"] | null;
            /** Format: int32 */
            attempts: number;
            cancel_requested_at?: components["schemas"]["Timestamp"] | null;
            created_at: components["schemas"]["Timestamp"];
            debounce?: components["schemas"]["ItemDebounce"] | null;
            dedupe_key?: string | null;
            event?: components["schemas"]["ReceivedEvent"] | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** Format: int32 */
            failures: number;
            /** Format: uuid */
            fed_by?: string | null;
            finished_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            job_id: string;
            last_error?: components["schemas"]["ItemError"] | null;
            max_failures: components["schemas"]["MaxFailures"];
            metadata: {
                [key: string]: unknown;
            };
            /** @description Payload before a person edited it; null if nobody did. */
            original_payload?: components["schemas"]["JsonValue"];
            /** @description Payload; omitted where many items are returned (event streams, lists of items in flight). */
            payload?: components["schemas"]["JsonValue"];
            /** Format: int32 */
            priority: number;
            progress?: components["schemas"]["ItemProgress"] | null;
            result?: components["schemas"]["JsonValue"];
            retry_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            root_id: string;
            /**
             * Format: int64
             * @description First line of its record in the upload.
             */
            row?: number | null;
            run_after?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int64
             * @description Position within its job, from 1.
             */
            seq: number;
            serialize_key?: string | null;
            state: components["schemas"]["ItemState"];
            step?: components["schemas"]["ItemStep"] | null;
            /**
             * Format: uuid
             * @description Item with the corrected row that replaced this one. This item is canceled and cannot be retried.
             */
            superseded_by?: string | null;
            type: string;
            updated_at: components["schemas"]["Timestamp"];
            /** Format: int64 */
            version: number;
            wait?: components["schemas"]["EventWait"] | null;
            waiting_for?: components["schemas"]["WaitingFor"] | null;
        };
        /** @description Debounce of an item and its state. */
        ItemDebounce: {
            first_at: components["schemas"]["Timestamp"];
            key: string;
            last_at: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description `max_seconds` of the last item with the key.
             */
            max_seconds: number;
            /**
             * Format: int64
             * @description Number of later items whose payload replaced that of this item.
             */
            merged: number;
            /**
             * Format: int64
             * @description `seconds` of the last item with the key.
             */
            seconds: number;
            /** @description Latest time at which the item becomes available. */
            starts_by: components["schemas"]["Timestamp"];
        };
        /** @description Error of the last attempt. */
        ItemError: {
            at: components["schemas"]["Timestamp"];
            detail?: components["schemas"]["JsonValue"];
            /** @description Kind of the error for programs, for example `lease_lost` or `invalid_row`. */
            kind?: string | null;
            message: string;
        };
        /** @description One page of a list. */
        ItemPage: {
            data: components["schemas"]["Item"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /items/{id}` for a waiting item: the given fields change; `null` restores the value of the job. */
        ItemPatch: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description Priority, −100 to 100.
             */
            priority?: number | null;
            /** @description Reason, required for another owner's item. */
            reason?: string | null;
            run_after?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Progress of a worker on one item. */
        ItemProgress: {
            /** Format: int64 */
            done?: number | null;
            message?: string | null;
            /** Format: int64 */
            total?: number | null;
        };
        /**
         * @description State of an item. The first one that applies: a final state, `running` (an open assignment), `waiting_for_event`,
         *     `retryable` (`retry_at` is in the future), `blocked` by `after`, `scheduled` (`run_after` is in the future), `blocked` by
         *     its serialize key, `available`.
         * @enum {string}
         */
        ItemState: "available" | "running" | "retryable" | "scheduled" | "blocked" | "waiting_for_event" | "succeeded" | "dead" | "cancelled" | "expired";
        /** @description Last recovery point that an item has reached (`steps`). */
        ItemStep: {
            data: components["schemas"]["JsonValue"];
            name: string;
        };
        /** @description Response of `POST /jobs/{id}/items`. */
        ItemsAdded: {
            /** Format: int64 */
            accepted: number;
            /** Format: int64 */
            duplicates: number;
            /**
             * Format: int64
             * @description Number of items that replaced the payload of a waiting item with the same debounce key, and are not added
             *     themselves.
             */
            merged?: number;
            sealed: boolean;
        };
        /**
         * @description A job. `status`, `outcome` and `counts` are those of the job itself; `tree` is the job with everything below it,
         *     which `percent`, `message`, `started_at` and `completed_at` also describe.
         */
        Job: {
            after: string[];
            /** @description Child jobs; omitted in lists and in `change` events. */
            children?: components["schemas"]["Job"][] | null;
            completed_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description Number of times that the tree has completed.
             */
            completion: number;
            counts: components["schemas"]["Counts"];
            created_at: components["schemas"]["Timestamp"];
            dedupe_key?: string | null;
            /** Format: int64 */
            expected_count?: number | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            feed?: null | components["schemas"]["FeedRule"];
            final_stage: boolean;
            /** Format: uuid */
            id: string;
            /** @description For a root: Idempotency-Key of the request that created the tree, as long as it is stored. */
            idempotency_key?: string | null;
            initiated_by?: string | null;
            /** Format: int64 */
            item_count: number;
            /**
             * Format: int64
             * @description Number of items in a final state.
             */
            item_progress: number;
            key: string;
            max_failures: components["schemas"]["MaxFailures"];
            /**
             * Format: int64
             * @description On the root in the response that created the tree: number of items that replaced the payload of a waiting item
             *     with the same debounce key, and are not items of this tree. Absent if there are none.
             */
            merged?: number | null;
            message: string;
            metadata: {
                [key: string]: unknown;
            };
            name?: string | null;
            open_because?: components["schemas"]["OpenBecause"] | null;
            outcome?: components["schemas"]["Outcome"] | null;
            owner: components["schemas"]["Owner"];
            /** Format: uuid */
            parent_id?: string | null;
            /**
             * Format: int32
             * @description Percentage, 0 to 100; at most 99 before completion; null while the job is unsealed without `expected_count`.
             */
            percent?: number | null;
            /** @description True if exempt from retention: the tree is kept until somebody deletes it. */
            pinned: boolean;
            /** Format: int32 */
            priority: number;
            /** Format: uuid */
            replay_of?: string | null;
            /** Format: uuid */
            root_id: string;
            run_after?: components["schemas"]["Timestamp"] | null;
            sealed: boolean;
            started_at?: components["schemas"]["Timestamp"] | null;
            status: components["schemas"]["JobStatus"];
            /** Format: uuid */
            superseded_by?: string | null;
            tree: components["schemas"]["TreeSummary"];
            type: string;
            updated_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            upload_id?: string | null;
            /** Format: int64 */
            version: number;
        };
        /** @description Changed jobs, without children, and the items that workers currently hold. */
        JobChange: {
            /**
             * @description Items that workers currently hold, oldest first, at most 50, without payloads. The list is complete: an item
             *     that is missing is no longer among the first 50.
             */
            items: components["schemas"]["Item"][];
            jobs: components["schemas"]["Job"][];
        };
        /** @description One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); `busy`, `bye` and `removed` (data: an empty object) end the stream */
        JobEvent: {
            /** @description A Job with its children */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "snapshot";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description A Change */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "change";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description An empty object */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "busy" | "bye" | "removed";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        };
        JobInputs: unknown[] | string;
        /** @description One page of a list. */
        JobPage: {
            data: components["schemas"]["Job"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /jobs/{id}`: the given fields change; `null` clears a value. */
        JobPatch: {
            /** Format: int64 */
            expected_count?: number | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            max_failures?: components["schemas"]["MaxFailures"] | null;
            metadata?: {
                [key: string]: unknown;
            } | null;
            name?: string | null;
            on_completed?: components["schemas"]["OnCompleted"] | null;
            /**
             * Format: int32
             * @description Priority, −100 to 100, `null`: 0; also changes waiting items that had the job's value.
             */
            priority?: number | null;
            /** @description Reason, required for another owner's job. */
            reason?: string | null;
            run_after?: components["schemas"]["Timestamp"] | null;
        };
        /**
         * @description Status of a job or a tree (`job-status`).
         * @enum {string}
         */
        JobStatus: "waiting" | "running" | "cancelling" | "completed";
        /** @description A job type as the API shows it. */
        JobType: {
            backoff: components["schemas"]["Backoff"];
            /** Format: int32 */
            concurrency?: number | null;
            concurrency_by?: components["schemas"]["ConcurrencyBy"] | null;
            created_at: components["schemas"]["Timestamp"];
            delivery: components["schemas"]["DeliveryStrategy"];
            executor: components["schemas"]["Executor"];
            /** @description Groups of items that take turns: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
            fair_by?: string | null;
            /** Format: double */
            heartbeat_seconds: number;
            import?: components["schemas"]["ImportSettings"] | null;
            max_failures: components["schemas"]["MaxFailures"];
            name: string;
            paused: boolean;
            payload_schema?: components["schemas"]["JsonValue"];
            rate_limit?: components["schemas"]["RateLimit"] | null;
            require_idempotency_key: boolean;
            /** Format: int64 */
            retain_seconds?: number | null;
            /** Format: double */
            run_timeout_seconds?: number | null;
            steps: string[];
            updated_at: components["schemas"]["Timestamp"];
            /** Format: int64 */
            version: number;
        };
        /** @description One page of a list. */
        JobTypePage: {
            data: components["schemas"]["JobType"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /job-types/{name}`: the given fields change; `null` is a value where a field allows it. Fields of `backoff` are merged one by one. */
        JobTypePatch: {
            backoff?: components["schemas"]["Backoff"];
            /**
             * Format: int32
             * @description Maximum number of items that run at once; `null`: no limit; 0: nothing starts.
             */
            concurrency?: number | null;
            concurrency_by?: components["schemas"]["ConcurrencyBy"] | null;
            delivery?: components["schemas"]["DeliveryStrategy"];
            executor?: components["schemas"]["Executor"];
            /** @description Groups of items that take turns: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
            fair_by?: string | null;
            /** Format: double */
            heartbeat_seconds?: number;
            import?: components["schemas"]["ImportSettings"] | null;
            max_failures?: components["schemas"]["MaxFailures"] | null;
            name?: string;
            paused?: boolean;
            payload_schema?: Record<string, unknown> | boolean | null;
            rate_limit?: components["schemas"]["RateLimit"] | null;
            require_idempotency_key?: boolean;
            /**
             * Format: int64
             * @description Retention in seconds; `null`: forever.
             */
            retain_seconds?: number | null;
            /** Format: double */
            run_timeout_seconds?: number | null;
            steps?: string[];
        };
        /** @description Body of `POST /job-types` and `PUT /job-types/{name}`; only `name` is required. */
        JobTypeSpec: {
            backoff?: components["schemas"]["Backoff"];
            /**
             * Format: int32
             * @description Maximum number of items that run at once; `null`: no limit; 0: nothing starts.
             */
            concurrency?: number | null;
            concurrency_by?: components["schemas"]["ConcurrencyBy"] | null;
            delivery?: components["schemas"]["DeliveryStrategy"];
            executor?: components["schemas"]["Executor"];
            /** @description Groups of items that take turns: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
            fair_by?: string | null;
            /** Format: double */
            heartbeat_seconds?: number;
            import?: components["schemas"]["ImportSettings"] | null;
            max_failures?: components["schemas"]["MaxFailures"] | null;
            name: string;
            paused?: boolean;
            payload_schema?: Record<string, unknown> | boolean | null;
            rate_limit?: components["schemas"]["RateLimit"] | null;
            require_idempotency_key?: boolean;
            /**
             * Format: int64
             * @description Retention in seconds; `null`: forever.
             */
            retain_seconds?: number | null;
            /** Format: double */
            run_timeout_seconds?: number | null;
            steps?: string[];
        };
        /** @description File that a job is created from. */
        JobUpload: {
            /** @description CSV: delimiter, one character. Absent: detected from the first lines. */
            delimiter?: string | null;
            /**
             * @description Text: label of the WHATWG Encoding Standard, such as `windows-1252` or `utf-8`. A UTF-16 byte order mark always
             *     takes precedence. Absent: detected from the byte order mark and the first lines.
             */
            encoding?: string | null;
            format?: components["schemas"]["UploadFormat"] | null;
            /** @description Table: true if the first record contains the column names. Absent: true. */
            header?: boolean | null;
            /**
             * Format: int64
             * @description Table with a header: line of the record with the column names, from 1; everything above it is skipped. In a
             *     workbook, the number of the row in its sheet. Absent: the first record.
             */
            header_row?: number | null;
            /** Format: uuid */
            id: string;
            /** @description XLSX: name of the sheet. Absent: the first one that is not hidden. */
            sheet?: string | null;
        };
        /** @description The caller's watch of a tree. */
        JobWatch: {
            watching: boolean;
        };
        /** @description Any JSON value; returned byte for byte */
        JsonValue: unknown;
        /** @description Worker that holds the item. The assignment's id is never returned, because it is a capability. */
        LeaseHolder: {
            last_heartbeat_at: components["schemas"]["Timestamp"];
            lease_expires_at: components["schemas"]["Timestamp"];
            since: components["schemas"]["Timestamp"];
            worker_id: string;
        };
        /**
         * @description Severity of a log line.
         * @enum {string}
         */
        LogLevel: "trace" | "debug" | "info" | "warn" | "error";
        /** @description A line of `GET /items/{id}/logs`. */
        LogLine: {
            at: components["schemas"]["Timestamp"];
            /** Format: int32 */
            attempt: number;
            fields?: components["schemas"]["JsonValue"];
            level: components["schemas"]["LogLevel"];
            /**
             * Format: int64
             * @description Number of the line in the attempt, from 1. Lines with lower numbers than the first one listed were dropped.
             */
            line: number;
            message: string;
        };
        /** @description One page of a list. */
        LogLinePage: {
            data: components["schemas"]["LogLine"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Log of an attempt after lines were added. */
        LogLinesAdded: {
            /**
             * Format: int64
             * @description Number of lines that this request added.
             */
            added: number;
            /**
             * Format: int64
             * @description Number of the attempt's oldest lines that were dropped, whole requests at a time, to keep at most 1 MiB.
             */
            dropped: number;
            /**
             * Format: int64
             * @description Number of the last line in the attempt.
             */
            last_line: number;
        };
        /** @description Body of `POST /assignments/{id}/logs`. */
        LogLinesRequest: {
            /** @description Lines in the order in which they were written, at most 1,000. */
            lines: components["schemas"]["NewLogLine"][];
        };
        /** @description Column of a file and the property that it becomes. */
        MappedColumn: {
            /** @description Kind of the values. Absent: `text`. */
            as?: components["schemas"]["ValueKind"];
            /**
             * @description Notation of the values. Numbers: `1234.56` (default), `1.234,56`, `1,234.56` or `1 234,56`. Dates: `YYYY-MM-DD`
             *     (default), `DD.MM.YYYY`, `MM/DD/YYYY`, `DD/MM/YYYY`, or `excel` for serial numbers.
             */
            format?: string | null;
            /** @description Name in the header of the file. */
            from: string;
            /** @description Name of the property in the payload. */
            to: string;
        };
        /** @description Columns of a table with a header and the properties that they become. Other columns are dropped. */
        Mapping: {
            /** @description Mapped columns, in the order of the properties in the payload. */
            columns: components["schemas"]["MappedColumn"][];
        };
        /** @description Suggested column mapping of a file: `GET /uploads/{id}/mapping`. */
        MappingSuggestion: {
            /** @description All columns of the file, in order. */
            columns: components["schemas"]["SuggestedColumn"][];
            /**
             * @description Required properties of the type without a suggested column: a mapping without them is refused
             *     (`mapping_incomplete`).
             */
            missing: string[];
            /** @description Properties of the type, from its payload schema and its aliases. */
            properties: components["schemas"]["ImportProperty"][];
        };
        /**
         * @description Reason why a property is suggested for a column, from the strongest to the weakest.
         * @enum {string}
         */
        MatchKind: "remembered" | "exact" | "alias" | "fuzzy";
        MaxFailures: number | "unlimited";
        /** @description Body of `POST /alert-channels`. */
        NewAlertChannel: {
            /**
             * Format: int64
             * @description Time in seconds for which an alert must be open before it is sent. Absent: 0.
             */
            after_seconds?: number | null;
            kind: components["schemas"]["ChannelKind"];
            /** @description Kinds of alerts that are sent. Empty: all. */
            kinds?: components["schemas"]["AlertKind"][];
            /**
             * Format: int64
             * @description Minimum `count` of an alert that is sent. Absent: 1.
             */
            min_count?: number | null;
            name: string;
            paused?: boolean;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description `pagerduty`: integration key. */
            routing_key?: string | null;
            secret?: components["schemas"]["SigningSecret"] | null;
            /** @description True if a message is also sent when an alert is cleared. Absent: true. */
            send_cleared?: boolean | null;
            /** @description `email`: addresses of the recipients. */
            to?: string[];
            /** @description Job types whose alerts are sent. Empty: all, including alerts that are about no type. */
            types?: string[];
            /**
             * Format: uri
             * @description `slack` and `webhook`: URL of the receiver. `pagerduty`: absent for `https://events.pagerduty.com/v2/enqueue`.
             */
            url?: string | null;
        };
        /** @description Body of `POST /bulk-operations`. */
        NewBulk: {
            /** @description Action: items are retried or canceled; jobs are canceled or deleted. */
            action: components["schemas"]["BulkAction"];
            /** @description True to only count the members and return a sample of them. */
            dry_run?: boolean;
            /** @description Object with at least one of the filters of `GET /items` or `GET /jobs`. */
            filter: {
                [key: string]: unknown;
            };
            /** @description With `retry`: changes of each payload. */
            payload_edit?: components["schemas"]["PayloadEdit"][];
            /**
             * Format: double
             * @description Maximum number of members per second, over all servers; null: no limit.
             */
            rate_per_second?: number | null;
            /** @description Reason, required for another owner's work; stored in the audit log. */
            reason?: string | null;
            target: components["schemas"]["BulkTarget"];
        };
        /** @description Item to add. An absent payload is `null`. */
        NewItem: {
            debounce?: components["schemas"]["Debounce"] | null;
            dedupe_key?: string | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            metadata?: {
                [key: string]: unknown;
            } | null;
            payload?: components["schemas"]["JsonValue"];
            /**
             * Format: int32
             * @description Priority, −100 to 100, higher first; absent: that of the job.
             */
            priority?: number | null;
            run_after?: components["schemas"]["Timestamp"] | null;
            serialize_key?: string | null;
        };
        /** @description Body of `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …). */
        NewJob: {
            after?: string[];
            /** @enum {string|null} */
            after_outcome?: "succeeded" | "any" | null;
            children?: components["schemas"]["NewJob"][];
            dedupe_key?: string | null;
            /** @description Rows of the upload to change or omit, at most 1,000. */
            edits?: components["schemas"]["RowEdit"][];
            /** Format: int64 */
            expected_count?: number | null;
            expires_at?: components["schemas"]["Timestamp"] | null;
            feed?: null | components["schemas"]["FeedRule"];
            final_stage?: boolean;
            /** Format: uuid */
            id?: string | null;
            initiated_by?: string | null;
            items?: components["schemas"]["NewItem"][];
            key?: string | null;
            mapping?: components["schemas"]["Mapping"] | null;
            max_failures?: components["schemas"]["MaxFailures"] | null;
            metadata?: {
                [key: string]: unknown;
            } | null;
            name?: string | null;
            on_completed?: components["schemas"]["OnCompleted"] | null;
            /** Format: int32 */
            priority?: number | null;
            run_after?: components["schemas"]["Timestamp"] | null;
            sealed?: boolean;
            type: string;
            upload?: components["schemas"]["JobUpload"] | null;
        };
        /** @description A line that a worker logs. */
        NewLogLine: {
            at?: components["schemas"]["Timestamp"] | null;
            /** @description Object with details, at most 16,384 bytes. */
            fields?: components["schemas"]["JsonValue"];
            level?: components["schemas"]["LogLevel"];
            /** @description Text of the line; everything after its first 16,384 bytes is cut off. */
            message: string;
        };
        /** @description Body of `POST /me/passkeys`. */
        NewPasskey: {
            /** @description Credential as returned by `PublicKeyCredential.toJSON()`. */
            credential: components["schemas"]["JsonValue"];
            /** @description Name that the person gives the passkey, 1 to 100 characters. */
            name: string;
            /** @description `state` of the options response. */
            state: string;
        };
        /** @description Body of `POST /me/password`. */
        NewPassword: {
            /** @description Current password. Not required if there is none, or within an hour of signing in with a one-time link. */
            current_password?: string | null;
            new_password: string;
        };
        /** @description Body of `POST /views`. */
        NewSavedView: {
            is_default?: boolean;
            list: components["schemas"]["ViewList"];
            /** @description Name, unique among the caller's views of the list. */
            name: string;
            /** @description Filter of the list. Absent: everything. */
            q?: string;
            /** @description True if everyone may use the view. Staff only. */
            shared?: boolean;
            /** @description `sort` of the list. Absent: its default. */
            sort?: string | null;
        };
        /** @description Body of `POST /schedules`. */
        NewSchedule: {
            catch_up?: components["schemas"]["CatchUp"] | null;
            /**
             * Format: int64
             * @description Catch-up window in seconds. Absent: an hour.
             */
            catch_up_window_seconds?: number | null;
            /**
             * @description Cron expression: five fields (minute, hour, day, month, weekday), six with seconds first, or `@hourly`,
             *     `@daily`, `@weekly`, `@monthly`, `@yearly`.
             */
            cron: string;
            ends_at?: components["schemas"]["Timestamp"] | null;
            /** @description Body of `POST /jobs`, without ids. */
            job: components["schemas"]["NewJob"];
            name: string;
            overlap?: components["schemas"]["Overlap"] | null;
            paused?: boolean;
            starts_at?: components["schemas"]["Timestamp"] | null;
            /** @description IANA time zone, such as `Europe/Berlin`. Absent: `UTC`. */
            time_zone?: string | null;
        };
        /** @description Body of `POST /services`. */
        NewService: {
            /** @description Name, in the form of job type names: `[a-z0-9][a-z0-9._-]{0,99}`. */
            name: string;
        };
        /** @description Body of `POST /tokens`. */
        NewToken: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Display name, 1 to 100 characters. */
            name: string;
            /** @description One or more of `jobs:read`, `jobs:write`, `work`, `metrics`, `admin`. */
            scopes: ("jobs:read" | "jobs:write" | "work" | "metrics" | "admin")[];
            /** @description Name of the service that the token belongs to, and that owns its work. */
            service: string;
            /** @description Job types that the scope `work` is restricted to. Absent or null: all. */
            types?: string[] | null;
        };
        /** @description Body of `POST /users`. */
        NewUser: {
            /**
             * Format: email
             * @description Email address to sign in with, unique among people regardless of case.
             */
            email: string;
            /**
             * @description True if the person must choose a new password when they sign in. Default: true if a person sends the request,
             *     false if a service does.
             */
            must_change_password?: boolean | null;
            /** @description Display name, 1 to 100 characters, unique among people. */
            name: string;
            /**
             * @description Initial password: at least 12 characters, and not a common one. Absent or null: a one-time link is returned
             *     instead.
             */
            password?: string | null;
            /**
             * @description Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person, to sign them in to this account. Not needed
             *     if the proxy sends the email address.
             */
            proxy_user?: string | null;
            /** @description Reason, stored in the audit log. */
            reason?: string | null;
            /**
             * @description Role: `user` (default), `support` or `admin`.
             * @enum {string|null}
             */
            role?: "user" | "support" | "admin" | null;
        };
        /** @description A notice to one person. It contains no payloads. */
        Notice: {
            created_at: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Number of failed items at that time.
             */
            dead: number;
            /** Format: uuid */
            id: string;
            /** @description True if the tree is an import of a file. */
            is_import: boolean;
            /**
             * Format: uuid
             * @description Id of the tree's root.
             */
            job_id: string;
            /** @description Name of the tree's root, or else its key. */
            job_name: string;
            kind: components["schemas"]["NoticeKind"];
            outcome?: components["schemas"]["Outcome"] | null;
            read_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Message about a notice, in a delivery. */
        NoticeDelivery: {
            /**
             * Format: uuid
             * @description Id of the root of the tree that the notice is about.
             */
            job_id?: string | null;
            kind?: components["schemas"]["NoticeKind"] | null;
            /** Format: uuid */
            notice_id: string;
        };
        /** @description A watched tree is complete. */
        NoticeFinished: {
            data: components["schemas"]["Notice"];
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "notice.finished";
        };
        /**
         * @description Kind of a notice.
         * @enum {string}
         */
        NoticeKind: "finished" | "needs_attention";
        /** @description A watched tree needs attention. */
        NoticeNeedsAttention: {
            data: components["schemas"]["Notice"];
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "notice.needs_attention";
        };
        /** @description One page of a list. */
        NoticePage: {
            data: components["schemas"]["Notice"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Settings for how a person receives notices. */
        NoticeSettings: {
            /** @description True to send notifications to browsers that permit them. Default false. */
            browser: boolean;
            /** @description True to send email to the address of the account. Default false. */
            email: boolean;
            /** @description True if notices are signed with their own secret, false if with the secret of the account. */
            has_webhook_secret: boolean;
            /** @description True to show notices in the list on every page. Default true. */
            in_page: boolean;
            /** @description URL that notices are posted to, without parts that may be secret. */
            webhook_url?: string | null;
        };
        /** @description Body of `PATCH /me/notice-settings`: the given fields change; `null` removes the URL or its secret. */
        NoticeSettingsPatch: {
            browser?: boolean | null;
            /** @description Requires an email address and a mail server (`TREELINE_SMTP_URL`). */
            email?: boolean | null;
            in_page?: boolean | null;
            webhook_secret?: components["schemas"]["SigningSecret"] | null;
            /**
             * Format: uri
             * @description Public address, or one that `TREELINE_CALLBACK_ALLOW` allows. A new URL removes the secret of the old one.
             */
            webhook_url?: string | null;
        };
        /** @description Receiver of the callback of a complete tree. */
        OnCompleted: {
            secret?: components["schemas"]["SigningSecret"] | null;
            /** Format: uri */
            url: string;
        };
        /** @description Reason why a job is not complete. */
        OpenBecause: {
            detail: string;
            /**
             * @description `unsealed`, `items`, `after` or `cancelling`.
             * @enum {string}
             */
            reason: "unsealed" | "items" | "after" | "cancelling";
        };
        /**
         * @description Outcome of a complete job or tree (`completion`).
         * @enum {string}
         */
        Outcome: "succeeded" | "partial" | "failed" | "cancelled";
        /**
         * @description Handling of a tick while the tree of the previous run is not complete.
         * @enum {string}
         */
        Overlap: "skip" | "queue" | "cancel_previous";
        /** @description Owner of a job. */
        Owner: {
            kind: components["schemas"]["OwnerKind"];
            name: string;
        };
        /** @enum {string} */
        OwnerKind: "user" | "service";
        /** @description A passkey. */
        Passkey: {
            created_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            last_used_at?: components["schemas"]["Timestamp"] | null;
            name: string;
        };
        /** @description Response of the browser in a passkey ceremony. */
        PasskeyAnswer: {
            /** @description Credential as returned by `PublicKeyCredential.toJSON()`. */
            credential: components["schemas"]["JsonValue"];
            /** @description `state` of the options response. */
            state: string;
        };
        /** @description Response of `POST /me/passkeys`. */
        PasskeyMade: components["schemas"]["Passkey"] & {
            /**
             * @description Recovery codes, each valid once instead of a second factor. Returned only once; empty if earlier codes stay
             *     valid.
             */
            recovery_codes: string[];
        };
        /** @description Response to requests that start a passkey ceremony in the browser. */
        PasskeyOptions: {
            /**
             * @description Options for `navigator.credentials.create` or `.get`, with binary values as base64url (for
             *     `PublicKeyCredential.parseCreationOptionsFromJSON`).
             */
            public_key: components["schemas"]["JsonValue"];
            /** @description Sealed state, to be sent back with the credential within five minutes. */
            state: string;
        };
        /** @description Body of `PATCH /me/passkeys/{id}`. */
        PasskeyPatch: {
            name: string;
        };
        /** @description One edit of a payload. */
        PayloadEdit: {
            op: components["schemas"]["EditOp"];
            /** @description JSON Pointer; `-` as the last token sets a value at the end of an array. */
            path: string;
            /** @description With `set`: the new value, which may be null. */
            value?: components["schemas"]["JsonValue"];
        };
        /** @description One record of a preview: cells of a table's row, or one JSON value. */
        PreviewRow: {
            /** @description Cells of the row, including the first 20 beyond the last column. */
            cells: string[];
            payload?: components["schemas"]["JsonValue"];
            /** @description Reason why the record would be refused. */
            problem?: string | null;
            /**
             * Format: int64
             * @description First line of the record in the file, from 1.
             */
            row: number;
        };
        /**
         * @description A problem document.
         * @example {
         *       "code": "invalid_body",
         *       "detail": "At /items/0/priority: expected a whole number from -100 to 100.",
         *       "errors": [
         *         {
         *           "detail": "expected a whole number from -100 to 100",
         *           "pointer": "/items/0/priority"
         *         }
         *       ],
         *       "request_id": "0190a5e2-11c0-7e01-9c62-52c8a1a0b7d4",
         *       "status": 422,
         *       "title": "The body is not valid",
         *       "type": "urn:treeline:problem:invalid_body"
         *     }
         */
        Problem: {
            /**
             * Format: int64
             * @description Number of items of an NDJSON stream that were added before it was stopped.
             */
            accepted?: number | null;
            code: components["schemas"]["ProblemCode"];
            detail: string;
            ended_as?: components["schemas"]["AttemptOutcome"] | null;
            errors?: components["schemas"]["FieldProblem"][];
            /**
             * Format: uuid
             * @description `duplicate`, `id_in_use`: id of the existing object.
             */
            id?: string | null;
            item_state?: components["schemas"]["ItemState"] | null;
            /**
             * Format: int64
             * @description Line of an NDJSON stream that was refused, from 1; if the job refuses all, the first one that was not added.
             */
            line?: number | null;
            /** @description `mfa_required`, `step_up_required`: accepted methods: `totp`, `passkey`, `recovery_code`, `password`. */
            methods?: string[];
            request_id?: string | null;
            /**
             * Format: int32
             * @description Seconds after which to try again, if known.
             */
            retry_after_seconds?: number | null;
            /** @description `mfa_required`: replaces the first factor for ten minutes; send it with the second factor. */
            state?: string | null;
            /** Format: int32 */
            status: number;
            title: string;
            /** @description URI that ends in the code. */
            type: string;
        };
        /**
         * @description Stable error code for programs.
         * @enum {string}
         */
        ProblemCode: "invalid_json" | "invalid_parameter" | "idempotency_key_required" | "cursor_mismatch" | "unauthenticated" | "mfa_required" | "forbidden" | "mfa_enrollment_required" | "password_change_required" | "step_up_required" | "not_found" | "method_not_allowed" | "duplicate" | "id_in_use" | "job_sealed" | "job_is_fed" | "job_cancelled" | "job_completed" | "job_not_complete" | "not_root" | "superseded" | "assignment_closed" | "already_started" | "step_behind" | "item_expired" | "item_final" | "item_not_final" | "not_waiting" | "other_event" | "not_retryable" | "not_resendable" | "profiling_off" | "operation_over" | "job_type_in_use" | "last_admin" | "last_sign_in_method" | "user_disabled" | "wrong_offset" | "upload_in_use" | "job_removed" | "link_used" | "precondition_failed" | "too_large" | "unsupported_media_type" | "range_not_satisfiable" | "misdirected" | "invalid_body" | "unknown_job_type" | "unknown_step" | "cycle" | "idempotency_key_reused" | "reason_required" | "url_not_allowed" | "no_rows" | "bad_header" | "mapping_incomplete" | "schema_too_complex" | "too_many_requests" | "quota_exceeded" | "internal" | "busy" | "database_unavailable" | "shutting_down" | "insufficient_storage";
        /** @description Headers by name. */
        PushHeaders: {
            [key: string]: string;
        };
        /** @description An item for the worker behind the URL of a job type with a push executor. */
        PushedItem: {
            /** @description Id to end the assignment with, after a 202: a UUID, `.` and a capability. Keep it secret; whoever has it and a token for the type can end the assignment */
            assignment_id: string;
            /**
             * Format: int32
             * @description Number of the attempt, from 1; only increases
             */
            attempt: number;
            event?: components["schemas"]["ReceivedEvent"];
            /** @description For a job that waited for others: their results by job key, or links to them */
            inputs?: {
                [key: string]: components["schemas"]["JobInputs"];
            };
            /**
             * Format: uuid
             * @description Id of the item, the same for every attempt; also sent as `Idempotency-Key`
             */
            item_id: string;
            /**
             * Format: uuid
             * @description Id of the item's job
             */
            job_id: string;
            payload: components["schemas"]["JsonValue"];
            step: null | components["schemas"]["ItemStep"];
            /** @description Name of the job type */
            type: string;
        };
        /** @description Number of messages that wait in one queue. */
        QueueStats: {
            /** Format: int32 */
            messages: number;
            type: string;
        };
        /**
         * @description Hours of the day in which a channel sends nothing. Alerts that are raised in these hours and still open at their end
         *     are sent then.
         */
        QuietHours: {
            /** @description Days on which the quiet hours begin. Empty: every day. */
            days?: components["schemas"]["Weekday"][];
            /** @description Start of the quiet hours, such as `22:00`. */
            from: string;
            /** @description IANA time zone, such as `Europe/Berlin`. */
            time_zone: string;
            /** @description End of the quiet hours, such as `07:00`; on the next day if it is not later than `from`. */
            to: string;
        };
        /** @description Limit on the number of items that start in a period. Every attempt is a start. */
        RateLimit: {
            /**
             * Format: int64
             * @description Maximum number of starts at the same moment after a pause; then one every `per_seconds` / `count`. If greater
             *     than `count`, also the maximum in one window after a pause. Absent: `count`.
             */
            burst?: number | null;
            /**
             * Format: int64
             * @description Maximum number of starts in any window of `per_seconds`.
             */
            count: number;
            /** @description JSON Pointer into the payload: the limit applies to each value there. Absent: to the whole type. */
            key?: string | null;
            /** Format: int64 */
            per_seconds: number;
        };
        /** @description Body of `POST /me/notices/read`. */
        ReadNotices: {
            /** @description Ids of the notices. Absent: all of them. */
            ids?: string[] | null;
        };
        /** @description Reason of an action: `{"reason": "…"}`. Required for another owner's work. */
        ReasonBody: {
            reason?: string | null;
        };
        /** @description Event or timeout that ended the wait of an item. */
        ReceivedEvent: {
            at: components["schemas"]["Timestamp"];
            by?: components["schemas"]["Actor"] | null;
            /** @description Data of the event; null after a timeout. */
            data: components["schemas"]["JsonValue"];
            name: string;
            /** @description True if no event came in time. */
            timed_out: boolean;
        };
        /** @description Response to requests that create recovery codes. */
        RecoveryCodes: {
            /**
             * @description Recovery codes, each valid once instead of a second factor. Returned only once; empty if earlier codes stay
             *     valid.
             */
            recovery_codes: string[];
        };
        RefusedItem: {
            /** Format: uuid */
            item_id: string;
            reason: string;
        };
        /** @description Body of `POST /assignments/{id}/release`. */
        ReleaseBody: {
            /**
             * Format: double
             * @description Seconds until the item is available again, at most ten years; absent: it is available at once.
             */
            retry_after_seconds?: number | null;
        };
        /** @description Body of `POST /items/{id}/replay` (`replay`). */
        ReplayBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Payload, instead of the current one. */
            payload?: components["schemas"]["JsonValue"];
            /** @description Reason, required for another owner's work; stored in the audit log. */
            reason?: string | null;
        };
        /** @description Body of `POST /assignments/{id}/result`. Absent result: `{}`; null is refused. */
        ResultBody: {
            result?: components["schemas"]["JsonValue"];
        };
        /** @description A line of `GET /jobs/{id}/results`. */
        ResultLine: {
            /** Format: uuid */
            item_id: string;
            /** Format: uuid */
            job_id: string;
            payload: components["schemas"]["JsonValue"];
            result: components["schemas"]["JsonValue"];
            /** Format: int64 */
            row?: number | null;
        };
        /** @description File that is uploaded in pieces (tus 1.0). After its last byte it is an [`Upload`] with the same id. */
        ResumableUpload: {
            /**
             * Format: int64
             * @description Announced size in bytes.
             */
            bytes: number;
            created_at: components["schemas"]["Timestamp"];
            filename: string;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description Number of bytes received.
             */
            received: number;
        };
        /** @description Body of `POST /items/{id}/retry` (`manual-retry`). */
        RetryBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Payload, instead of the current one; the original stays readable. */
            payload?: components["schemas"]["JsonValue"];
            /** @description Reason, required for another owner's work; stored in the audit log. */
            reason?: string | null;
            /** @description True to discard the steps that the item has reached. Default: `false`. */
            restart?: boolean;
        };
        /** @description List of trees. A page of `GET /jobs` is also a valid list: its jobs, and nothing removed. */
        RootsChange: {
            /** @description Root jobs, without children: the newest hundred, or those that changed. */
            jobs: components["schemas"]["Job"][];
            /** @description Ids of trees that were removed. */
            removed: string[];
        };
        /** @description One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot` */
        RootsEvent: {
            /** @description The newest trees */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "snapshot";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description Trees that changed */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "change";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description With `topics`: the whole state of a topic; for `roots` and `job:ID`, the changes */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "snapshot" | "change";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description With `topics`: the topic does not exist, no longer exists, or is not visible to the caller; the other topics continue */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "forbidden" | "removed";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        } | {
            /** @description An empty object */
            data: string;
            /**
             * @description Kind of the data
             * @enum {string}
             */
            event: "busy" | "bye";
            /** @description Opaque id; a reconnect always begins with a snapshot */
            id?: string;
            /** @description Milliseconds until a disconnected client should reconnect */
            retry?: number;
        };
        /** @description Row with changed cells, or row to omit. */
        RowEdit: {
            /** @description New cells by column name in the header; without a header, by column number from 1. Only for tables. */
            cells?: {
                [key: string]: string;
            };
            /** @description True if the row does not become an item. */
            leave_out?: boolean;
            /**
             * Format: int64
             * @description First line of the row in the file, from 1; in a workbook, its number in the sheet. A number without a row has no
             *     effect.
             */
            row: number;
        };
        /**
         * @description Result of a tick.
         * @enum {string}
         */
        RunState: "started" | "queued" | "skipped" | "failed";
        /** @description A saved view. */
        SavedView: {
            created_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description True if the list opens with this view on the caller's pages. */
            is_default: boolean;
            list: components["schemas"]["ViewList"];
            name: string;
            owner: components["schemas"]["Owner"];
            /** @description Filter of the list in the language of the pages, such as `status:running owner:ada`. Empty: everything. */
            q: string;
            /** @description True if everyone may use it. */
            shared: boolean;
            /** @description `sort` of the list; null: the default of the list. */
            sort?: string | null;
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        SavedViewPage: {
            data: components["schemas"]["SavedView"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /views/{id}`: the given fields change; `null` clears `sort`. */
        SavedViewPatch: {
            /** @description True if the list opens with this view on the caller's own pages; also for a view that somebody else shares. */
            is_default?: boolean | null;
            name?: string | null;
            q?: string | null;
            /** @description Reason, required from an admin who changes the view of somebody else; stored in the audit log. */
            reason?: string | null;
            /** @description True if everyone may use the view. Staff only. */
            shared?: boolean | null;
            sort?: string | null;
        };
        /** @description Schedule that creates a tree at each tick of a cron expression. */
        Schedule: {
            catch_up: components["schemas"]["CatchUp"];
            /** Format: int64 */
            catch_up_window_seconds: number;
            created_at: components["schemas"]["Timestamp"];
            cron: string;
            ends_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            id: string;
            /** @description Body of `POST /jobs`, as given, but without the secret of `on_completed` and the query of its URL. */
            job: components["schemas"]["NewJob"];
            last_run?: components["schemas"]["ScheduleRun"] | null;
            name: string;
            /** @description Next ticks, at most five. No tree is created at them while the schedule is paused. */
            next_runs: components["schemas"]["Timestamp"][];
            overlap: components["schemas"]["Overlap"];
            /** @description Owner of the schedule and of its trees. */
            owner: components["schemas"]["Owner"];
            paused: boolean;
            starts_at?: components["schemas"]["Timestamp"] | null;
            /** @description IANA time zone of the cron expression. */
            time_zone: string;
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        SchedulePage: {
            data: components["schemas"]["Schedule"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /schedules/{id}`: the given fields change; `null` clears a value. */
        SchedulePatch: {
            catch_up?: components["schemas"]["CatchUp"] | null;
            /** Format: int64 */
            catch_up_window_seconds?: number | null;
            cron?: string | null;
            ends_at?: components["schemas"]["Timestamp"] | null;
            job?: components["schemas"]["NewJob"] | null;
            name?: string | null;
            overlap?: components["schemas"]["Overlap"] | null;
            paused?: boolean | null;
            /** @description Reason, required for another owner's schedule; stored in the audit log. */
            reason?: string | null;
            starts_at?: components["schemas"]["Timestamp"] | null;
            time_zone?: string | null;
        };
        /** @description Result of one tick. */
        ScheduleRun: {
            /** @description Time of the last change of state. */
            at: components["schemas"]["Timestamp"];
            /** @description True for `POST /schedules/{id}/run`. */
            by_hand: boolean;
            /**
             * Format: uuid
             * @description Id of the tree's root, if the tree was created. It may have been deleted since.
             */
            job_id?: string | null;
            problem?: components["schemas"]["Problem"] | null;
            /** @description `overlap`: the previous tree was not complete. `missed`: no server was running. `queue_full`: too many runs wait. */
            reason?: string | null;
            /**
             * Format: int64
             * @description Ordinal within the schedule, from 1.
             */
            seq: number;
            state: components["schemas"]["RunState"];
            /** @description Time of the tick according to the cron expression; for a run by hand, the time of the request. */
            tick: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        ScheduleRunPage: {
            data: components["schemas"]["ScheduleRun"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Search results of one kind, at most ten. */
        SearchGroup: {
            hits: components["schemas"]["SearchHit"][];
            kind: components["schemas"]["SearchKind"];
        };
        /** @description Search result. */
        SearchHit: {
            /** @description Further details, such as the type and the state. */
            detail?: string | null;
            /**
             * @description Id, or the fingerprint of an error group, the name of a worker or a type; for a file that was found by its name,
             *     the id of the job that was created from it, if there is one.
             */
            id: string;
            /**
             * @description Matching field: `id`, `name`, `key`, `dedupe_key`, `serialize_key`, `idempotency_key`, `filename`, `message`, `email`,
             *     `reason` or `text` (name, key or metadata).
             */
            matched: string;
            /**
             * @description Path of the page that shows it. For an export, and for another owner's file without a job, the download of its
             *     content.
             */
            path: string;
            /** @description Display name. */
            title: string;
        };
        /**
         * @description Kind of a search result.
         * @enum {string}
         */
        SearchKind: "jobs" | "items" | "errors" | "uploads" | "workers" | "job_types" | "schedules" | "views" | "bulk_operations" | "people" | "services";
        /** @description Response of `GET /search`. */
        SearchResults: {
            /** @description Results by kind; kinds without results are omitted. */
            groups: components["schemas"]["SearchGroup"][];
            /** @description Searched text. */
            q: string;
        };
        /** @description Response of `GET /stats/series`. */
        Series: {
            /** @description Upper bounds of the buckets in seconds; the last bucket holds everything above. Empty for counts. */
            bounds: number[];
            /** @description Every point from `from` to `to`, oldest first; a point without activity has the value 0. */
            data: components["schemas"]["SeriesPoint"][];
            /** @description Start of the first point. */
            from: components["schemas"]["Timestamp"];
            metric: components["schemas"]["SeriesMetric"];
            step: components["schemas"]["SeriesStep"];
            /** @description End of the last point. */
            to: components["schemas"]["Timestamp"];
            /** @description Job type; null: all types together. */
            type?: string | null;
        };
        /**
         * @description Quantity of a series.
         * @enum {string}
         */
        SeriesMetric: "added" | "succeeded" | "failed" | "dead" | "cancelled" | "expired" | "retried" | "wait" | "run";
        /** @description One point of a series. */
        SeriesPoint: {
            /** @description Start of the point, a multiple of the step in UTC. */
            at: components["schemas"]["Timestamp"];
            /** @description Number of durations in each bucket (see `bounds`); only for `wait` and `run`, absent if there are none. */
            buckets?: number[];
            /**
             * Format: double
             * @description Median in seconds, estimated within its bucket; only for `wait` and `run`.
             */
            p50?: number | null;
            /**
             * Format: double
             * @description 95th percentile in seconds, estimated within its bucket; only for `wait` and `run`.
             */
            p95?: number | null;
            /**
             * Format: int64
             * @description Number of items or attempts; for `wait` and `run`, number of durations.
             */
            value: number;
        };
        /**
         * @description Length of one point.
         * @enum {string}
         */
        SeriesStep: "minute" | "hour" | "day";
        /** @description Program that creates jobs or works on items. */
        Service: {
            created_at: components["schemas"]["Timestamp"];
            /** @description True if disabled: all requests with its tokens are refused. Its jobs continue. */
            disabled?: boolean;
            /** Format: uuid */
            id: string;
            name: string;
        };
        /** @description One page of a list. */
        ServicePage: {
            data: components["schemas"]["Service"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /services/{id}`: the given fields change. */
        ServicePatch: {
            /** @description `true`: all requests with its tokens are refused; `false`: they are accepted again. */
            disabled?: boolean | null;
            /** @description Reason, stored in the audit log. */
            reason?: string | null;
        };
        /** @description Share link of a tree, without its secret. */
        Share: {
            created_at: components["schemas"]["Timestamp"];
            /** @description Creator, with their name at that time. */
            created_by: components["schemas"]["Owner"];
            /** @description Time when the link expires. */
            expires_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /**
             * Format: uuid
             * @description Id of the root of the shared tree.
             */
            job_id: string;
            last_seen_at?: components["schemas"]["Timestamp"] | null;
            /** @description True while the link works: it is not revoked or expired, and neither its owner nor its creator is disabled. */
            open: boolean;
            revoked_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Body of `POST /jobs/{id}/share`. */
        ShareBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Reason, required for another owner's work; stored in the audit log. */
            reason?: string | null;
        };
        /** @description One page of a list. */
        SharePage: {
            data: components["schemas"]["Share"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /**
         * @description Body of `POST /session`: email and password, a one-time link, or a passkey; the second factor in the same request or
         *     in a second one.
         */
        SignIn: {
            /** @description Second factor, if the person has one: six digits of the authenticator app. */
            code?: string | null;
            email?: string | null;
            /** @description One-time link or the last part of it, instead of email and password. */
            link?: string | null;
            passkey?: components["schemas"]["PasskeyAnswer"] | null;
            password?: string | null;
            /** @description Recovery code, instead of `code`. */
            recovery_code?: string | null;
            /** @description `state` of a refusal with `mfa_required`, instead of the first factor. */
            state?: string | null;
        };
        /** @description Response of `POST /users/{id}/sign-in-link`. */
        SignInLink: {
            expires_at: components["schemas"]["Timestamp"];
            /** @description Sign-in link that works once. Returned only once. */
            url: string;
        };
        /** @description Signed-in browser or program. */
        SignInSession: {
            created_at: components["schemas"]["Timestamp"];
            /** @description True for the session of this request. */
            current: boolean;
            /** @description Browser and system as far as known, such as `Firefox on Linux`. */
            device: string;
            /** @description Time when the session ends unless it is used before: after 30 idle days, and at most 90 days after it began. */
            expires_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description Time of the last request, to the minute. */
            last_seen_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        SignInSessionPage: {
            data: components["schemas"]["SignInSession"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /**
         * @description Signing secrets: one, or two while receivers switch to a new secret; then both sign. A secret is `whsec_` and
         *     base64, or any text.
         */
        SigningSecret: string | string[];
        /** @description Response of `GET /stats`. */
        Statistics: {
            /**
             * Format: double
             * @description Age of the counts in seconds.
             */
            age_seconds?: number | null;
            broker?: components["schemas"]["BrokerStats"] | null;
            counted_at?: components["schemas"]["Timestamp"] | null;
            data: components["schemas"]["TypeStats"][];
        };
        /** @description Body of `POST /assignments/{id}/step`. */
        StepBody: {
            data?: components["schemas"]["JsonValue"];
            name: string;
        };
        /** @description Number of items whose last step is this one. */
        StepCount: {
            /**
             * Format: int64
             * @description At most 10,000.
             */
            items: number;
            /** @description True if there are more items than that. */
            more: boolean;
            name: string;
        };
        /** @description Items of a job by the last step that they have reached, in the order of the job type. */
        StepCounts: {
            steps: components["schemas"]["StepCount"][];
        };
        /** @description Body of `POST /me/step-up`: exactly one of the fields. The password is accepted only without a second factor. */
        StepUp: {
            /** @description Six digits of the authenticator app. */
            code?: string | null;
            passkey?: components["schemas"]["PasskeyAnswer"] | null;
            password?: string | null;
            recovery_code?: string | null;
        };
        /** @description Column of a file and the property suggested for it. */
        SuggestedColumn: {
            /** @description Kind of the values, from the remembered mapping, or from the schema and the first rows. */
            as: components["schemas"]["ValueKind"];
            /**
             * Format: double
             * @description Confidence, from 0 (no suggestion) to 1 (equal names).
             */
            confidence: number;
            /** @description Notation of the values if it is not the default of the kind; null if the first rows allow several notations. */
            format?: string | null;
            /** @description Name in the header of the file. */
            from: string;
            matched?: components["schemas"]["MatchKind"] | null;
            /** @description Suggested property; null if none fits, or if the last mapping left the column out (`matched` is `remembered`). */
            to?: string | null;
        };
        /**
         * @description Format of a template file.
         * @enum {string}
         */
        TemplateFormat: "csv" | "xlsx";
        /** @description Average number of items per second that were added and that ended in a period. */
        ThroughputRate: {
            /** Format: double */
            in_per_second: number;
            /** Format: double */
            out_per_second: number;
            /**
             * Format: int64
             * @description Length of the period in seconds.
             */
            seconds: number;
        };
        /** Format: date-time */
        Timestamp: string;
        /** @description A token, without its secret. */
        Token: {
            created_at: components["schemas"]["Timestamp"];
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            id: string;
            last_used_at?: components["schemas"]["Timestamp"] | null;
            name: string;
            revoked_at?: components["schemas"]["Timestamp"] | null;
            scopes: ("jobs:read" | "jobs:write" | "work" | "metrics" | "admin")[];
            service: string;
            types?: string[] | null;
        };
        /** @description One page of a list. */
        TokenPage: {
            data: components["schemas"]["Token"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `POST /me/totp/confirm`. */
        TotpConfirm: {
            /** @description Six digits that the app shows now. */
            code: string;
        };
        /** @description Body of `PATCH /me/totp`. */
        TotpPatch: {
            name: string;
        };
        /** @description Response of `POST /me/totp`: setup data for an authenticator app. Returned only once. */
        TotpStarted: {
            /** @description Secret as a URI that authenticator apps open. */
            otpauth_url: string;
            /** @description URI as a QR code: an SVG image. */
            qr_svg: string;
            /** @description Secret in base32, to be typed. */
            secret: string;
        };
        /** @description A tree is complete. */
        TreeCompleted: {
            data: {
                /**
                 * Format: int32
                 * @description Number of completions of the tree; a retried tree completes again
                 */
                completion: number;
                counts: components["schemas"]["Counts"];
                /**
                 * Format: uuid
                 * @description Id of the tree's root
                 */
                job_id: string;
                /** @description Metadata of the root */
                metadata: {
                    [key: string]: unknown;
                };
                outcome: components["schemas"]["Outcome"];
            };
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "tree.completed";
        };
        /** @description Summary of a job together with everything below it. */
        TreeSummary: {
            counts: components["schemas"]["Counts"];
            /** Format: int64 */
            item_count: number;
            /** Format: int64 */
            item_progress: number;
            outcome?: components["schemas"]["Outcome"] | null;
            status: components["schemas"]["JobStatus"];
        };
        /** @description Statistics of one job type. */
        TypeStats: {
            /** @description Number of items in each state as of `counted_at`. */
            counts: components["schemas"]["Counts"];
            /** @description Last 30 days with activity, newest first. */
            days: components["schemas"]["DayTotal"][];
            last_asked_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: double
             * @description Age of the item that is claimed next, in seconds; null if nothing waits.
             */
            oldest_waiting_seconds?: number | null;
            /**
             * Format: int64
             * @description Number of items that workers currently hold.
             */
            open: number;
            /** @description Rates over the last minute, five minutes and hour. */
            rates: components["schemas"]["ThroughputRate"][];
            type: string;
        };
        /** @description A stored file. */
        Upload: {
            /** Format: int64 */
            bytes: number;
            created_at: components["schemas"]["Timestamp"];
            filename: string;
            format: components["schemas"]["UploadFormat"];
            /** Format: uuid */
            id: string;
            /** @description SHA-256 of the content in lowercase hexadecimal. */
            sha256: string;
        };
        /**
         * @description Format of a file, which divides it into records.
         * @enum {string}
         */
        UploadFormat: "csv" | "ndjson" | "json" | "lines" | "xlsx" | "none";
        /** @description Response of `GET /uploads/{id}/preview`: the first records of a file. */
        UploadPreview: {
            check?: components["schemas"]["ColumnCheck"] | null;
            /** @description Table with a header: names of the columns. */
            columns: string[];
            /** @description CSV: delimiter, detected or given. */
            delimiter?: string | null;
            /** @description Encoding, detected or given, such as `utf-8`, `utf-16le` or `windows-1252`. */
            encoding: string;
            format: components["schemas"]["UploadFormat"];
            /** @description Problem of the file as a whole (`no_rows`, `bad_header`, `invalid_body`), if any. */
            problem?: string | null;
            /** @description First records, at most 20. */
            rows: components["schemas"]["PreviewRow"][];
            /** @description Workbook: names of its sheets. */
            sheets?: string[];
            /**
             * Format: int64
             * @description Row that seems to contain the column names, if it is not the one that was read: below a title, for example.
             */
            suggested_header_row?: number | null;
        };
        /** @description A person. */
        User: {
            created_at: components["schemas"]["Timestamp"];
            /** @description True if disabled: the person cannot sign in, and all their sessions and links are refused. */
            disabled: boolean;
            email?: string | null;
            /** @description True if the person has a password. */
            has_password: boolean;
            /** Format: uuid */
            id: string;
            last_seen_at?: components["schemas"]["Timestamp"] | null;
            name: string;
            /** @description Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person. */
            proxy_user?: string | null;
            /**
             * @description Role: `user`, `support` or `admin`.
             * @enum {string}
             */
            role: "user" | "support" | "admin";
        };
        /** @description One page of a list. */
        UserPage: {
            data: components["schemas"]["User"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Body of `PATCH /users/{id}`: the given fields change. */
        UserPatch: {
            /** @description `true` ends every session and link of the person. */
            disabled?: boolean | null;
            /** Format: email */
            email?: string | null;
            /** @description Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person, instead of all other names; empty for none. */
            proxy_user?: string | null;
            /** @description Reason, stored in the audit log. */
            reason?: string | null;
            /**
             * @description Role: `user`, `support` or `admin`.
             * @enum {string|null}
             */
            role?: "user" | "support" | "admin" | null;
        };
        /**
         * @description Kind of the values of a mapped column. Empty cells of all kinds but `text` become `null`; an
         *     optional property is left out where the schema refuses that.
         * @enum {string}
         */
        ValueKind: "text" | "number" | "integer" | "boolean" | "date";
        /**
         * @description List that views can be saved for.
         * @enum {string}
         */
        ViewList: "jobs" | "items" | "failures";
        /** @description Body of `POST /assignments/{id}/wait`: ends the attempt until an event of this name arrives. */
        WaitBody: {
            form?: components["schemas"]["EventForm"] | null;
            /** @description Name of the event, 1 to 255 characters. */
            name: string;
            /**
             * Format: double
             * @description Seconds after which the item is available again without an event; absent or null: no limit.
             */
            timeout_seconds?: number | null;
        };
        /** @description Reason why an item is not running. */
        WaitingFor: {
            detail?: string | null;
            /**
             * @description Code of the reason, one of [`WAITING_REASONS`].
             * @enum {string}
             */
            reason: "retry" | "run_after" | "debounce" | "after" | "serialize_key" | "paused" | "concurrency" | "concurrency_key" | "rate_limit" | "not_claimed" | "event";
            until?: components["schemas"]["Timestamp"] | null;
        };
        /**
         * @description Day of the week.
         * @enum {string}
         */
        Weekday: "monday" | "tuesday" | "wednesday" | "thursday" | "friday" | "saturday" | "sunday";
        /** @description Error of an attempt. */
        WorkError: {
            detail?: components["schemas"]["JsonValue"];
            kind?: string | null;
            message: string;
        };
        /** @description Worker that claims items. */
        WorkerSummary: {
            last_seen_at: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Number of items that the worker currently holds.
             */
            open: number;
            /** @description Service whose token the worker uses. */
            owner: string;
            /** @description Job types of the last claim. */
            types: string[];
            worker_id: string;
        };
        /** @description One page of a list. */
        WorkerSummaryPage: {
            data: components["schemas"]["WorkerSummary"][];
            /** @description Opaque cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Actor = components['schemas']['Actor'];
export type ActorKind = components['schemas']['ActorKind'];
export type AffectedJob = components['schemas']['AffectedJob'];
export type AffectedOwner = components['schemas']['AffectedOwner'];
export type Alert = components['schemas']['Alert'];
export type AlertBody = components['schemas']['AlertBody'];
export type AlertChannel = components['schemas']['AlertChannel'];
export type AlertChannelPage = components['schemas']['AlertChannelPage'];
export type AlertChannelPatch = components['schemas']['AlertChannelPatch'];
export type AlertCleared = components['schemas']['AlertCleared'];
export type AlertDelivery = components['schemas']['AlertDelivery'];
export type AlertEvent = components['schemas']['AlertEvent'];
export type AlertKind = components['schemas']['AlertKind'];
export type AlertPage = components['schemas']['AlertPage'];
export type AlertRaised = components['schemas']['AlertRaised'];
export type AlertTest = components['schemas']['AlertTest'];
export type AssignedItem = components['schemas']['AssignedItem'];
export type Assignment = components['schemas']['Assignment'];
export type AssignmentEnded = components['schemas']['AssignmentEnded'];
export type AssignmentEnding = components['schemas']['AssignmentEnding'];
export type AssignmentEndingResult = components['schemas']['AssignmentEndingResult'];
export type AssignmentHeartbeat = components['schemas']['AssignmentHeartbeat'];
export type AssignmentHeartbeatResult = components['schemas']['AssignmentHeartbeatResult'];
export type Attempt = components['schemas']['Attempt'];
export type AttemptOutcome = components['schemas']['AttemptOutcome'];
export type AttemptPage = components['schemas']['AttemptPage'];
export type AuditEntries = components['schemas']['AuditEntries'];
export type AuditEntry = components['schemas']['AuditEntry'];
export type AuditEntryPage = components['schemas']['AuditEntryPage'];
export type Backoff = components['schemas']['Backoff'];
export type BasicAuth = components['schemas']['BasicAuth'];
export type BrokerStats = components['schemas']['BrokerStats'];
export type BuiltinExecutor = components['schemas']['BuiltinExecutor'];
export type BulkAction = components['schemas']['BulkAction'];
export type BulkOperation = components['schemas']['BulkOperation'];
export type BulkOperationPage = components['schemas']['BulkOperationPage'];
export type BulkSample = components['schemas']['BulkSample'];
export type BulkSkipped = components['schemas']['BulkSkipped'];
export type BulkState = components['schemas']['BulkState'];
export type BulkTarget = components['schemas']['BulkTarget'];
export type CallbackDelivery = components['schemas']['CallbackDelivery'];
export type CallbackDeliveryPage = components['schemas']['CallbackDeliveryPage'];
export type CatchUp = components['schemas']['CatchUp'];
export type ChannelKind = components['schemas']['ChannelKind'];
export type CheckFormat = components['schemas']['CheckFormat'];
export type CheckedRow = components['schemas']['CheckedRow'];
export type ClaimRequest = components['schemas']['ClaimRequest'];
export type ClaimResponse = components['schemas']['ClaimResponse'];
export type ColumnCheck = components['schemas']['ColumnCheck'];
export type ColumnFinding = components['schemas']['ColumnFinding'];
export type ConcurrencyBy = components['schemas']['ConcurrencyBy'];
export type Connection = components['schemas']['Connection'];
export type Connections = components['schemas']['Connections'];
export type Counts = components['schemas']['Counts'];
export type CreatedShare = components['schemas']['CreatedShare'];
export type CreatedToken = components['schemas']['CreatedToken'];
export type CreatedUser = components['schemas']['CreatedUser'];
export type CurrentCaller = components['schemas']['CurrentCaller'];
export type DayTotal = components['schemas']['DayTotal'];
export type Debounce = components['schemas']['Debounce'];
export type DeliveryState = components['schemas']['DeliveryState'];
export type DeliveryStrategy = components['schemas']['DeliveryStrategy'];
export type DeliveryTry = components['schemas']['DeliveryTry'];
export type EditOp = components['schemas']['EditOp'];
export type EndedSessions = components['schemas']['EndedSessions'];
export type ErrorGroup = components['schemas']['ErrorGroup'];
export type ErrorGroupDetail = components['schemas']['ErrorGroupDetail'];
export type ErrorGroupPage = components['schemas']['ErrorGroupPage'];
export type ErrorGroupPatch = components['schemas']['ErrorGroupPatch'];
export type EventForm = components['schemas']['EventForm'];
export type EventRequest = components['schemas']['EventRequest'];
export type EventWait = components['schemas']['EventWait'];
export type Executor = components['schemas']['Executor'];
export type ExecutorKind = components['schemas']['ExecutorKind'];
export type ExportFormat = components['schemas']['ExportFormat'];
export type Factors = components['schemas']['Factors'];
export type FailureBody = components['schemas']['FailureBody'];
export type FailureLine = components['schemas']['FailureLine'];
export type FeedRule = components['schemas']['FeedRule'];
export type FieldProblem = components['schemas']['FieldProblem'];
export type FieldType = components['schemas']['FieldType'];
export type FileCheck = components['schemas']['FileCheck'];
export type FileCheckBody = components['schemas']['FileCheckBody'];
export type FileForm = components['schemas']['FileForm'];
export type FindingKind = components['schemas']['FindingKind'];
export type FinishRequest = components['schemas']['FinishRequest'];
export type FinishResponse = components['schemas']['FinishResponse'];
export type FormField = components['schemas']['FormField'];
export type GroupChange = components['schemas']['GroupChange'];
export type GroupState = components['schemas']['GroupState'];
export type Health = components['schemas']['Health'];
export type HeartbeatRequest = components['schemas']['HeartbeatRequest'];
export type HeartbeatResponse = components['schemas']['HeartbeatResponse'];
export type HeartbeatsRequest = components['schemas']['HeartbeatsRequest'];
export type HeartbeatsResponse = components['schemas']['HeartbeatsResponse'];
export type ImportProperty = components['schemas']['ImportProperty'];
export type ImportSettings = components['schemas']['ImportSettings'];
export type ImportTemplate = components['schemas']['ImportTemplate'];
export type Item = components['schemas']['Item'];
export type ItemDebounce = components['schemas']['ItemDebounce'];
export type ItemError = components['schemas']['ItemError'];
export type ItemPage = components['schemas']['ItemPage'];
export type ItemPatch = components['schemas']['ItemPatch'];
export type ItemProgress = components['schemas']['ItemProgress'];
export type ItemState = components['schemas']['ItemState'];
export type ItemStep = components['schemas']['ItemStep'];
export type ItemsAdded = components['schemas']['ItemsAdded'];
export type Job = components['schemas']['Job'];
export type JobChange = components['schemas']['JobChange'];
export type JobEvent = components['schemas']['JobEvent'];
export type JobInputs = components['schemas']['JobInputs'];
export type JobPage = components['schemas']['JobPage'];
export type JobPatch = components['schemas']['JobPatch'];
export type JobStatus = components['schemas']['JobStatus'];
export type JobType = components['schemas']['JobType'];
export type JobTypePage = components['schemas']['JobTypePage'];
export type JobTypePatch = components['schemas']['JobTypePatch'];
export type JobTypeSpec = components['schemas']['JobTypeSpec'];
export type JobUpload = components['schemas']['JobUpload'];
export type JobWatch = components['schemas']['JobWatch'];
export type JsonValue = components['schemas']['JsonValue'];
export type LeaseHolder = components['schemas']['LeaseHolder'];
export type LogLevel = components['schemas']['LogLevel'];
export type LogLine = components['schemas']['LogLine'];
export type LogLinePage = components['schemas']['LogLinePage'];
export type LogLinesAdded = components['schemas']['LogLinesAdded'];
export type LogLinesRequest = components['schemas']['LogLinesRequest'];
export type MappedColumn = components['schemas']['MappedColumn'];
export type Mapping = components['schemas']['Mapping'];
export type MappingSuggestion = components['schemas']['MappingSuggestion'];
export type MatchKind = components['schemas']['MatchKind'];
export type MaxFailures = components['schemas']['MaxFailures'];
export type NewAlertChannel = components['schemas']['NewAlertChannel'];
export type NewBulk = components['schemas']['NewBulk'];
export type NewItem = components['schemas']['NewItem'];
export type NewJob = components['schemas']['NewJob'];
export type NewLogLine = components['schemas']['NewLogLine'];
export type NewPasskey = components['schemas']['NewPasskey'];
export type NewPassword = components['schemas']['NewPassword'];
export type NewSavedView = components['schemas']['NewSavedView'];
export type NewSchedule = components['schemas']['NewSchedule'];
export type NewService = components['schemas']['NewService'];
export type NewToken = components['schemas']['NewToken'];
export type NewUser = components['schemas']['NewUser'];
export type Notice = components['schemas']['Notice'];
export type NoticeDelivery = components['schemas']['NoticeDelivery'];
export type NoticeFinished = components['schemas']['NoticeFinished'];
export type NoticeKind = components['schemas']['NoticeKind'];
export type NoticeNeedsAttention = components['schemas']['NoticeNeedsAttention'];
export type NoticePage = components['schemas']['NoticePage'];
export type NoticeSettings = components['schemas']['NoticeSettings'];
export type NoticeSettingsPatch = components['schemas']['NoticeSettingsPatch'];
export type OnCompleted = components['schemas']['OnCompleted'];
export type OpenBecause = components['schemas']['OpenBecause'];
export type Outcome = components['schemas']['Outcome'];
export type Overlap = components['schemas']['Overlap'];
export type Owner = components['schemas']['Owner'];
export type OwnerKind = components['schemas']['OwnerKind'];
export type Passkey = components['schemas']['Passkey'];
export type PasskeyAnswer = components['schemas']['PasskeyAnswer'];
export type PasskeyMade = components['schemas']['PasskeyMade'];
export type PasskeyOptions = components['schemas']['PasskeyOptions'];
export type PasskeyPatch = components['schemas']['PasskeyPatch'];
export type PayloadEdit = components['schemas']['PayloadEdit'];
export type PreviewRow = components['schemas']['PreviewRow'];
export type Problem = components['schemas']['Problem'];
export type ProblemCode = components['schemas']['ProblemCode'];
export type PushHeaders = components['schemas']['PushHeaders'];
export type PushedItem = components['schemas']['PushedItem'];
export type QueueStats = components['schemas']['QueueStats'];
export type QuietHours = components['schemas']['QuietHours'];
export type RateLimit = components['schemas']['RateLimit'];
export type ReadNotices = components['schemas']['ReadNotices'];
export type ReasonBody = components['schemas']['ReasonBody'];
export type ReceivedEvent = components['schemas']['ReceivedEvent'];
export type RecoveryCodes = components['schemas']['RecoveryCodes'];
export type RefusedItem = components['schemas']['RefusedItem'];
export type ReleaseBody = components['schemas']['ReleaseBody'];
export type ReplayBody = components['schemas']['ReplayBody'];
export type ResultBody = components['schemas']['ResultBody'];
export type ResultLine = components['schemas']['ResultLine'];
export type ResumableUpload = components['schemas']['ResumableUpload'];
export type RetryBody = components['schemas']['RetryBody'];
export type RootsChange = components['schemas']['RootsChange'];
export type RootsEvent = components['schemas']['RootsEvent'];
export type RowEdit = components['schemas']['RowEdit'];
export type RunState = components['schemas']['RunState'];
export type SavedView = components['schemas']['SavedView'];
export type SavedViewPage = components['schemas']['SavedViewPage'];
export type SavedViewPatch = components['schemas']['SavedViewPatch'];
export type Schedule = components['schemas']['Schedule'];
export type SchedulePage = components['schemas']['SchedulePage'];
export type SchedulePatch = components['schemas']['SchedulePatch'];
export type ScheduleRun = components['schemas']['ScheduleRun'];
export type ScheduleRunPage = components['schemas']['ScheduleRunPage'];
export type SearchGroup = components['schemas']['SearchGroup'];
export type SearchHit = components['schemas']['SearchHit'];
export type SearchKind = components['schemas']['SearchKind'];
export type SearchResults = components['schemas']['SearchResults'];
export type Series = components['schemas']['Series'];
export type SeriesMetric = components['schemas']['SeriesMetric'];
export type SeriesPoint = components['schemas']['SeriesPoint'];
export type SeriesStep = components['schemas']['SeriesStep'];
export type Service = components['schemas']['Service'];
export type ServicePage = components['schemas']['ServicePage'];
export type ServicePatch = components['schemas']['ServicePatch'];
export type Share = components['schemas']['Share'];
export type ShareBody = components['schemas']['ShareBody'];
export type SharePage = components['schemas']['SharePage'];
export type SignIn = components['schemas']['SignIn'];
export type SignInLink = components['schemas']['SignInLink'];
export type SignInSession = components['schemas']['SignInSession'];
export type SignInSessionPage = components['schemas']['SignInSessionPage'];
export type SigningSecret = components['schemas']['SigningSecret'];
export type Statistics = components['schemas']['Statistics'];
export type StepBody = components['schemas']['StepBody'];
export type StepCount = components['schemas']['StepCount'];
export type StepCounts = components['schemas']['StepCounts'];
export type StepUp = components['schemas']['StepUp'];
export type SuggestedColumn = components['schemas']['SuggestedColumn'];
export type TemplateFormat = components['schemas']['TemplateFormat'];
export type ThroughputRate = components['schemas']['ThroughputRate'];
export type Timestamp = components['schemas']['Timestamp'];
export type Token = components['schemas']['Token'];
export type TokenPage = components['schemas']['TokenPage'];
export type TotpConfirm = components['schemas']['TotpConfirm'];
export type TotpPatch = components['schemas']['TotpPatch'];
export type TotpStarted = components['schemas']['TotpStarted'];
export type TreeCompleted = components['schemas']['TreeCompleted'];
export type TreeSummary = components['schemas']['TreeSummary'];
export type TypeStats = components['schemas']['TypeStats'];
export type Upload = components['schemas']['Upload'];
export type UploadFormat = components['schemas']['UploadFormat'];
export type UploadPreview = components['schemas']['UploadPreview'];
export type User = components['schemas']['User'];
export type UserPage = components['schemas']['UserPage'];
export type UserPatch = components['schemas']['UserPatch'];
export type ValueKind = components['schemas']['ValueKind'];
export type ViewList = components['schemas']['ViewList'];
export type WaitBody = components['schemas']['WaitBody'];
export type WaitingFor = components['schemas']['WaitingFor'];
export type Weekday = components['schemas']['Weekday'];
export type WorkError = components['schemas']['WorkError'];
export type WorkerSummary = components['schemas']['WorkerSummary'];
export type WorkerSummaryPage = components['schemas']['WorkerSummaryPage'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
