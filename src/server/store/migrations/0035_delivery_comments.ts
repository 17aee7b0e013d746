import { comments, createdBy, orgId } from "./comments.ts"

const destination = {
  destination_id: "Webhook endpoint, mail server or telemetry destination that the delivery goes to."
}

/** Comments on the delivery engine and telemetry export. */
export default comments({
  deliveries: [
    "Log of deliveries: one event to one destination. Columns that change are in no index, so that updates stay on their page (HOT).",
    {
      ...orgId,
      ...destination,
      delivery_id: "Id, ordered by creation time.",
      channel: "Channel: webhook, mail or otlp.",
      event_id: "Approval event, email or batch of spans that is delivered.",
      label: "Short description for lists, such as the event type.",
      status: "pending, delivered, partial or failed.",
      attempts: "Attempts so far.",
      replays: "How often the delivery was replayed.",
      last_error:
        "Error of the last attempt, or why there was none, such as a full queue; null: not attempted yet, or delivered.",
      created_at: "When the delivery was enqueued.",
      finished_at: "When it was delivered or failed; null while pending.",
      size: "Units that it carries, such as spans; 1 for a webhook or an email.",
      rejected: "Units that the destination rejected.",
      status_code: "Response status of the last attempt; null: no response, or not attempted yet."
    }
  ],
  delivery_queue: [
    "Pending deliveries, without payloads. Rows are inserted and deleted, and rarely updated.",
    {
      shard: "Shard of the destination; each shard is processed by the replica that owns it.",
      seq: "Position in the queue, from one sequence, so that the order of writing is the same for all replicas.",
      ...orgId,
      ...destination,
      delivery_id: "Delivery to attempt.",
      channel: "Channel of the delivery.",
      event_id: "Approval event, email or batch of spans that is delivered.",
      due_at: "When the next attempt is due.",
      expires_at: "After this time no attempt starts; null: the delivery does not expire.",
      attempt: "Attempts made so far: the number of the next one, from 0.",
      first_attempt: "Value of attempt at the enqueue or the last replay; retries are counted from it."
    }
  ],
  delivery_attempts: [
    "Log of attempts, partitioned by time so that retention drops whole partitions.",
    {
      ...orgId,
      ...destination,
      delivery_id: "Delivery that was attempted.",
      attempt: "Number of the attempt.",
      started_at: "When the attempt started.",
      duration_ms: "Duration, in milliseconds.",
      status: "Response status; null: no response.",
      error: "What went wrong; null: the attempt succeeded."
    }
  ],
  delivery_destinations: [
    "Health of destinations (circuit breaker). A destination that has never failed has no row.",
    {
      ...orgId,
      destination_id: "Destination.",
      consecutive_failures: "Failed attempts since the last success.",
      cooldown_round:
        "Cooldowns since the last success; each is twice as long as the one before, up to a maximum.",
      cooldown_until: "End of the current cooldown, after which one attempt probes; null: none."
    }
  ],
  delivery_owners: [
    "Heartbeats of the replicas that process deliveries.",
    {
      owner: "Random id of the replica.",
      lease_until:
        "When the replica's leases end; moved by each heartbeat, so it also shows how recent that is."
    }
  ],
  delivery_shards: [
    "Leases on the shards of the delivery queue, one row per shard.",
    {
      shard: "Number of the shard.",
      owner: "Replica that owns the shard; null: none.",
      epoch: "Fencing token: raised by each change of owner, so that writes of a former owner are rejected.",
      lease_until: "When the lease ends; null: not leased."
    }
  ],
  telemetry_destinations: [
    "The OpenTelemetry collector of an organization, at most one. Counts change in the transactions that queue, deliver and drop spans.",
    {
      ...orgId,
      destination_id: "Id, the destination of its deliveries.",
      url: "Sealed URL.",
      url_hint: "URL without secrets, for display.",
      headers: "Sealed request headers.",
      content: "Whether spans carry content: inputs, answers, arguments and results.",
      created_at: "When the destination was created.",
      ...createdBy,
      last_delivered_at: "When the collector last accepted a whole batch; null: never.",
      waiting_spans: "Spans that wait to be delivered.",
      dropped_spans:
        "Spans that exceeded a limit, were rejected by the collector, or can no longer be replayed.",
      tested_at: "When a test was last sent; null: never."
    }
  ],
  telemetry_batches: [
    "Batches of spans that wait for delivery, or failed and can be replayed. A batch is deleted when the collector has accepted it or it is too old to be replayed.",
    {
      ...orgId,
      batch_id: "Id of the batch as a delivery event.",
      destination_id: "Telemetry destination of the batch.",
      spans: "Number of spans.",
      payload: "Sealed, compressed OTLP request.",
      delivery_id:
        "Delivery of the batch; null: it is older than this column, and the log had no delivery for it."
    }
  ]
})
