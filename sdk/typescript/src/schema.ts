// Types of the API, generated from its description by scripts/generate.mjs.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Actor of an action, with their name at that time. */
        Actor: {
            kind: components["schemas"]["ActorKind"];
            /** @description Empty for those who are not known. */
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
        /** @description An alert, open while `cleared_at` is null. There is one open alert for each kind and subject. */
        Alert: {
            cleared_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int64
             * @description Of `dead_letters` how many there are now, of `many_failures` how often the item has failed; of others how often it was
             *     raised while it was open.
             */
            count: number;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            item_id?: string | null;
            /** Format: uuid */
            job_id?: string | null;
            kind: components["schemas"]["AlertKind"];
            /** @description The last time it was raised, or that its count or message changed. */
            last_seen_at: components["schemas"]["Timestamp"];
            message: string;
            raised_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            root_id?: string | null;
            /** @description Subject: the name of a type, or the id of a job or item. */
            subject: string;
            /** @description The type it speaks of, where it speaks of one. */
            type?: string | null;
        };
        /** @description `POST /assignments/{id}/alert`. */
        AlertBody: {
            /** @description 1 to 2,000 bytes. */
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
            /** @description Kinds of alerts; empty: all. */
            kinds: components["schemas"]["AlertKind"][];
            /**
             * Format: int64
             * @description Smallest `count` of an alert.
             */
            min_count: number;
            name: string;
            paused: boolean;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description True if `cleared` is sent too. */
            send_cleared: boolean;
            /** @description Email addresses. */
            to: string[];
            /** @description Job types; empty: all, and alerts that are about no type. */
            types: string[];
            updated_at: components["schemas"]["Timestamp"];
            /** @description Receiver, without parts that may be secret; absent for email. */
            url?: string | null;
        };
        /** @description One page of a list. */
        AlertChannelPage: {
            data: components["schemas"]["AlertChannel"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /alert-channels/{id}`: the given fields change; `null` removes `secret` and `quiet_hours`. */
        AlertChannelPatch: {
            /** Format: int64 */
            after_seconds?: number | null;
            kinds?: components["schemas"]["AlertKind"][] | null;
            /** Format: int64 */
            min_count?: number | null;
            name?: string | null;
            paused?: boolean | null;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description Required with a `url` of another host: the key is sent there. */
            routing_key?: string | null;
            secret?: components["schemas"]["SigningSecret"] | null;
            send_cleared?: boolean | null;
            to?: string[] | null;
            types?: string[] | null;
            /** Format: uri */
            url?: string | null;
        };
        /** @description An alert is over; `data.id` is that of the alert that was raised. */
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
             * @description Absent for a test.
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description An alert was raised; `cleared_at` is null. */
        AlertRaised: {
            data: components["schemas"]["Alert"];
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "alert.raised";
        };
        /** @description A test of an alert channel. */
        AlertTest: {
            data: {
                /** @description Its name */
                channel: string;
                /**
                 * Format: uuid
                 * @description The alert channel
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
        /** @description One item in the worker's hands. */
        Assignment: {
            /** Format: int32 */
            attempt: number;
            /** Format: double */
            heartbeat_seconds: number;
            /**
             * Format: uuid
             * @description The assignment id: whoever ends the assignment names it.
             */
            id: string;
            /**
             * @description Of a job that waited for others (`after`): by key, the results of those of one item, else a link to
             *     them.
             */
            inputs?: {
                [key: string]: components["schemas"]["JobInputs"];
            } | null;
            item: components["schemas"]["AssignedItem"];
            lease_expires_at: components["schemas"]["Timestamp"];
        };
        /** @description Answer to a single ending: where the item stands now. */
        AssignmentEnded: {
            ended_as: components["schemas"]["AttemptOutcome"];
            /** Format: uuid */
            item_id: string;
            item_state: components["schemas"]["ItemState"];
            retry_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description One ending: with `error` a failure, else a result. */
        AssignmentEnding: {
            assignment_id: string;
            cancel_tree?: boolean;
            error?: components["schemas"]["WorkError"] | null;
            result?: components["schemas"]["JsonValue"];
            /**
             * Format: double
             * @description Seconds until the next attempt, at most ten years, in place of the backoff of the type.
             */
            retry_after_seconds?: number | null;
            retryable?: boolean;
        };
        AssignmentEndingResult: {
            /** @description As the request gave it; empty if it gave none. */
            assignment_id: string;
            code?: components["schemas"]["ProblemCode"] | null;
            /** @description Of an `invalid_body`: the places, as pointers into the request, and what was expected there. */
            errors?: components["schemas"]["FieldProblem"][];
            /**
             * Format: int32
             * @description Status that the single request would have returned.
             */
            status: number;
        };
        AssignmentHeartbeat: {
            assignment_id: string;
            progress?: components["schemas"]["ItemProgress"] | null;
        };
        AssignmentHeartbeatResult: {
            /** @description As the request gave it; empty if it gave none. */
            assignment_id: string;
            cancel?: boolean | null;
            code?: components["schemas"]["ProblemCode"] | null;
            /** @description Of an `invalid_body`: the places, as pointers into the request, and what was expected there. */
            errors?: components["schemas"]["FieldProblem"][];
            lease_expires_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description Status that the single request would have returned.
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
            /** @description Name of the event that the worker ended it to wait for. */
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
            /** @description Opaque; null on the last page. */
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
        /** @description One line of `GET /audit`. What it names may be gone. */
        AuditEntry: {
            /** @description Action, such as `job.delete`. */
            action: string;
            /** @description Actor, with their name at that time. */
            actor: components["schemas"]["Actor"];
            /** @description The client's address. */
            address?: string | null;
            at: components["schemas"]["Timestamp"];
            /**
             * Format: uuid
             * @description The session or the token that was used.
             */
            credential_id?: string | null;
            /** @description More about it, in words. */
            detail?: string | null;
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            item_id?: string | null;
            /** Format: uuid */
            job_id?: string | null;
            /**
             * Format: uuid
             * @description The bulk operation that this began or stopped. What it does to each item has no entry of its own.
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
            /** @description Opaque; null on the last page. */
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
        /** @description User and password, sent as HTTP's basic authentication. */
        BasicAuth: {
            password: string;
            user: string;
        };
        /** @description State of the broker. */
        BrokerStats: {
            /** @description Reason why it is unavailable. */
            fault?: string | null;
            /**
             * Format: int64
             * @description Batches of wake-ups and announcements that wait to be published, counted up to 10,000.
             */
            outbox_waiting: number;
            /** @description Messages in the queues of job types, as last seen, by the type's name. */
            queues: components["schemas"]["QueueStats"][];
            /** @description Since when it has been so. */
            since: components["schemas"]["Timestamp"];
            /** @description True if messages can be published. */
            up: boolean;
        };
        /**
         * @description The work that Treeline does itself.
         * @enum {string}
         */
        BuiltinExecutor: "validate" | "export" | "echo";
        /**
         * @description Action on each member.
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
             * @description Members that failed for reasons of ours; the log says which.
             */
            errored: number;
            filter: {
                [key: string]: unknown;
            };
            finished_at?: components["schemas"]["Timestamp"] | null;
            /** Format: uuid */
            id: string;
            /** @description Requester. */
            owner: components["schemas"]["Owner"];
            payload_edit: components["schemas"]["PayloadEdit"][];
            /**
             * Format: int64
             * @description Members to which it was done.
             */
            processed: number;
            /** Format: double */
            rate_per_second?: number | null;
            reason?: string | null;
            /** @description Some of the members as they were when they were found. */
            sample: components["schemas"]["BulkSample"][];
            /** @description Members to which it could not be done, by the code of the refusal. */
            skipped: components["schemas"]["BulkSkipped"][];
            state: components["schemas"]["BulkState"];
            /** @description Reason why the server stopped the operation: the credential that requested it is not valid anymore. */
            stopped_reason?: string | null;
            target: components["schemas"]["BulkTarget"];
            /**
             * Format: int64
             * @description Members; grows while `counting`.
             */
            total: number;
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        BulkOperationPage: {
            data: components["schemas"]["BulkOperation"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description A member as it was when it was found. */
        BulkSample: {
            /**
             * Format: uuid
             * @description Of the item, or of the job.
             */
            id: string;
            /** Format: uuid */
            job_id: string;
            /** @description The item's last error, or what the job says of itself. */
            message?: string | null;
            /** Format: uuid */
            root_id: string;
            /** @description The state of the item, or the status of the job. */
            state: string;
            type: string;
        };
        BulkSkipped: {
            /** Format: int64 */
            count: number;
            /** @description The code of a problem, or `edit_does_not_fit`, `payload_invalid`. */
            reason: string;
        };
        /**
         * @description State of an operation.
         * @enum {string}
         */
        BulkState: "counting" | "ready" | "running" | "completed" | "cancelling" | "cancelled";
        /**
         * @description Kind of the members.
         * @enum {string}
         */
        BulkTarget: "items" | "jobs";
        /**
         * @description A delivery: one for each time that a tree with `on_completed` is complete, one for each event of an alert and
         *     receiver of an alert channel, and one for each notice and receiver. The first outlives its tree by 30 days, the others
         *     are kept for 30 days.
         */
        CallbackDelivery: {
            alert?: components["schemas"]["AlertDelivery"] | null;
            /**
             * Format: int32
             * @description The how many-eth time it was complete, from 1; absent for an alert and a notice.
             */
            completion?: number | null;
            created_at: components["schemas"]["Timestamp"];
            /**
             * Format: uuid
             * @description The `webhook-id` of every try.
             */
            id: string;
            /**
             * Format: uuid
             * @description The root of the tree; absent for an alert and a notice.
             */
            job_id?: string | null;
            /** @description Its name, while it is kept and has one. */
            job_name?: string | null;
            next_try_at?: components["schemas"]["Timestamp"] | null;
            notice?: components["schemas"]["NoticeDelivery"] | null;
            outcome?: components["schemas"]["Outcome"] | null;
            state: components["schemas"]["DeliveryState"];
            tries: components["schemas"]["DeliveryTry"][];
            /** @description Receiver, without parts that may be secret; absent if there is none anymore. Of mail `mailto:` and the address. */
            url?: string | null;
        };
        /** @description One page of a list. */
        CallbackDeliveryPage: {
            data: components["schemas"]["CallbackDelivery"][];
            /** @description Opaque; null on the last page. */
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
            /** @description Texts of a table row by column, with the edits; cells beyond the last column come last. */
            cells: string[];
            /**
             * Format: int64
             * @description Number of the column with the problem, from 1; null if it is no table, or without a problem.
             */
            column?: number | null;
            /** @description True if the row has edits. */
            edited: boolean;
            /** @description True if the edits leave the row out. */
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
        /** @description `POST /assignments`: a claim. */
        ClaimRequest: {
            /**
             * Format: uuid
             * @description Made by the client: the same again returns what is still open of the same assignments.
             */
            claim_id?: string | null;
            /** @description Instead of `types`: these items, those of them that can be had. */
            item_ids?: string[] | null;
            /**
             * Format: int32
             * @description 1 to 1,000; absent: 1.
             */
            max?: number | null;
            types?: string[];
            /**
             * Format: int32
             * @description 0 to 30; absent: 0.
             */
            wait_seconds?: number | null;
            worker_id: string;
        };
        /** @description Answer to a claim; possibly empty. */
        ClaimResponse: {
            assignments: components["schemas"]["Assignment"][];
            /** @description Only where `item_ids` were asked for: those that could not be had. */
            refused?: components["schemas"]["RefusedItem"][];
        };
        /** @description A file's columns and first rows beside the schema of a job type. */
        ColumnCheck: {
            /** @description Names that the schema knows. */
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
            /** @description Null: the row as a whole. */
            column?: string | null;
            kind: components["schemas"]["FindingKind"];
            /** @description A sentence for people. */
            message: string;
            /**
             * Format: int64
             * @description The first line where it was found, from 1; null: it is the column itself.
             */
            row?: number | null;
        };
        /** @description How many items with the same value in their payload may run at once. */
        ConcurrencyBy: {
            /** @description JSON Pointer into the payload. */
            key: string;
            /** Format: int64 */
            limit: number;
        };
        /** @description A connection of one's own account with an OpenID Connect provider. */
        Connection: {
            created_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description Name of the provider as pages show it, or its issuer. */
            label: string;
            last_used_at: components["schemas"]["Timestamp"];
            /** @description Name of the provider in the settings; null where the settings do not name it anymore. */
            provider?: string | null;
            /** @description The account at the provider. */
            subject: string;
        };
        /** @description Answer to `GET /me/connections`. */
        Connections: {
            /** @description Oldest first. */
            data: components["schemas"]["Connection"][];
        };
        /** @description Number of items in each state. Absolute and exact at any size. */
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
             * @description Of `cancelled`: items whose corrected rows took their place. Left out where there are none.
             */
            superseded?: number;
            /** Format: int64 */
            waiting_for_event: number;
        };
        /** @description Answer to `POST /jobs/{id}/share`. */
        CreatedShare: {
            expires_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description The link. Shown this once. */
            url: string;
        };
        /** @description Answer to `POST /tokens`. */
        CreatedToken: {
            /** @description Token to send as `Authorization: Bearer …`. Shown only once. */
            secret: string;
            token: components["schemas"]["Token"];
        };
        /** @description Answer to `POST /users`. */
        CreatedUser: components["schemas"]["User"] & {
            /** @description Signs in once, within the hour. Null where a password was given. Shown this once. */
            sign_in_link?: string | null;
        };
        /** @description Caller, as `GET /me` returns it. */
        CurrentCaller: {
            kind: components["schemas"]["OwnerKind"];
            /** @description Someone else chose the person's password: `POST /me/password`. Left out where it is not so. */
            must_change_password?: boolean;
            name: string;
            /**
             * @description A person's role: `user`, `support` or `admin`.
             * @enum {string|null}
             */
            role?: "user" | "support" | "admin" | null;
            /** @description A token's scopes. */
            scopes: ("jobs:read" | "jobs:write" | "work" | "metrics" | "admin")[];
        };
        /** @description Items of a type that were added and that ended on one day (UTC). */
        DayTotal: {
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            cancelled: number;
            /** @description `2026-11-20`. */
            day: string;
            /** Format: int64 */
            dead: number;
            /** Format: int64 */
            expired: number;
            /** Format: int64 */
            succeeded: number;
        };
        /** @description How an item waits for others with its key. */
        Debounce: {
            /** @description Unique among the waiting items of one type and owner. */
            key: string;
            /**
             * Format: int64
             * @description It starts at most so long after the first one has come.
             */
            max_seconds: number;
            /**
             * Format: int64
             * @description It starts so long after the last item with its key has come.
             */
            seconds: number;
        };
        /**
         * @description State of a callback.
         * @enum {string}
         */
        DeliveryState: "pending" | "delivered" | "failed" | "abandoned" | "superseded";
        /**
         * @description Delivery guarantee of items.
         * @enum {string}
         */
        DeliveryStrategy: "at_least_once" | "at_most_once";
        /** @description One try of a callback. */
        DeliveryTry: {
            at: components["schemas"]["Timestamp"];
            /** @description Reason why it was not delivered, with the beginning of the response; absent if it was. */
            error?: string | null;
            /**
             * Format: int32
             * @description Status of the receiver's response; absent if there was none.
             */
            status?: number | null;
        };
        /** @enum {string} */
        EditOp: "set" | "remove";
        /** @description Answer to a call that ends sessions. */
        EndedSessions: {
            /** Format: int64 */
            ended: number;
        };
        /** @description Dead items of one job whose last failure reads the same once its variable parts are taken out. */
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
             * @description Number of further failures at which a muted group opens.
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
            /** @description Newest changes of its state, at most 50. */
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Change of the state of an error group. */
        ErrorGroupPatch: {
            /**
             * Format: int64
             * @description Number of further failures at which a muted group opens.
             */
            failures?: number | null;
            /** @description What was decided and why, such as the deployed version. `resolved` requires it. */
            note?: string | null;
            /** @description `open`, `muted` or `resolved`. */
            state: components["schemas"]["GroupState"];
            until?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Questions of a wait. Without fields, the person only confirms. */
        EventForm: {
            description?: string | null;
            fields?: components["schemas"]["FormField"][];
            title?: string | null;
        };
        /** @description `POST /items/{id}/events`: the event that the item waits for. */
        EventRequest: {
            /** @description Absent: null, or `{}` if the wait has a form. */
            data?: components["schemas"]["JsonValue"];
            name: string;
            /** @description Stored in the audit log. */
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
             * @description `push`: the lease, from sending. Absent: 300.
             */
            timeout_seconds?: number | null;
            /**
             * Format: uri
             * @description `push`: where to; `{type} {item_id} {job_id}` are filled in.
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
        /** @description Answer to `GET /me/factors`. */
        Factors: {
            /** @description Oldest first. */
            passkeys: components["schemas"]["Passkey"][];
            /**
             * Format: int64
             * @description Recovery codes that were not used yet.
             */
            recovery_codes_left: number;
            /** @description True if the person's role requires a second factor. */
            required: boolean;
            /** @description The person's own name for the authenticator app; null without one. */
            totp_name?: string | null;
            totp_since?: components["schemas"]["Timestamp"] | null;
        };
        /** @description `POST /assignments/{id}/failure`. */
        FailureBody: {
            cancel_tree?: boolean;
            error: components["schemas"]["WorkError"];
            /**
             * Format: double
             * @description Seconds until the next attempt, at most ten years, in place of the backoff of the type.
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
        /** @description How a job receives items from its parent. All but `each` are templates: JSON in which `{"$from": "<JSON Pointer>"}` is replaced from `{payload, result, item_id, job_id, element?, index?}`. */
        FeedRule: {
            /** @description A template of text */
            dedupe_key?: unknown;
            /** @description JSON Pointer to an array: one item for each of its elements */
            each?: string | null;
            /** @description Default: payload and result of the parent's item */
            payload?: unknown;
            /** @description A template of a whole number from -100 to 100 */
            priority?: unknown;
            /** @description A template of a time */
            run_after?: unknown;
            /** @description A template of text */
            serialize_key?: unknown;
        };
        /** @description One fault in a body: where (JSON Pointer), and what was expected. */
        FieldProblem: {
            detail: string;
            pointer: string;
        };
        /**
         * @description Type of a field.
         * @enum {string}
         */
        FieldType: "string" | "text" | "number" | "boolean" | "choice";
        /** @description Result of a check. */
        FileCheck: {
            /** @description Names of the columns of a table with a header, as in the file. */
            columns: string[];
            /**
             * Format: int64
             * @description Rows that would fail.
             */
            failed: number;
            /** @description True if there are more such rows than are listed. */
            is_cut: boolean;
            /**
             * Format: int64
             * @description Rows that the edits leave out.
             */
            left_out: number;
            /** @description Rows that would fail and rows with edits, in the order of the file, at most 1,000. */
            listed: components["schemas"]["CheckedRow"][];
            /**
             * Format: int64
             * @description Rows that were read: all of the file.
             */
            rows: number;
        };
        /** @description Job type, and how its job would read the file: fields of the same names as in `POST /jobs`. */
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
        /** @description `POST /assignments/finish`: endings, and the next claim with them. */
        FinishRequest: {
            claim?: components["schemas"]["ClaimRequest"] | null;
            endings?: components["schemas"]["AssignmentEnding"][];
        };
        /** @description Answer to `finish`, in order; one bad ending never spoils the others. */
        FinishResponse: {
            assignments: components["schemas"]["Assignment"][];
            endings: components["schemas"]["AssignmentEndingResult"][];
        };
        /** @description One field: a member of the event's data. */
        FormField: {
            /** @description Answers of a field of the type `choice`, and only of one. */
            choices?: string[];
            /** @description Hint below the field. */
            description?: string | null;
            /** @description Name of the member, unique in the form. */
            name: string;
            /** @description An answer is required. A required boolean may be false. */
            required?: boolean;
            /** @description Label on the page; absent: the name. */
            title?: string | null;
            type: components["schemas"]["FieldType"];
        };
        /** @description An entry in the history of an error group. */
        GroupChange: {
            at: components["schemas"]["Timestamp"];
            /** @description Name of the person or service; `null` if the group opened by itself. */
            by?: string | null;
            /** Format: int64 */
            failures?: number | null;
            note?: string | null;
            /** @description State from then on. */
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
        /** @description `POST /assignments/{id}/heartbeat`. */
        HeartbeatRequest: {
            progress?: components["schemas"]["ItemProgress"] | null;
        };
        /** @description Answer to a heartbeat. */
        HeartbeatResponse: {
            /** @description Stop: the job or item was cancelled. */
            cancel: boolean;
            lease_expires_at: components["schemas"]["Timestamp"];
        };
        /** @description `POST /assignments/heartbeat`. */
        HeartbeatsRequest: {
            heartbeats: components["schemas"]["AssignmentHeartbeat"][];
        };
        /** @description Answer to `POST /assignments/heartbeat`, in order. */
        HeartbeatsResponse: {
            heartbeats: components["schemas"]["AssignmentHeartbeatResult"][];
        };
        /** @description Property of a payload that a column can become. */
        ImportProperty: {
            name: string;
            /** @description True if the schema requires it. */
            required: boolean;
            /** @description JSON type besides `null`, such as `number`; null if the schema allows several or does not say. */
            type?: string | null;
        };
        /** @description Imports of a type: `import` of a job type. */
        ImportSettings: {
            /** @description Other names of columns, by property: they are suggested for it in a mapping. */
            aliases?: {
                [key: string]: string[];
            };
            /** @description False: no job of the type is created from a file. */
            enabled?: boolean;
            /**
             * @description Roles of the people who may create a job from a file. Absent or null: all. Services need the scope `jobs:write`
             *     only.
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
        /** @description One unit of work and what became of it. */
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
            /** @description As it came, where a person has edited it; else null. */
            original_payload?: components["schemas"]["JsonValue"];
            /** @description Left out where many items are shown at once (event stream, lists of items in flight). */
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
             * @description Item whose corrected row took this one's place; it is canceled since then, and cannot be retried.
             */
            superseded_by?: string | null;
            type: string;
            updated_at: components["schemas"]["Timestamp"];
            /** Format: int64 */
            version: number;
            wait?: components["schemas"]["EventWait"] | null;
            waiting_for?: components["schemas"]["WaitingFor"] | null;
        };
        /** @description Debounce of an item, and what has come of it. */
        ItemDebounce: {
            first_at: components["schemas"]["Timestamp"];
            key: string;
            last_at: components["schemas"]["Timestamp"];
            /**
             * Format: int64
             * @description Of the last item with its key.
             */
            max_seconds: number;
            /**
             * Format: int64
             * @description Number of later items whose payload replaced its payload.
             */
            merged: number;
            /**
             * Format: int64
             * @description Of the last item with its key.
             */
            seconds: number;
            /** @description Latest time at which it becomes available. */
            starts_by: components["schemas"]["Timestamp"];
        };
        /** @description Error of the last attempt. */
        ItemError: {
            at: components["schemas"]["Timestamp"];
            detail?: components["schemas"]["JsonValue"];
            /** @description A word that programs can switch on, for example `lease_lost` or `invalid_row`. */
            kind?: string | null;
            message: string;
        };
        /** @description One page of a list. */
        ItemPage: {
            data: components["schemas"]["Item"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /items/{id}`, while the item waits: the fields that are named change; `null` is the job's own. */
        ItemPatch: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description −100 to 100.
             */
            priority?: number | null;
            /** @description Required on someone else's item. */
            reason?: string | null;
            run_after?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Progress of a worker with one item. */
        ItemProgress: {
            /** Format: int64 */
            done?: number | null;
            message?: string | null;
            /** Format: int64 */
            total?: number | null;
        };
        /**
         * @description State of an item. The first one that holds: a final state, `running` (an open assignment),
         *     `waiting_for_event`, `retryable` (retry_at ahead), `scheduled` (run_after ahead), `blocked`, `available`.
         * @enum {string}
         */
        ItemState: "available" | "running" | "retryable" | "scheduled" | "blocked" | "waiting_for_event" | "succeeded" | "dead" | "cancelled" | "expired";
        /** @description The last recovery point an item has reached (`steps`). */
        ItemStep: {
            data: components["schemas"]["JsonValue"];
            name: string;
        };
        /** @description Answer to adding items. */
        ItemsAdded: {
            /** Format: int64 */
            accepted: number;
            /** Format: int64 */
            duplicates: number;
            /**
             * Format: int64
             * @description Items that replaced the payload of a waiting item with the same debounce key, and are no items of their own.
             */
            merged?: number;
            sealed: boolean;
        };
        /**
         * @description A job. `status`, `outcome` and `counts` are its own; `tree` is the job with everything below it;
         *     `percent`, `message`, `started_at` and `completed_at` speak of the tree.
         */
        Job: {
            after: string[];
            /** @description Left out in lists and in `change` events. */
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
            /** @description Of a root: the Idempotency-Key of the request that made the tree, as long as it is remembered. */
            idempotency_key?: string | null;
            initiated_by?: string | null;
            /** Format: int64 */
            item_count: number;
            /**
             * Format: int64
             * @description Items in a final state.
             */
            item_progress: number;
            key: string;
            max_failures: components["schemas"]["MaxFailures"];
            /**
             * Format: int64
             * @description In the answer that created the tree: items of the request that replaced the payload of a waiting item with the same
             *     debounce key, and are no items of this tree. On its root; left out where there are none.
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
             * @description 0 to 100; at most 99 before completion; null while unsealed with no expectation.
             */
            percent?: number | null;
            /** @description Exempt from retention: it stays until someone deletes it. */
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
        /** @description The jobs that changed, without children, and the items in flight now. */
        JobChange: {
            /**
             * @description The items that workers hold now, oldest first, at most 50, without payloads. Complete: an item
             *     that is not here is not among the first 50 anymore.
             */
            items: components["schemas"]["Item"][];
            jobs: components["schemas"]["Job"][];
        };
        /** @description One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); `busy`, `bye` and `removed` (data: an empty object) end the stream */
        JobEvent: {
            /** @description A Job with its children */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "snapshot";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description A Change */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "change";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description An empty object */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "busy" | "bye" | "removed";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        };
        JobInputs: unknown[] | string;
        /** @description One page of a list. */
        JobPage: {
            data: components["schemas"]["Job"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /jobs/{id}`: the fields that are named change; `null` takes a value away. */
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
             * @description −100 to 100. Also of its waiting items that had the job's own.
             */
            priority?: number | null;
            /** @description Required on someone else's job. */
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
            /** @description What waiting items take turns by: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description The fields that are named change; `null` is a value where it means something. Fields of `backoff` count singly. */
        JobTypePatch: {
            backoff?: components["schemas"]["Backoff"];
            /**
             * Format: int32
             * @description `null`: no cap; 0: nothing starts.
             */
            concurrency?: number | null;
            concurrency_by?: components["schemas"]["ConcurrencyBy"] | null;
            delivery?: components["schemas"]["DeliveryStrategy"];
            executor?: components["schemas"]["Executor"];
            /** @description What waiting items take turns by: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
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
             * @description `null`: for ever.
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
             * @description `null`: no cap; 0: nothing starts.
             */
            concurrency?: number | null;
            concurrency_by?: components["schemas"]["ConcurrencyBy"] | null;
            delivery?: components["schemas"]["DeliveryStrategy"];
            executor?: components["schemas"]["Executor"];
            /** @description What waiting items take turns by: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`. */
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
             * @description `null`: for ever.
             */
            retain_seconds?: number | null;
            /** Format: double */
            run_timeout_seconds?: number | null;
            steps?: string[];
        };
        /** @description The file a job is filled from. */
        JobUpload: {
            /** @description CSV: one character. Absent: found from the first lines. */
            delimiter?: string | null;
            /**
             * @description Text: a label of the WHATWG Encoding Standard, such as `windows-1252` or `utf-8`. A byte order mark of UTF-16 is
             *     right in any case. Absent: found from the mark and the first lines.
             */
            encoding?: string | null;
            format?: components["schemas"]["UploadFormat"] | null;
            /** @description A table: whether the first record names the columns. Absent: true. */
            header?: boolean | null;
            /**
             * Format: int64
             * @description A table with a header: the line of the record that names the columns, from 1; what is above it is skipped. Of a
             *     workbook the number of the row in its sheet. Absent: the first record.
             */
            header_row?: number | null;
            /** Format: uuid */
            id: string;
            /** @description XLSX: the name of the sheet. Absent: the first one. */
            sheet?: string | null;
        };
        /** @description Whether the caller watches a tree. */
        JobWatch: {
            watching: boolean;
        };
        /** @description Any JSON value; it comes back byte for byte */
        JsonValue: unknown;
        /** @description Worker that holds the item now. The assignment's id is never shown, because it is a capability. */
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
             * @description Number of the line in the attempt, from 1. Numbers below the first one that is listed were dropped.
             */
            line: number;
            message: string;
        };
        /** @description One page of a list. */
        LogLinePage: {
            data: components["schemas"]["LogLine"][];
            /** @description Opaque; null on the last page. */
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
             * @description Number of oldest lines of the attempt that were dropped, whole requests at a time, to keep at most 1 MiB.
             */
            dropped: number;
            /**
             * Format: int64
             * @description Number of the last line in the attempt.
             */
            last_line: number;
        };
        /** @description `POST /assignments/{id}/logs`. */
        LogLinesRequest: {
            /** @description Lines in the order in which they were written, at most 1,000. */
            lines: components["schemas"]["NewLogLine"][];
        };
        /** @description One column of a file and the property it becomes. */
        MappedColumn: {
            /** @description Kind of the values. Absent: `text`. */
            as?: components["schemas"]["ValueKind"];
            /**
             * @description Notation of the values. Numbers: `1234.56` (default), `1.234,56`, `1,234.56` or `1 234,56`. Dates: `YYYY-MM-DD`
             *     (default), `DD.MM.YYYY`, `MM/DD/YYYY`, or `excel` for serial numbers.
             */
            format?: string | null;
            /** @description Name in the header of the file. */
            from: string;
            /** @description Name of the property in the payload. */
            to: string;
        };
        /** @description Columns of a table with a header and the properties they become. Other columns are dropped. */
        Mapping: {
            /** @description In the order of the properties in the payload. */
            columns: components["schemas"]["MappedColumn"][];
        };
        /** @description Suggested column mapping of a file: `GET /uploads/{id}/mapping`. */
        MappingSuggestion: {
            /** @description Every column of the file, in its order. */
            columns: components["schemas"]["SuggestedColumn"][];
            /**
             * @description Properties that the type requires and that no column is suggested for: a mapping without them is refused
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
        /** @description `POST /alert-channels`. */
        NewAlertChannel: {
            /**
             * Format: int64
             * @description Time in seconds for which an alert must be open before it is sent. Absent: 0.
             */
            after_seconds?: number | null;
            kind: components["schemas"]["ChannelKind"];
            /** @description Kinds of alerts; empty: all. */
            kinds?: components["schemas"]["AlertKind"][];
            /**
             * Format: int64
             * @description Smallest `count` of an alert. Absent: 1.
             */
            min_count?: number | null;
            name: string;
            paused?: boolean;
            quiet_hours?: components["schemas"]["QuietHours"] | null;
            /** @description `pagerduty`: the integration key. */
            routing_key?: string | null;
            secret?: components["schemas"]["SigningSecret"] | null;
            /** @description Absent: true. */
            send_cleared?: boolean | null;
            /** @description `email`: the addresses. */
            to?: string[];
            /** @description Job types; empty: all, and alerts that are about no type. */
            types?: string[];
            /**
             * Format: uri
             * @description `slack` and `webhook`: the receiver. `pagerduty`: absent for `https://events.pagerduty.com/v2/enqueue`.
             */
            url?: string | null;
        };
        /** @description `POST /bulk-operations`. */
        NewBulk: {
            /** @description Items are retried or cancelled; jobs are cancelled or deleted. */
            action: components["schemas"]["BulkAction"];
            /** @description Only count, and show some of what would be met. */
            dry_run?: boolean;
            /** @description An object with the filters of `GET /items` or `GET /jobs`; at least one. */
            filter: {
                [key: string]: unknown;
            };
            /** @description With `retry`: what changes in each payload. */
            payload_edit?: components["schemas"]["PayloadEdit"][];
            /**
             * Format: double
             * @description Members a second, over all servers; null: as fast as it goes.
             */
            rate_per_second?: number | null;
            /** @description Required where the work is someone else's; kept in the audit log. */
            reason?: string | null;
            target: components["schemas"]["BulkTarget"];
        };
        /** @description An item to be added. An absent payload is `null`. */
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
             * @description −100 to 100, higher first; absent: the job's.
             */
            priority?: number | null;
            run_after?: components["schemas"]["Timestamp"] | null;
            serialize_key?: string | null;
        };
        /** @description `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …). */
        NewJob: {
            after?: string[];
            /** @enum {string|null} */
            after_outcome?: "succeeded" | "any" | null;
            children?: components["schemas"]["NewJob"][];
            dedupe_key?: string | null;
            /** @description Rows of the upload with changed cells, or that are left out. At most 1,000. */
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
        /** @description `POST /me/passkeys`. */
        NewPasskey: {
            /** @description The credential, as `PublicKeyCredential.toJSON()` writes it. */
            credential: components["schemas"]["JsonValue"];
            /** @description The person's own name for it, 1 to 100 characters. */
            name: string;
            /** @description The `state` of the options. */
            state: string;
        };
        /** @description `POST /me/password`. */
        NewPassword: {
            /**
             * @description The one that holds now. Not asked for where there is none, nor within an hour of signing in by a
             *     one-time link.
             */
            current_password?: string | null;
            new_password: string;
        };
        /** @description `POST /views`. */
        NewSavedView: {
            is_default?: boolean;
            list: components["schemas"]["ViewList"];
            /** @description Unique among the caller's views of the list. */
            name: string;
            /** @description Absent: everything. */
            q?: string;
            /** @description Staff only. */
            shared?: boolean;
            /** @description A value of the list's `sort`. Absent: its default. */
            sort?: string | null;
        };
        /** @description `POST /schedules`. */
        NewSchedule: {
            catch_up?: components["schemas"]["CatchUp"] | null;
            /**
             * Format: int64
             * @description Absent: an hour.
             */
            catch_up_window_seconds?: number | null;
            /**
             * @description Five fields (minute, hour, day, month, weekday), six with seconds first, or `@hourly`, `@daily`, `@weekly`,
             *     `@monthly`, `@yearly`.
             */
            cron: string;
            ends_at?: components["schemas"]["Timestamp"] | null;
            /** @description Body of `POST /jobs`. It may not name ids, nor a secret of a callback. */
            job: components["schemas"]["NewJob"];
            name: string;
            overlap?: components["schemas"]["Overlap"] | null;
            paused?: boolean;
            starts_at?: components["schemas"]["Timestamp"] | null;
            /** @description IANA time zone, such as `Europe/Berlin`. Absent: `UTC`. */
            time_zone?: string | null;
        };
        /** @description `POST /services`. */
        NewService: {
            /** @description As job types are named: `[a-z0-9][a-z0-9._-]{0,99}`. */
            name: string;
        };
        /** @description `POST /tokens`. */
        NewToken: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Display name, 1 to 100 characters. */
            name: string;
            /** @description Of `jobs:read`, `jobs:write`, `work`, `metrics`, `admin`; at least one. */
            scopes: ("jobs:read" | "jobs:write" | "work" | "metrics" | "admin")[];
            /** @description The service it belongs to: whose work it is. */
            service: string;
            /** @description Narrows `work` to these job types. Absent or null: all. */
            types?: string[] | null;
        };
        /** @description `POST /users`. */
        NewUser: {
            /**
             * Format: email
             * @description Signs in with it; no two people have the same, however it is written.
             */
            email: string;
            /**
             * @description Makes the person choose a new password when they sign in. Default: true where a person asks, false where a
             *     service does.
             */
            must_change_password?: boolean | null;
            /** @description Display name, 1 to 100 characters, unique among people. */
            name: string;
            /**
             * @description To begin with: at least 12 characters, and none that everybody tries first. Absent or null: a one-time link comes
             *     back instead.
             */
            password?: string | null;
            /**
             * @description Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person: it signs them in to this account. One that it names by the
             *     email address needs none.
             */
            proxy_user?: string | null;
            /** @description Kept in the audit log. */
            reason?: string | null;
            /**
             * @description `user` (default), `support` or `admin`.
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
            /**
             * Format: uuid
             * @description The root of the tree.
             */
            job_id: string;
            /** @description Its name, or else its key. */
            job_name: string;
            kind: components["schemas"]["NoticeKind"];
            outcome?: components["schemas"]["Outcome"] | null;
            read_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Message about a notice, in a delivery. */
        NoticeDelivery: {
            /**
             * Format: uuid
             * @description The root of the tree that it is about.
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
         * @description What a notice is about.
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description How a person receives notices. */
        NoticeSettings: {
            /** @description As notifications of browsers that permit them. Default false. */
            browser: boolean;
            /** @description By mail to the address of the account. Default false. */
            email: boolean;
            /** @description Posts are signed with a secret of their own, else with that of the account. */
            has_webhook_secret: boolean;
            /** @description In the list of every page. Default true. */
            in_page: boolean;
            /** @description URL that notices are posted to, without parts that may be secret. */
            webhook_url?: string | null;
        };
        /** @description `PATCH /me/notice-settings`: the given fields change; `null` removes the URL or its secret. */
        NoticeSettingsPatch: {
            browser?: boolean | null;
            /** @description Needs an email address, and a mail server (`TREELINE_SMTP_URL`). */
            email?: boolean | null;
            in_page?: boolean | null;
            webhook_secret?: components["schemas"]["SigningSecret"] | null;
            /**
             * Format: uri
             * @description A public address, or one that `TREELINE_CALLBACK_ALLOW` names. A new URL removes the secret of the old one.
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
        /** @description The answer of the browser to a passkey ceremony. */
        PasskeyAnswer: {
            /** @description The credential, as `PublicKeyCredential.toJSON()` writes it. */
            credential: components["schemas"]["JsonValue"];
            /** @description The `state` of the options. */
            state: string;
        };
        /** @description Answer to `POST /me/passkeys`. */
        PasskeyMade: components["schemas"]["Passkey"] & {
            /** @description Each works once in place of a second factor. Shown this once; empty where earlier codes stay valid. */
            recovery_codes: string[];
        };
        /** @description Answer to calls that begin a passkey ceremony in the browser. */
        PasskeyOptions: {
            /**
             * @description The options for `navigator.credentials.create` or `.get`, binary values as base64url
             *     (`PublicKeyCredential.parseCreationOptionsFromJSON` reads them).
             */
            public_key: components["schemas"]["JsonValue"];
            /** @description Sealed; to be sent back with the answer within five minutes. */
            state: string;
        };
        /** @description `PATCH /me/passkeys/{id}`. */
        PasskeyPatch: {
            name: string;
        };
        /** @description One edit of a payload. */
        PayloadEdit: {
            op: components["schemas"]["EditOp"];
            /** @description A JSON Pointer; to set something at the end of an array, `-` as the last token. */
            path: string;
            /** @description With `set`: what is put there. Null is a value. */
            value?: components["schemas"]["JsonValue"];
        };
        /** @description One record of a preview: cells of a table's row, or one JSON value. */
        PreviewRow: {
            /** @description Of a row that has more cells than there are columns the first 20 of the others, too. */
            cells: string[];
            payload?: components["schemas"]["JsonValue"];
            /** @description Reason why it would not be accepted. */
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
             * @description Items of an NDJSON stream that were added before it was stopped.
             */
            accepted?: number | null;
            code: components["schemas"]["ProblemCode"];
            detail: string;
            ended_as?: components["schemas"]["AttemptOutcome"] | null;
            errors?: components["schemas"]["FieldProblem"][];
            /**
             * Format: uuid
             * @description `duplicate`, `id_in_use`: what is there already.
             */
            id?: string | null;
            item_state?: components["schemas"]["ItemState"] | null;
            /**
             * Format: int64
             * @description The line of an NDJSON stream that was refused, from 1; where the job refuses all, the first that was not added.
             */
            line?: number | null;
            /** @description `mfa_required`, `step_up_required`: what would be accepted: `totp`, `passkey`, `recovery_code`, `password`. */
            methods?: string[];
            request_id?: string | null;
            /**
             * Format: int32
             * @description Time after which to try again, if known.
             */
            retry_after_seconds?: number | null;
            /** @description `mfa_required`: stands for the first factor for ten minutes; to be sent with the second. */
            state?: string | null;
            /** Format: int32 */
            status: number;
            title: string;
            /** @description A URI that ends in the code. */
            type: string;
        };
        /**
         * @description What went wrong, as a word that programs can switch on. Stable.
         * @enum {string}
         */
        ProblemCode: "invalid_json" | "invalid_parameter" | "idempotency_key_required" | "cursor_mismatch" | "unauthenticated" | "mfa_required" | "forbidden" | "mfa_enrollment_required" | "password_change_required" | "step_up_required" | "not_found" | "method_not_allowed" | "duplicate" | "id_in_use" | "job_sealed" | "job_is_fed" | "job_cancelled" | "job_completed" | "job_not_complete" | "not_root" | "superseded" | "assignment_closed" | "already_started" | "step_behind" | "item_expired" | "item_final" | "item_not_final" | "not_waiting" | "other_event" | "not_retryable" | "not_resendable" | "profiling_off" | "operation_over" | "job_type_in_use" | "last_admin" | "last_sign_in_method" | "user_disabled" | "wrong_offset" | "upload_in_use" | "job_removed" | "link_used" | "precondition_failed" | "too_large" | "unsupported_media_type" | "range_not_satisfiable" | "misdirected" | "invalid_body" | "unknown_job_type" | "unknown_step" | "cycle" | "idempotency_key_reused" | "reason_required" | "url_not_allowed" | "no_rows" | "bad_header" | "mapping_incomplete" | "schema_too_complex" | "too_many_requests" | "quota_exceeded" | "internal" | "busy" | "database_unavailable" | "shutting_down" | "insufficient_storage";
        /** @description Headers by name. */
        PushHeaders: {
            [key: string]: string;
        };
        /** @description An item for the worker behind the URL of a job type with a push executor. */
        PushedItem: {
            /** @description Names the assignment when it is ended later, after a 202: a UUID, `.` and a capability. Keep it secret; whoever has it and a token for the type can end the assignment */
            assignment_id: string;
            /**
             * Format: int32
             * @description From 1; only grows
             */
            attempt: number;
            event?: components["schemas"]["ReceivedEvent"];
            /** @description Where the job waited for others: their results by key, or links to them */
            inputs?: {
                [key: string]: components["schemas"]["JobInputs"];
            };
            /**
             * Format: uuid
             * @description The same on every attempt; also sent as `Idempotency-Key`
             */
            item_id: string;
            /**
             * Format: uuid
             * @description The job of the item
             */
            job_id: string;
            payload: components["schemas"]["JsonValue"];
            step: null | components["schemas"]["ItemStep"];
            /** @description The name of the job type */
            type: string;
        };
        /** @description Messages that wait in one queue. */
        QueueStats: {
            /** Format: int32 */
            messages: number;
            type: string;
        };
        /**
         * @description Hours of the wall clock in which a channel is silent. What is raised in them and still open at their end is sent
         *     then.
         */
        QuietHours: {
            /** @description Days on which they begin. Empty: every day. */
            days?: components["schemas"]["Weekday"][];
            /** @description First minute, such as `22:00`. */
            from: string;
            /** @description IANA time zone, such as `Europe/Berlin`. */
            time_zone: string;
            /** @description First minute after them, such as `07:00`; on the next day if it is not later than `from`. */
            to: string;
        };
        /** @description How many items may start in a time. Every attempt is a start. */
        RateLimit: {
            /**
             * Format: int64
             * @description So many may start at the same moment after a pause; then one every `per_seconds` / `count`. Greater than `count`:
             *     so many may start in one window after a pause. Absent: `count`.
             */
            burst?: number | null;
            /**
             * Format: int64
             * @description At most so many start in any window of `per_seconds`.
             */
            count: number;
            /** @description JSON Pointer into the payload: the limit holds for each value there. Absent: for the whole type. */
            key?: string | null;
            /** Format: int64 */
            per_seconds: number;
        };
        /** @description `POST /me/notices/read`. */
        ReadNotices: {
            /** @description Absent: all of them. */
            ids?: string[] | null;
        };
        /** @description Reason of an action: `{"reason": "…"}`. Required on someone else's work. */
        ReasonBody: {
            reason?: string | null;
        };
        /** @description Event that ended the wait of an item, or the timeout that did. */
        ReceivedEvent: {
            at: components["schemas"]["Timestamp"];
            by?: components["schemas"]["Actor"] | null;
            /** @description Null after a timeout. */
            data: components["schemas"]["JsonValue"];
            name: string;
            /** @description True if no event came in time. */
            timed_out: boolean;
        };
        /** @description Answer to calls that make recovery codes. */
        RecoveryCodes: {
            /** @description Each works once in place of a second factor. Shown this once; empty where earlier codes stay valid. */
            recovery_codes: string[];
        };
        RefusedItem: {
            /** Format: uuid */
            item_id: string;
            reason: string;
        };
        /** @description `POST /assignments/{id}/release`. */
        ReleaseBody: {
            /**
             * Format: double
             * @description Seconds until the item is available again, at most ten years; without them, it is at once.
             */
            retry_after_seconds?: number | null;
        };
        /** @description `POST /items/{id}/replay` (`replay`). */
        ReplayBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Instead of the payload as it is now. */
            payload?: components["schemas"]["JsonValue"];
            /** @description Required on someone else's work; kept in the audit log. */
            reason?: string | null;
        };
        /** @description `POST /assignments/{id}/result`. Absent: `{}`; null is refused. */
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
        /** @description A file that comes a piece at a time (tus 1.0). When its last byte is in, it is an [`Upload`] of the same id. */
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
             * @description Received bytes.
             */
            received: number;
        };
        /** @description `POST /items/{id}/retry` (`manual-retry`). */
        RetryBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Instead of the payload as it is; the original stays readable. */
            payload?: components["schemas"]["JsonValue"];
            /** @description Required on someone else's work; kept in the audit log. */
            reason?: string | null;
            /** @description Forget the steps it has reached. Default: `false`. */
            restart?: boolean;
        };
        /** @description Trees in brief. A page of `GET /jobs` can be read as such, too: its jobs, and nothing removed. */
        RootsChange: {
            /** @description Their roots, without children. The newest hundred, or those that changed. */
            jobs: components["schemas"]["Job"][];
            /** @description Trees that are gone. */
            removed: string[];
        };
        /** @description One event: `snapshot` first (the newest trees; another where changes were too many), then `change` (the trees that changed, or are gone); `busy` and `bye` (data: an empty object) end the stream. With `topics`, each topic begins with its own `snapshot` */
        RootsEvent: {
            /** @description The newest trees */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "snapshot";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description Trees that changed */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "change";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description With `topics`: the state of a topic, whole; of `roots` and `job:ID` what changed */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "snapshot" | "change";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description With `topics`: there is nothing to see, or nothing any more; the other topics go on */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "forbidden" | "removed";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        } | {
            /** @description An empty object */
            data: string;
            /**
             * @description What the data is
             * @enum {string}
             */
            event: "busy" | "bye";
            /** @description Opaque; a reconnect begins with a snapshot whatever it says */
            id?: string;
            /** @description Milliseconds until a client that was sent away should come back */
            retry?: number;
        };
        /** @description Changed cells of one row, or a row that does not become an item. */
        RowEdit: {
            /** @description New texts by the name of their column in the header; without a header, by its number from 1. Only for tables. */
            cells?: {
                [key: string]: string;
            };
            /** @description True: the row does not become an item. */
            leave_out?: boolean;
            /**
             * Format: int64
             * @description First line of the row in the file, from 1; in a workbook, its number in the sheet. A number that no row has
             *     changes nothing.
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
            /** @description True if the pages of the caller open the list with it. */
            is_default: boolean;
            list: components["schemas"]["ViewList"];
            name: string;
            owner: components["schemas"]["Owner"];
            /** @description Filter of the list in the language of the pages, such as `status:running owner:ada`. Empty: everything. */
            q: string;
            /** @description True if everyone may use it. */
            shared: boolean;
            /** @description `sort` of the list; null: its default. */
            sort?: string | null;
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        SavedViewPage: {
            data: components["schemas"]["SavedView"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /views/{id}`: the given fields change; `null` clears `sort`. */
        SavedViewPatch: {
            /** @description Of the caller's own pages; also of a view that somebody else shares. */
            is_default?: boolean | null;
            name?: string | null;
            q?: string | null;
            /** @description Required of an admin who changes the view of somebody else; kept in the audit log. */
            reason?: string | null;
            /** @description Staff only. */
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
            /** @description Body of `POST /jobs`, as given. */
            job: components["schemas"]["NewJob"];
            last_run?: components["schemas"]["ScheduleRun"] | null;
            name: string;
            /** @description Next five ticks at most. While the schedule is paused, no tree is created at them. */
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /schedules/{id}`: the given fields change; `null` clears a value. */
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
            /** @description Required on another owner's schedule; kept in the audit log. */
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
             * @description Root of the tree, if it was created. It may have been deleted since.
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
            /** @description Time that the cron expression names; for a run by hand, the time of the request. */
            tick: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        ScheduleRunPage: {
            data: components["schemas"]["ScheduleRun"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description Things of one kind that a search has found, at most ten. */
        SearchGroup: {
            hits: components["schemas"]["SearchHit"][];
            kind: components["schemas"]["SearchKind"];
        };
        /** @description A thing that a search has found. */
        SearchHit: {
            /** @description More about it, such as the type and the state. */
            detail?: string | null;
            /**
             * @description The id, or the fingerprint of a group of errors, the name of a worker or a type; of a file that was found by its
             *     name, the id of the job that was made of it, if there is one.
             */
            id: string;
            /**
             * @description Matching field: `id`, `name`, `key`, `dedupe_key`, `serialize_key`, `idempotency_key`, `filename`, `message`, `email`,
             *     `reason` or `text` (name, key or metadata).
             */
            matched: string;
            /**
             * @description The page that shows it. For an export, and a file of someone else that no job was made of: the download of its
             *     content.
             */
            path: string;
            /** @description Display name. */
            title: string;
        };
        /**
         * @description Kind of thing that a search finds.
         * @enum {string}
         */
        SearchKind: "jobs" | "items" | "errors" | "uploads" | "workers" | "job_types" | "schedules" | "views" | "bulk_operations" | "people" | "services";
        /** @description `GET /search`. */
        SearchResults: {
            /** @description Only kinds of which something was found. */
            groups: components["schemas"]["SearchGroup"][];
            /** @description Searched text. */
            q: string;
        };
        /** @description `GET /stats/series`. */
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
            /** @description Job type; null: all together. */
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
            /** @description Durations by bucket, see `bounds`; `wait` and `run` only, left out where there are none. */
            buckets?: number[];
            /**
             * Format: double
             * @description Median in seconds, estimated within its bucket; `wait` and `run` only.
             */
            p50?: number | null;
            /**
             * Format: double
             * @description 95th percentile in seconds, estimated within its bucket; `wait` and `run` only.
             */
            p95?: number | null;
            /**
             * Format: int64
             * @description Items or attempts; of `wait` and `run` the number of durations.
             */
            value: number;
        };
        /**
         * @description Length of one point.
         * @enum {string}
         */
        SeriesStep: "minute" | "hour" | "day";
        /** @description A program that hands work in, or works on items. */
        Service: {
            created_at: components["schemas"]["Timestamp"];
            /** @description Its tokens open nothing until it is enabled again; its work stays. */
            disabled?: boolean;
            /** Format: uuid */
            id: string;
            name: string;
        };
        /** @description One page of a list. */
        ServicePage: {
            data: components["schemas"]["Service"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /services/{id}`: what is absent stays. */
        ServicePatch: {
            /** @description `true` refuses everything that its tokens ask for; `false` lets them in again. */
            disabled?: boolean | null;
            /** @description Kept in the audit log. */
            reason?: string | null;
        };
        /** @description A link to a tree, without its secret. */
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
             * @description The root of the tree that it shows.
             */
            job_id: string;
            last_seen_at?: components["schemas"]["Timestamp"] | null;
            /** @description True while the link works: it is not revoked or expired, and neither its owner nor its maker is disabled. */
            open: boolean;
            revoked_at?: components["schemas"]["Timestamp"] | null;
        };
        /** @description Body of `POST /jobs/{id}/share`. */
        ShareBody: {
            expires_at?: components["schemas"]["Timestamp"] | null;
            /** @description Required on someone else's work; kept in the audit log. */
            reason?: string | null;
        };
        /** @description One page of a list. */
        SharePage: {
            data: components["schemas"]["Share"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /**
         * @description `POST /session`: by email and password, or by the press of a sign-in link's button, for programs; with the second
         *     factor at once, or in a second request.
         */
        SignIn: {
            /** @description The second factor, where there is one: six digits of the authenticator app … */
            code?: string | null;
            email?: string | null;
            /** @description The last part of a one-time link, or the whole link, in place of the two. */
            link?: string | null;
            passkey?: components["schemas"]["PasskeyAnswer"] | null;
            password?: string | null;
            /** @description … or a recovery code. */
            recovery_code?: string | null;
            /** @description The `state` of a refusal with `mfa_required`, in place of the first factor. */
            state?: string | null;
        };
        /** @description Answer to `POST /users/{id}/sign-in-link`. */
        SignInLink: {
            expires_at: components["schemas"]["Timestamp"];
            /** @description Signs in once. Shown this once. */
            url: string;
        };
        /** @description A browser, or a program, that is signed in. */
        SignInSession: {
            created_at: components["schemas"]["Timestamp"];
            /** @description True for the session of this request. */
            current: boolean;
            /** @description In words, as far as it tells: `Firefox on Linux`. */
            device: string;
            /** @description Time when the session ends unless it is used before: after 30 idle days, and at most 90 days after it began. */
            expires_at: components["schemas"]["Timestamp"];
            /** Format: uuid */
            id: string;
            /** @description To the minute. */
            last_seen_at: components["schemas"]["Timestamp"];
        };
        /** @description One page of a list. */
        SignInSessionPage: {
            data: components["schemas"]["SignInSession"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /**
         * @description Signing secrets: one, or two while receivers change from one to the other; then both sign. A secret is `whsec_` and
         *     base64, or any text.
         */
        SigningSecret: string | string[];
        /** @description `GET /stats`. */
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
        /** @description `POST /assignments/{id}/step`. */
        StepBody: {
            data?: components["schemas"]["JsonValue"];
            name: string;
        };
        /** @description `POST /me/step-up`: exactly one of the fields. The password counts only without a second factor. */
        StepUp: {
            /** @description The six digits of the authenticator app. */
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
             * @description From 0 (no suggestion) to 1 (equal names).
             */
            confidence: number;
            /** @description Notation of the values if it is not the default of the kind; null if the first rows allow several notations. */
            format?: string | null;
            /** @description Name in the header of the file. */
            from: string;
            matched?: components["schemas"]["MatchKind"] | null;
            /** @description Property; null: none fits, or the column was left out in the last mapping (`matched` is `remembered`). */
            to?: string | null;
        };
        /**
         * @description Format of a template file.
         * @enum {string}
         */
        TemplateFormat: "csv" | "xlsx";
        /** @description Items per second, coming in and ending, on average over a while. */
        ThroughputRate: {
            /** Format: double */
            in_per_second: number;
            /** Format: double */
            out_per_second: number;
            /**
             * Format: int64
             * @description Length of the span in seconds.
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
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `POST /me/totp/confirm`. */
        TotpConfirm: {
            /** @description The six digits that the app shows now. */
            code: string;
        };
        /** @description `PATCH /me/totp`. */
        TotpPatch: {
            name: string;
        };
        /** @description Answer to `POST /me/totp`: what an authenticator app needs. Shown this once. */
        TotpStarted: {
            /** @description The same as a URI that authenticator apps open. */
            otpauth_url: string;
            /** @description The URI as a QR code: an SVG image. */
            qr_svg: string;
            /** @description The secret in base32, to be typed. */
            secret: string;
        };
        /** @description A tree is complete. */
        TreeCompleted: {
            data: {
                /**
                 * Format: int32
                 * @description How often the tree has completed; a retried one completes again
                 */
                completion: number;
                counts: components["schemas"]["Counts"];
                /**
                 * Format: uuid
                 * @description The root of the tree
                 */
                job_id: string;
                /** @description Of the root */
                metadata: {
                    [key: string]: unknown;
                };
                outcome: components["schemas"]["Outcome"];
            };
            timestamp: components["schemas"]["Timestamp"];
            /** @enum {string} */
            type: "tree.completed";
        };
        /** @description A job together with everything below it. */
        TreeSummary: {
            counts: components["schemas"]["Counts"];
            /** Format: int64 */
            item_count: number;
            /** Format: int64 */
            item_progress: number;
            outcome?: components["schemas"]["Outcome"] | null;
            status: components["schemas"]["JobStatus"];
        };
        /** @description The figures of one job type. */
        TypeStats: {
            /** @description As of `counted_at`. */
            counts: components["schemas"]["Counts"];
            /** @description The last thirty days on which something happened, the newest first. */
            days: components["schemas"]["DayTotal"][];
            last_asked_at?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: double
             * @description Age of the item that is claimed next, in seconds; null if nothing waits.
             */
            oldest_waiting_seconds?: number | null;
            /**
             * Format: int64
             * @description Items that workers hold right now.
             */
            open: number;
            /** @description Over the last minute, five minutes and hour. */
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
            /** @description Lower-case hexadecimal. */
            sha256: string;
        };
        /**
         * @description Format that divides a file into records.
         * @enum {string}
         */
        UploadFormat: "csv" | "ndjson" | "json" | "lines" | "xlsx" | "none";
        /** @description The first records of a file, before anything runs: `GET /uploads/{id}/preview`. */
        UploadPreview: {
            check?: components["schemas"]["ColumnCheck"] | null;
            /** @description A table with a header: the names of the columns. */
            columns: string[];
            /** @description CSV: the delimiter found or given. */
            delimiter?: string | null;
            /** @description The encoding found or given, such as `utf-8`, `utf-16le` or `windows-1252`. */
            encoding: string;
            format: components["schemas"]["UploadFormat"];
            /** @description Problem of the file as a whole (`no_rows`, `bad_header`, `invalid_body`), if any. */
            problem?: string | null;
            /** @description At most 20. */
            rows: components["schemas"]["PreviewRow"][];
            /** @description A workbook: the names of its sheets. */
            sheets?: string[];
            /**
             * Format: int64
             * @description The row that seems to name the columns, if it is another one than was read: below a title, for example.
             */
            suggested_header_row?: number | null;
        };
        /** @description A person. */
        User: {
            created_at: components["schemas"]["Timestamp"];
            /** @description Nothing of theirs opens anything. */
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
             * @description `user`, `support` or `admin`.
             * @enum {string}
             */
            role: "user" | "support" | "admin";
        };
        /** @description One page of a list. */
        UserPage: {
            data: components["schemas"]["User"][];
            /** @description Opaque; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description `PATCH /users/{id}`: the fields that are named change. */
        UserPatch: {
            /** @description `true` ends every session and link of theirs. */
            disabled?: boolean | null;
            /** Format: email */
            email?: string | null;
            /** @description Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person, instead of every other name; empty for none. */
            proxy_user?: string | null;
            /** @description Kept in the audit log. */
            reason?: string | null;
            /**
             * @description `user`, `support` or `admin`.
             * @enum {string|null}
             */
            role?: "user" | "support" | "admin" | null;
        };
        /**
         * @description Kind of the values of a mapped column. Empty cells of all kinds but `text` become `null`.
         * @enum {string}
         */
        ValueKind: "text" | "number" | "integer" | "boolean" | "date";
        /**
         * @description A list that views can be saved of.
         * @enum {string}
         */
        ViewList: "jobs" | "items" | "failures";
        /** @description `POST /assignments/{id}/wait`: ends the attempt until an event of this name comes. */
        WaitBody: {
            form?: components["schemas"]["EventForm"] | null;
            /** @description Name of the event, 1 to 255 characters. */
            name: string;
            /**
             * Format: double
             * @description Seconds after which the item is available again without an event; absent or null: it waits without a limit.
             */
            timeout_seconds?: number | null;
        };
        /** @description Reason why an item is not running. */
        WaitingFor: {
            detail?: string | null;
            /**
             * @description One of [`WAITING_REASONS`].
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
             * @description Items in its hands now.
             */
            open: number;
            /** @description The service whose token it uses. */
            owner: string;
            /** @description The job types it asked for last. */
            types: string[];
            worker_id: string;
        };
        /** @description One page of a list. */
        WorkerSummaryPage: {
            data: components["schemas"]["WorkerSummary"][];
            /** @description Opaque; null on the last page. */
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
