/** Mutants of the delivery engine. */
import type { ListedMutant } from "../list.ts"

const leaseTests = ["server/delivery/Delivery/leases.test.ts"]
const ownership = ["server/delivery/Delivery/ownership.test.ts"]
const engine = [
  "server/delivery/Delivery/Shards.test.ts",
  "server/delivery/Delivery/Finisher.test.ts",
  "server/delivery/Delivery/Reader.test.ts",
  "server/delivery/Delivery.test.ts",
  "faults/Delivery.test.ts"
]

const writeResults = "server/delivery/Delivery/writeResults.ts"
const shards = "server/delivery/Delivery/Shards.ts"
const shardStore = "server/delivery/Delivery/ShardStore.ts"
const replay = "server/delivery/Delivery/Replay.ts"
const replayTests = ["server/delivery/Delivery/Replay.test.ts", "server/delivery/Delivery.test.ts"]

export const delivery: ReadonlyArray<ListedMutant> = [
  {
    file: writeResults,
    from: "AND q.attempt = e.attempt",
    to: "",
    tests: ["server/delivery/Delivery/writeResults.test.ts"]
  },
  {
    file: writeResults,
    from: "FOR UPDATE OF q SKIP LOCKED",
    to: "",
    tests: ["server/delivery/Delivery/writeResults.test.ts"]
  },
  {
    file: writeResults,
    from: "FOR UPDATE OF q SKIP LOCKED",
    to: "FOR UPDATE OF q",
    tests: ["server/delivery/Delivery/Finisher.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Finisher.ts",
    from: "isLockTimeout(error) && batch.some(callsHook)",
    to: "false",
    tests: ["server/delivery/Delivery/Finisher.test.ts"]
  },
  {
    file: "server/delivery/Delivery/DeliveryStore.ts",
    from: "SET LOCAL lock_timeout = '500ms'",
    to: "SET LOCAL lock_timeout = 0",
    tests: ["server/delivery/Delivery/writeResults.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Finisher.ts",
    from: "monotonicMillis(clock) < lockedRetryAt",
    to: "false",
    tests: ["server/delivery/Delivery/Finisher.test.ts"]
  },
  {
    file: shards,
    from: "owned.get(one.virtualShard) === one &&",
    to: "owned.has(one.virtualShard) &&",
    tests: ownership
  },
  {
    file: shards,
    from: "one.leaseUntil - now >= marginMillis",
    to: "one.leaseUntil - now >= 0",
    tests: ownership
  },
  { file: shards, from: "&& one.leaseUntil - now >= marginMillis", to: "", tests: ownership },
  {
    file: shardStore,
    from: "SET owner = ${owner}, epoch = v.epoch + 1",
    to: "SET owner = ${owner}, epoch = v.epoch",
    tests: leaseTests
  },
  {
    file: shardStore,
    from: "FOR NO KEY UPDATE OF v SKIP LOCKED",
    to: "FOR NO KEY UPDATE OF v",
    tests: leaseTests
  },
  {
    file: shards,
    from: "if (epochs.get(one.virtualShard) === one.epoch)",
    to: "if (epochs.has(one.virtualShard))",
    tests: ownership
  },
  {
    file: shards,
    from: "leaseUntil = before + leaseMillis",
    to: "leaseUntil = monotonicMillis(clock) + leaseMillis",
    tests: ownership
  },
  {
    file: shardStore,
    from: "${fromNow(Math.max(0, leaseMillis - heartbeatTimeoutMillis))}",
    to: "now()",
    tests: leaseTests
  },
  {
    file: "server/delivery/Delivery/Lanes.ts",
    from: "if (readBeganAt < owned.claimedAt) return undefined",
    to: "",
    tests: ["server/delivery/Delivery/Lanes.test.ts"]
  },
  {
    file: "server/delivery/Delivery/QueuedDelivery.ts",
    from: "dueAt: now + row.wait_ms",
    to: "dueAt: now + Math.max(0, row.wait_ms)",
    tests: ["server/delivery/Delivery/QueuedDelivery.test.ts"]
  },
  {
    file: "server/delivery/Delivery/ShardBalancer.ts",
    from: "if (isStuck) return",
    to: "",
    tests: ["server/delivery/Delivery/Shards.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Reader.ts",
    from: "if (hasCachedNumbers) sweepDue.openUnsafe()",
    to: "",
    tests: ["server/delivery/Delivery/Reader.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Reader.ts",
    from: "if (!again) return { shard, parts, watermark }",
    to: "if (now >= 0) return { shard, parts, watermark }",
    tests: ["server/delivery/Delivery/Reader.test.ts"]
  },
  {
    file: "server/delivery/Delivery/QueueWrites.ts",
    from: "const HIGH_WATER_MARGIN = 256",
    to: "const HIGH_WATER_MARGIN = 0",
    tests: ["server/delivery/Delivery/DeliveryQueue.test.ts", "server/delivery/Delivery/capacity.test.ts"]
  },
  {
    file: replay,
    from: "yield* lockDestination(org_id, destination_id) const rows = yield* sql<{ readonly status",
    to: "const rows = yield* sql<{ readonly status",
    tests: replayTests
  },
  {
    file: replay,
    from: "yield* lockDestination(org_id, destination_id) const capacity",
    to: "const capacity",
    tests: replayTests
  },
  {
    file: replay,
    from: "AND status = 'failed' RETURNING",
    to: "RETURNING",
    tests: ["server/delivery/Delivery/Replay.test.ts"],
    equivalent:
      "both callers found the deliveries failed under the lock of their destination, and only a replay, which takes that lock too, changes a failed one"
  },
  {
    file: "server/delivery/Delivery/Retention.ts",
    from: "AND l.created_at < ${DateTime.toDateUtc(cutoff)}",
    to: "",
    tests: ["server/delivery/Delivery/Retention.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Finisher.ts",
    from: 'verdict._tag === "RetryLater" && written.has(result.delivery.seq) ? now + verdict.delay : null',
    to: 'verdict._tag === "RetryLater" ? now + verdict.delay : null',
    tests: ["server/delivery/Delivery/Finisher.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Finisher.ts",
    from: ".filter(({ result }) => written.has(result.delivery.seq))",
    to: "",
    tests: engine
  }
]
