import { Metric } from "effect"
import type { ReviewerAnswerMode } from "../../domain/approvals/Reviewer.ts"

/**
 * Every metric of the service. `docs/metrics.md` is generated from the exports.
 *
 * Prometheus' conventions hold: base units in the names, `_total` on counters. Labels are operations, channels, outcomes and states, so the
 * number of series does not grow with tenants and no label identifies one.
 */

/** Upper bounds of the histogram buckets, in seconds, of requests and of delivery attempts. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Memoizes a metric per set of labels, because the registry finds the series of a known object without computing its key. */
const series = <A extends ReadonlyArray<string>, M>(make: (...labels: A) => M): ((...labels: A) => M) => {
  const metrics = new Map<string, M>()
  return (...labels) => {
    const key = labels.join("\n")
    const found = metrics.get(key)
    if (found !== undefined) return found
    const metric = make(...labels)
    metrics.set(key, metric)
    return metric
  }
}

/** `status`: of the response; 499 if the client disconnected first. */
export const httpRequests = series((operation: string, status: string) =>
  Metric.counter("countersign_http_requests_total", {
    description:
      "API requests by operation and response status; 499: the client disconnected before the response",
    attributes: { operation, status },
    incremental: true
  })
)

export const httpRequestDuration = series((operation: string) =>
  Metric.histogram("countersign_http_request_duration_seconds", {
    description: "Time from request to response; for a stream, to its first byte",
    attributes: { operation, unit: "s" },
    boundaries: DURATION_BUCKETS
  })
)

export const connectionsOpen = Metric.gauge("countersign_http_connections", {
  description: "Open client connections"
})

/** `reason`: address or total, the limit that was reached. */
export const connectionsRefused = series((reason: string) =>
  Metric.counter("countersign_http_connections_refused_total", {
    description:
      "Client connections that got 503 because the limit of one address or of all addresses was reached",
    attributes: { reason },
    incremental: true
  })
)

/** `reason`: stalled, memory, slow, pipelining or crowded. */
export const connectionsCut = series((reason: string) =>
  Metric.counter("countersign_http_connections_cut_total", {
    description:
      "Client connections that the service closed: the client read nothing of a response (stalled) or read it too slowly (slow), unread responses took too much memory (memory), too many requests were pipelined (pipelining), or the limit of all connections was reached and its address had the most (crowded)",
    attributes: { reason },
    incremental: true
  })
)

export const unsentResponseBytes = Metric.gauge("countersign_http_unsent_response_bytes", {
  description: "Bytes of large responses that clients have not read",
  attributes: { unit: "By" }
})

/** `outcome`: delivered, partial, retry, failed (no further attempt follows), gone; refused if the attempt was not sent. */
export const deliveryAttempts = series((channel: string, outcome: string) =>
  Metric.counter("countersign_delivery_attempts_total", {
    description:
      "Delivery attempts of this replica by channel and outcome; failed: it was the last one of its delivery",
    attributes: { channel, outcome },
    incremental: true
  })
)

export const deliveryAttemptDuration = series((channel: string) =>
  Metric.histogram("countersign_delivery_attempt_duration_seconds", {
    description: "Duration of delivery attempts",
    attributes: { channel, unit: "s" },
    boundaries: DURATION_BUCKETS
  })
)

/** `verdict`: one of `deliveryVerdicts`. */
export const deliveriesCompleted = series((channel: string, verdict: DeliveryVerdict) =>
  Metric.counter("countersign_deliveries_total", {
    description: "Deliveries that this replica has completed, by channel and verdict",
    attributes: { channel, verdict },
    incremental: true
  })
)

/** The outcome of a completed delivery. */
export const deliveryVerdicts = ["delivered", "partial", "failed", "gone", "refused", "queue_full"] as const
export type DeliveryVerdict = (typeof deliveryVerdicts)[number]

export const deliveriesHeld = series((channel: string) =>
  Metric.counter("countersign_delivery_held_total", {
    description:
      "Times that the rate limit of a receiver's host or network held an attempt back; each is sent when its turn comes",
    attributes: { channel },
    incremental: true
  })
)

export const deliveryQueueDepth = series((channel: string) =>
  Metric.gauge("countersign_delivery_queue_depth", {
    description:
      "Queued deliveries in the shards of this replica, attempts in flight included; the sum over all replicas is the whole queue",
    attributes: { channel }
  })
)

export const deliveryOldestDue = series((channel: string) =>
  Metric.gauge("countersign_delivery_oldest_due_seconds", {
    description:
      "How long the oldest due delivery in the shards of this replica had been due at the last sweep, without destinations in cooldown",
    attributes: { channel, unit: "s" }
  })
)

export const deliveryInFlight = series((channel: string) =>
  Metric.gauge("countersign_delivery_in_flight", {
    description: "Delivery attempts in flight in this replica",
    attributes: { channel }
  })
)

export const deliveryCoolingDestinations = series((channel: string) =>
  Metric.gauge("countersign_delivery_cooling_destinations", {
    description: "Destinations in cooldown with queued deliveries in the shards of this replica",
    attributes: { channel }
  })
)

export const deliveryShards = Metric.gauge("countersign_delivery_shards", {
  description: "Shards of the delivery queue that this replica owns, of 256"
})

export const approvalsPending = Metric.gauge("countersign_approvals_pending", {
  description: "Approvals that wait for a decision, in the whole installation; counted up to 100,000"
})

export const approvalsOldestPending = Metric.gauge("countersign_approvals_oldest_pending_seconds", {
  description:
    "How long the oldest pending approval has waited, of the 100,000 that are due first; 0: none is pending",
  attributes: { unit: "s" }
})

/** `outcome`: allow or reject. `source`: human, timeout or session_closed. */
export const approvalsClosed = series((outcome: string, source: string) =>
  Metric.counter("countersign_approvals_closed_total", {
    description:
      "Approvals that this replica has closed, by outcome and by cause; timeout: no decision in time",
    attributes: { outcome, source },
    incremental: true
  })
)

export const executionsUnknown = series(() =>
  Metric.counter("countersign_executions_unknown_total", {
    description: "Claims that this replica has seen end without an outcome",
    incremental: true
  })
)

export const executionsUnresolved = Metric.gauge("countersign_executions_unresolved", {
  description:
    "Executions whose outcome is unknown, and which a person has to resolve, in the whole installation; counted up to 100,000"
})

/** Upper bounds of the buckets of waiting times, in seconds: from a click to a week. */
const WAIT_BUCKETS = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 604_800]

/** `source`: human, timeout or session_closed. */
export const approvalWait = series((source: string) =>
  Metric.histogram("countersign_approval_wait_seconds", {
    description: "Time from the request of an approval to its close by this replica, by what closed it",
    attributes: { source, unit: "s" },
    boundaries: WAIT_BUCKETS
  })
)

/** `limit`: one of `limitNames`. */
export const limitRefusals = series((limit: string) =>
  Metric.counter("countersign_limit_refusals_total", {
    description: "Requests that this replica refused because a limit was reached",
    attributes: { limit },
    incremental: true
  })
)

/** `reason`: one of `refusalReasons`. */
export const authenticationRefusals = series((reason: string) =>
  Metric.counter("countersign_authentication_refusals_total", {
    description:
      "Requests that this replica did not authenticate, by reason: malformed or missing key, checksum, unknown, revoked, expired, address (not allowed for the key), session (of the console); forbidden: refused with 403, because the key may not make the request",
    attributes: { reason },
    incremental: true
  })
)

/** `reason`: provider (its response was missing or not accepted) or person (whom it authenticated and this service refused). */
export const signInFailures = series((reason: "provider" | "person") =>
  Metric.counter("countersign_single_sign_on_failures_total", {
    description:
      "Failed sign-ins with the identity provider: provider: it did not respond, or its response was not accepted; person: it authenticated someone who has no access",
    attributes: { reason },
    incremental: true
  })
)

/** `outcome`: answered, or the reason of a failure. */
export const providerAnswers = series((provider: string, outcome: string) =>
  Metric.counter("countersign_provider_answers_total", {
    description:
      "Answers that runs and comparisons asked providers for, by kind of provider and outcome: answered, or the reason of the failure",
    attributes: { provider, outcome },
    incremental: true
  })
)

/** `answer`: approve, reject, unsure or failed. */
export const reviewerAnswers = series((mode: ReviewerAnswerMode, answer: string) =>
  Metric.counter("countersign_reviewer_answers_total", {
    description:
      "Answers of reviewer models that this replica stored, by their part in the decision and by answer",
    attributes: { mode, answer },
    incremental: true
  })
)

/** `outcome`: answered, or the reason of a failure. */
export const providerCalls = series((provider: string, outcome: string) =>
  Metric.counter("countersign_provider_calls_total", {
    description:
      "Calls to models, retries and repairs included, by kind of provider and outcome: answered, or the reason of the failure",
    attributes: { provider, outcome },
    incremental: true
  })
)

/** `limit`: one of `limitNames`. */
export const limitUse = series((limit: string) =>
  Metric.gauge("countersign_limit_use_ratio", {
    description:
      "Highest use of a limit by one organization, key or address since the previous scrape, as a fraction of the limit; 1: something was refused",
    attributes: { limit }
  })
)

export const oldestSnapshot = Metric.gauge("countersign_store_oldest_snapshot_seconds", {
  description:
    "Age of the oldest transaction in the database that prevents the removal of dead rows, among those visible to the service's role",
  attributes: { unit: "s" }
})

export const xminAge = Metric.gauge("countersign_store_xmin_age_transactions", {
  description:
    "Transactions since the oldest snapshot, prepared transaction or replication slot that prevents the removal of dead rows"
})

/** `state`: active, idle or in_transaction. */
export const databaseConnections = series((state: string) =>
  Metric.gauge("countersign_store_connections", {
    description: "Database connections of this replica by state, without those of a connection pooler",
    attributes: { state }
  })
)

export const serverConnections = Metric.gauge("countersign_store_server_connections", {
  description:
    "Connections that count towards the strictest limit of the database server: its own, or that of the role or database"
})

export const serverConnectionsMax = Metric.gauge("countersign_store_server_connections_max", {
  description: "The strictest limit of connections that applies to the service's role in the database server"
})

export const diskFree = Metric.gauge("countersign_store_disk_free_bytes", {
  description: "Free space on the disk of the embedded database; absent if the database is external",
  attributes: { unit: "By" }
})

export const newestBackup = Metric.gauge("countersign_newest_backup_timestamp_seconds", {
  description:
    "When the newest backup of the embedded database was completed by `countersign backup`, in seconds since the epoch; 0: never; absent if the database is external",
  attributes: { unit: "s" }
})

export const oldSecrets = Metric.gauge("countersign_secrets_under_old_keys", {
  description:
    "Stored secrets that are sealed with an older master key, except secrets that are deleted within days; counted up to 1,000 in each column, once an hour"
})

export const databaseConnectionsMax = Metric.gauge("countersign_store_connections_max", {
  description: "Maximum number of database connections of this replica"
})

/** `state`: waiting (for a connection) or open. */
export const databaseTransactions = series((state: string) =>
  Metric.gauge("countersign_store_transactions", {
    description: "Transactions of this replica by state: waiting for a connection, or open",
    attributes: { state }
  })
)

/** `statistic`: median, p99 or max. Prometheus keeps the label `quantile` for summaries. */
export const eventLoopDelay = series((statistic: string) =>
  Metric.gauge("countersign_event_loop_delay_seconds", {
    description: "Event-loop lag since the previous scrape",
    attributes: { statistic, unit: "s" }
  })
)

export const residentMemory = Metric.gauge("process_resident_memory_bytes", {
  description: "Resident memory of the process",
  attributes: { unit: "By" }
})

export const heapUsed = Metric.gauge("nodejs_heap_used_bytes", {
  description: "Used JavaScript heap",
  attributes: { unit: "By" }
})

export const processCpu = Metric.counter("process_cpu_seconds_total", {
  description: "User and system CPU time of the process",
  attributes: { unit: "s" },
  incremental: true
})

export const processStartTime = Metric.gauge("process_start_time_seconds", {
  description: "Start time of the process, in seconds since the Unix epoch",
  attributes: { unit: "s" }
})

export const buildInfo = series((version: string) =>
  Metric.gauge("countersign_build_info", {
    description: "Always 1; the label has the running version",
    attributes: { version }
  })
)

export const metricsFailures = Metric.counter("countersign_metrics_failures_total", {
  description: "Failed metric collections; gauges then keep their values of the last successful one",
  incremental: true
})

/** `worker`: the name of a background worker of this replica. */
export const workerLastSuccess = series((worker: string) =>
  Metric.gauge("countersign_worker_last_success_timestamp_seconds", {
    description: "When a background worker of this replica last completed a run, in seconds since the epoch",
    attributes: { worker, unit: "s" }
  })
)

/** `worker`: the name of a background worker of this replica. */
export const workerFailures = series((worker: string) =>
  Metric.counter("countersign_worker_failures_total", {
    description: "Failed runs of a background worker of this replica; each is retried",
    attributes: { worker },
    incremental: true
  })
)

/** `records`: runs, feedback, examples or sessions. `cause`: request (a deletion or an erasure) or retention. */
export const deletedRecords = series((records: string, cause: string) =>
  Metric.counter("countersign_deleted_records_total", {
    description: "Records that were deleted, by kind and by what caused it",
    attributes: { records, cause },
    incremental: true
  })
)
