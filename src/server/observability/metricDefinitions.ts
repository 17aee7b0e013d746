import { Metric } from "effect"

/**
 * Every metric of the service, by Prometheus' conventions: base units in the names, `_total` on what only rises. Labels are operations,
 * channels, outcomes and states: nothing that grows with tenants, and nothing that names one.
 */

/** Upper bounds in seconds, of requests and of attempts alike. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** One object for each set of labels: the registry finds its series by it without making a key again. */
const series = <A extends ReadonlyArray<string>, M>(make: (...labels: A) => M): ((...labels: A) => M) => {
  const made = new Map<string, M>()
  return (...labels) => {
    const key = labels.join("\n")
    const found = made.get(key)
    if (found !== undefined) return found
    const metric = make(...labels)
    made.set(key, metric)
    return metric
  }
}

/** `status`: of the answer; 499 where the caller left before it. */
export const httpRequests = series((operation: string, status: string) =>
  Metric.counter("countersign_http_requests_total", {
    description: "Requests to operations of the contract, by operation and status of the answer",
    attributes: { operation, status },
    incremental: true
  })
)

export const httpRequestDuration = series((operation: string) =>
  Metric.histogram("countersign_http_request_duration_seconds", {
    description: "Time from a request to its answer; of a stream, to its beginning",
    attributes: { operation, unit: "s" },
    boundaries: DURATION_BUCKETS
  })
)

/** `outcome`: delivered, partial, retry, failed, gone, or refused where nothing was sent. */
export const deliveryAttempts = series((channel: string, outcome: string) =>
  Metric.counter("countersign_delivery_attempts_total", {
    description: "Attempts at deliveries that this process made, by channel and outcome",
    attributes: { channel, outcome },
    incremental: true
  })
)

export const deliveryAttemptDuration = series((channel: string) =>
  Metric.histogram("countersign_delivery_attempt_duration_seconds", {
    description: "Time that attempts took",
    attributes: { channel, unit: "s" },
    boundaries: DURATION_BUCKETS
  })
)

export const deliveryQueueFull = series((channel: string) =>
  Metric.counter("countersign_delivery_queue_full_total", {
    description: "Deliveries that failed at once: so many waited for their destination already",
    attributes: { channel },
    incremental: true
  })
)

export const deliveryQueueDepth = series((channel: string) =>
  Metric.gauge("countersign_delivery_queue_depth", {
    description:
      "Deliveries that wait or are being sent, in the shards of this process; the sum over all processes is the whole queue",
    attributes: { channel }
  })
)

export const deliveryOldestDue = series((channel: string) =>
  Metric.gauge("countersign_delivery_oldest_due_seconds", {
    description:
      "How long the oldest delivery in the shards of this process was due at the last sweep, those aside that wait for a cooldown",
    attributes: { channel, unit: "s" }
  })
)

export const deliveryInFlight = series((channel: string) =>
  Metric.gauge("countersign_delivery_in_flight", {
    description: "Attempts that are under way in this process",
    attributes: { channel }
  })
)

export const deliveryCoolingDestinations = series((channel: string) =>
  Metric.gauge("countersign_delivery_cooling_destinations", {
    description: "Destinations of this process with deliveries that wait for a cooldown",
    attributes: { channel }
  })
)

export const deliveryShards = Metric.gauge("countersign_delivery_shards", {
  description: "Shards of the queue that this process owns"
})

export const oldestSnapshot = Metric.gauge("countersign_store_oldest_snapshot_seconds", {
  description:
    "Age of the oldest transaction in the database that keeps dead rows from being removed, as far as this role may see",
  attributes: { unit: "s" }
})

export const xminAge = Metric.gauge("countersign_store_xmin_age_transactions", {
  description:
    "Transactions since the oldest snapshot, prepared transaction or replication slot that keeps dead rows"
})

/** `state`: active, idle or in_transaction. */
export const databaseConnections = series((state: string) =>
  Metric.gauge("countersign_store_connections", {
    description: "Connections of this process to the store, by state",
    attributes: { state }
  })
)

export const databaseConnectionsMax = Metric.gauge("countersign_store_connections_max", {
  description: "Connections that this process opens at most"
})

/** `state`: waiting for a connection, or open. */
export const databaseTransactions = series((state: string) =>
  Metric.gauge("countersign_store_transactions", {
    description: "Transactions of this process that wait for a connection, and those that have one",
    attributes: { state }
  })
)

/** `quantile`: 0.5, 0.99 or 1. */
export const eventLoopDelay = series((quantile: string) =>
  Metric.gauge("countersign_event_loop_delay_seconds", {
    description: "How late the event loop was since the last collection",
    attributes: { quantile, unit: "s" }
  })
)

export const residentMemory = Metric.gauge("process_resident_memory_bytes", {
  description: "Memory of the process that is in RAM",
  attributes: { unit: "By" }
})

export const heapUsed = Metric.gauge("nodejs_heap_used_bytes", {
  description: "Memory that JavaScript's objects take",
  attributes: { unit: "By" }
})

export const processCpu = Metric.counter("process_cpu_seconds_total", {
  description: "Processor time, of the user and of the system",
  attributes: { unit: "s" },
  incremental: true
})

export const processStartTime = Metric.gauge("process_start_time_seconds", {
  description: "When the process started, in seconds since the epoch",
  attributes: { unit: "s" }
})

export const buildInfo = series((version: string) =>
  Metric.gauge("countersign_build_info", {
    description: "1, with the version that runs",
    attributes: { version }
  })
)

export const metricsFailures = Metric.counter("countersign_metrics_failures_total", {
  description:
    "Collections that could not ask the store: what it tells is then as old as the last that could",
  incremental: true
})

/** `worker`: the name of a background loop of this process. */
export const workerLastSuccess = series((worker: string) =>
  Metric.gauge("countersign_worker_last_success_timestamp_seconds", {
    description: "When a background worker of this process last completed a run, in seconds since the epoch",
    attributes: { worker, unit: "s" }
  })
)

/** `worker`: the name of a background loop of this process. */
export const workerFailures = series((worker: string) =>
  Metric.counter("countersign_worker_failures_total", {
    description: "Failed runs of a background worker of this process; each is retried",
    attributes: { worker },
    incremental: true
  })
)
