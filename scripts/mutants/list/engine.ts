/** Further mutants of the delivery engine: what is sent when, its limits, its order, and the fences of its writes. */
import type { ListedMutant } from "../list.ts"

const dispatcher = "server/delivery/Delivery/Dispatcher.ts"
const lane = "server/delivery/Delivery/Lane.ts"
const lanes = "server/delivery/Delivery/Lanes.ts"
const slots = "server/delivery/Delivery/Slots.ts"
const reads = "server/delivery/Delivery/ReadTracker.ts"
const finisher = "server/delivery/Delivery/Finisher.ts"
const shards = "server/delivery/Delivery/Shards.ts"
const shardStore = "server/delivery/Delivery/ShardStore.ts"
const rates = "server/delivery/Delivery/ReceiverRates.ts"
const progress = "server/delivery/Delivery/WorkerProgress.ts"
const queueWrites = "server/delivery/Delivery/QueueWrites.ts"
const writeResults = "server/delivery/Delivery/writeResults.ts"
const retention = "server/delivery/Delivery/Retention.ts"
const replay = "server/delivery/Delivery/Replay.ts"
const retryPolicy = "domain/delivery/RetryPolicy.ts"
const cooldown = "domain/delivery/Cooldown.ts"
const state = "domain/delivery/DeliveryState.ts"

const dispatcherTests = ["server/delivery/Delivery/Dispatcher.test.ts"]
const laneTests = ["server/delivery/Delivery/Lane.test.ts", "server/delivery/Delivery/Dispatcher.test.ts"]
const lanesTests = ["server/delivery/Delivery/Lanes.test.ts", "server/delivery/Delivery/Dispatcher.test.ts"]
const fairnessTests = ["server/delivery/Delivery/fairness.test.ts"]
const readTests = ["server/delivery/Delivery/ReadTracker.test.ts"]
const finisherTests = ["server/delivery/Delivery/Finisher.test.ts"]
const shardTests = ["server/delivery/Delivery/Shards.test.ts"]
const leaseTests = ["server/delivery/Delivery/leases.test.ts"]
const capacityTests = ["server/delivery/Delivery/capacity.test.ts"]
const retentionTests = ["server/delivery/Delivery/Retention.test.ts"]
const replayTests = ["server/delivery/Delivery/Replay.test.ts"]
const progressTests = ["server/delivery/Delivery/WorkerProgress.test.ts"]

export const engine: ReadonlyArray<ListedMutant> = [
  {
    file: retryPolicy,
    from: "Math.max(spread, Math.min(retryAfter, policy.maxRetryAfterMillis))",
    to: "Math.max(spread, retryAfter)",
    tests: ["domain/delivery/RetryPolicy.test.ts"]
  },
  {
    file: retryPolicy,
    from: "return wait > remainingMillis ? null : wait",
    to: "return wait",
    tests: ["domain/delivery/RetryPolicy.test.ts"]
  },
  {
    file: cooldown,
    from: "return failures < policy.failureThreshold ?",
    to: "return failures <= policy.failureThreshold ?",
    tests: ["domain/delivery/Cooldown.test.ts"]
  },
  {
    file: cooldown,
    from: "const round = health.round + 1",
    to: "const round = health.round",
    tests: ["domain/delivery/Cooldown.test.ts"]
  },
  {
    file: state,
    from: 'return outcome.fault === "delivery" ? "success" : "failure"',
    to: 'return "failure"',
    tests: ["domain/delivery/DeliveryState.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Attempt.ts",
    from: "if (!shards.canStart(lane.owned, before)) return requeue(lane, delivery)",
    to: "",
    tests: [...dispatcherTests, "server/delivery/Delivery/Attempt.test.ts"]
  },
  {
    file: "server/delivery/Delivery/Attempt.ts",
    from: "cancelTimer = timers.schedule(GRACE_MILLIS[1], interrupt)",
    to: "interrupt()",
    tests: ["server/delivery/Delivery/Attempt.test.ts"]
  },
  {
    file: dispatcher,
    from: 'if (verdict === "ignored" || !lanes.has(lane)) return',
    to: 'if (verdict === "ignored") return',
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "lane.hasMore = true // A lane in cooldown needs",
    to: "// A lane in cooldown needs",
    tests: dispatcherTests
  },
  { file: lane, from: "|| (a.dueAt === b.dueAt && a.seq > b.seq)", to: "", tests: laneTests },
  {
    file: lane,
    from: 'delivery.expiresAt < now && (isRetry(delivery) || this.health._tag !== "Healthy")',
    to: "delivery.expiresAt < now",
    tests: laneTests
  },
  {
    file: lane,
    from: "if (includeRetries || !isRetry(delivery)) return delivery",
    to: "return delivery",
    tests: laneTests
  },
  {
    file: lanes,
    from: "lanes.get(lane.key) === lane && shards.owned.get(lane.owned.virtualShard) === lane.owned",
    to: "lanes.get(lane.key) === lane && shards.owned.has(lane.owned.virtualShard)",
    tests: lanesTests
  },
  {
    file: lanes,
    from: "!unsaved.has(lane) && reads.allBeganAfter(lane.healthSavedAt)",
    to: "!unsaved.has(lane)",
    tests: lanesTests
  },
  {
    file: lanes,
    from: "if (loadedRows.has(row.seq) || owned === undefined || reads.isStale(row.seq, row.attempt))",
    to: "if (owned === undefined || reads.isStale(row.seq, row.attempt))",
    tests: [...lanesTests, "server/delivery/Delivery.test.ts"]
  },
  {
    file: lanes,
    from: "if (has(lane)) lane.abandoned.push(delivery.seq) else",
    to: "",
    tests: [...lanesTests, ...finisherTests]
  },
  {
    file: lanes,
    from: "if (!unsaved.has(lane)) lane.owned.unfinished++",
    to: "",
    tests: lanesTests
  },
  {
    file: slots,
    from: "if (organization.running >= options.organizationSlots) {",
    to: "if (false) {",
    tests: fairnessTests
  },
  {
    file: slots,
    from: "if (channel.running >= lane.channel.policy.slots) {",
    to: "if (false) {",
    tests: fairnessTests
  },
  {
    file: slots,
    from: "hasFreeRetrySlot: () => retries.running < options.retrySlots",
    to: "hasFreeRetrySlot: () => true",
    tests: fairnessTests
  },
  {
    file: slots,
    from: "if (this.#woken.delete(lane)) this.#returned.add(lane)",
    to: "if (false) {}",
    tests: dispatcherTests
  },
  {
    file: "server/delivery/Delivery/Engine.ts",
    from: "if (shards.owned.get(lane.owned.virtualShard) === lane.owned) balancer.confirm()",
    to: "",
    tests: leaseTests
  },
  {
    file: "server/delivery/Delivery/ShardBalancer.ts",
    from: "if (now - confirmedAt < renewMillis) return",
    to: "",
    tests: ["server/delivery/Delivery/ShardBalancer.test.ts"]
  },
  { file: reads, from: "entry.attempt >= attempt", to: "entry.attempt > attempt", tests: readTests },
  {
    file: rates,
    from: 'if (reserved === "both") return undefined',
    to: "",
    tests: ["server/delivery/Delivery/ReceiverRates.test.ts"]
  },
  {
    file: rates,
    from: "if (waitMillis > maxWaitMillis) return undefined",
    to: "",
    tests: ["server/delivery/Delivery/ReceiverRates.test.ts"]
  },
  {
    file: finisher,
    from: "delivery.attempt - delivery.first_attempt + 1",
    to: "delivery.attempt + 1",
    tests: ["server/delivery/Delivery.test.ts", ...replayTests]
  },
  {
    file: progress,
    from: "progress.unfinishedSince ??= monotonicMillis(clock)",
    to: "progress.unfinishedSince = monotonicMillis(clock)",
    tests: progressTests
  },
  {
    file: progress,
    from: "unfinishedSince !== undefined && now - unfinishedSince > limitMillis",
    to: "false",
    tests: [...progressTests, ...shardTests]
  },
  {
    file: shards,
    from: "owned.get(one.virtualShard) === one && !one.draining && !draining &&",
    to: "owned.get(one.virtualShard) === one && !draining &&",
    tests: leaseTests
  },
  { file: shards, from: "one.draining && one.unfinished === 0", to: "one.draining", tests: leaseTests },
  {
    file: shardStore,
    from: "(l.lease_until < now() OR l.lease_until > h.latest)",
    to: "true",
    tests: leaseTests
  },
  {
    file: shardStore,
    from: "WHERE NOT ${draining}::boolean ON CONFLICT",
    to: "WHERE true ON CONFLICT",
    tests: leaseTests
  },
  { file: writeResults, from: "AND s.epoch + v.epoch = e.epoch FOR", to: "FOR", tests: shardTests },
  {
    file: queueWrites,
    from: "const UNSEEN_TRANSACTIONS = 8",
    to: "const UNSEEN_TRANSACTIONS = 0",
    tests: capacityTests
  },
  {
    file: queueWrites,
    from: "yield* lockDestination(org_id, destination_id) const capacity",
    to: "const capacity",
    tests: capacityTests
  },
  {
    file: queueWrites,
    from: "AND org_id = ${org_id} AND destination_id = ${destination_id} LIMIT ${queueLimit}::int",
    to: "AND destination_id = ${destination_id} LIMIT ${queueLimit}::int",
    tests: capacityTests
  },
  {
    file: queueWrites,
    from: "AND q.org_id = d.org_id AND q.destination_id = d.destination_id LIMIT d.queue_limit",
    to: "AND q.destination_id = d.destination_id LIMIT d.queue_limit",
    tests: capacityTests
  },
  {
    file: retention,
    from: "ORDER BY q.shard, q.seq FOR UPDATE OF q SKIP LOCKED",
    to: "ORDER BY q.shard, q.seq FOR UPDATE OF q",
    tests: retentionTests
  },
  {
    file: retention,
    from: "SELECT org_id, destination_id, delivery_id, NULL AS channel FROM expired WHERE status <> 'pending'",
    to: "SELECT org_id, destination_id, delivery_id, NULL AS channel FROM expired",
    tests: retentionTests
  },
  {
    file: replay,
    from: 'if (row.status !== "failed") {',
    to: "if (false) {",
    tests: [...replayTests, "server/notifications/Notifications/EndpointDeliveries.test.ts"]
  },
  {
    file: dispatcher,
    from: "if (!lanes.has(lane) || !shards.canStart(lane.owned, leaseNow)) return false",
    to: "if (!lanes.has(lane)) return false",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "if (lane.timer.at <= until) return",
    to: "return",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: 'if (lane.health._tag === "CoolingDown") parkUntil(lane, lane.health.until, now)',
    to: "",
    tests: dispatcherTests
  },
  { file: dispatcher, from: "parkUntil(lane, head.dueAt, now)", to: "", tests: dispatcherTests },
  { file: dispatcher, from: "wakeAt(lane, lane.hold.until)", to: "", tests: dispatcherTests },
  { file: dispatcher, from: "wakeAt(lane, lane.networkHeldUntil)", to: "", tests: dispatcherTests },
  {
    file: dispatcher,
    from: "if (lane.networkHeldUntil > now) return false",
    to: "",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "if (holds.size > MAX_NETWORK_HOLDS && oldest !== undefined) holds.delete(oldest)",
    to: "holds.clear()",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "reads.recorded(delivery.seq, delivery.attempt)",
    to: "",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "if (retryAt === null || !lanes.has(lane)) lanes.unload(lane, delivery)",
    to: "if (retryAt === null) lanes.unload(lane, delivery)",
    tests: dispatcherTests
  },
  {
    file: dispatcher,
    from: "for (const waiting of slots.release(lane, delivery)) readyLanes.add(waiting)",
    to: "slots.release(lane, delivery)",
    tests: dispatcherTests
  },
  {
    file: lanes,
    from: "|| owned === undefined || reads.isStale(row.seq, row.attempt))",
    to: "|| owned === undefined)",
    tests: dispatcherTests
  },
  {
    file: lanes,
    from: "if (found?.owned === owned) return found",
    to: "if (found !== undefined) return found",
    tests: dispatcherTests
  },
  { file: lanes, from: "|| loadedRows.size > MAX_LOADED", to: "", tests: lanesTests },
  {
    file: slots,
    from: "[...organization.wake(), ...channel.wake()]",
    to: "[...channel.wake()]",
    tests: dispatcherTests
  },
  {
    file: slots,
    from: "[...organization.wake(), ...channel.wake()]",
    to: "[...organization.wake()]",
    tests: dispatcherTests
  },
  { file: slots, from: "[...woken, ...retries.wake()]", to: "woken", tests: dispatcherTests },
  {
    file: slots,
    from: "woken.length === WAKE_LANES && this.running > 0",
    to: "woken.length === WAKE_LANES",
    tests: dispatcherTests
  },
  {
    file: reads,
    from: "if (oldest !== undefined && entry.tick > oldest) break",
    to: "",
    tests: readTests
  },
  { file: reads, from: "break written.delete(seq)", to: "break", tests: readTests },
  { file: reads, from: "if (inFlight.size > 0) written.set", to: "written.set", tests: readTests },
  {
    file: finisher,
    from: "unacknowledged.delete(result) if (!written.has(result.delivery.seq)) onRefused(result.lane)",
    to: "if (!written.has(result.delivery.seq)) onRefused(result.lane)",
    tests: finisherTests
  },
  {
    file: finisher,
    from: "for (const result of taken) unacknowledged.add(result)",
    to: "",
    tests: finisherTests
  },
  {
    file: "server/delivery/Delivery/HealthWriter.ts",
    from: "[...unsaved].filter(([lane]) => !locked.has(lane.key))",
    to: "unsaved",
    tests: finisherTests
  },
  {
    file: "server/delivery/Delivery/writeHealth.ts",
    from: "AND s.epoch + v.epoch = l.epoch",
    to: "",
    tests: ["server/delivery/Delivery/writeHealth.test.ts"]
  },
  {
    file: "server/delivery/Delivery/writeHealth.ts",
    from: "FOR UPDATE OF d SKIP LOCKED",
    to: "FOR UPDATE OF d",
    tests: finisherTests
  }
]
