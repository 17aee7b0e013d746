/** Mutants of the streams of session events and of the console's inbox. */
import type { ListedMutant } from "../list.ts"

const hub = "server/approvals/SessionStream/Hub.ts"
const hubTests = ["server/approvals/SessionStream/Hub.test.ts"]
const streamTests = ["server/approvals/SessionStream.test.ts"]
const signals = "server/approvals/SessionSignals/SignalBuffer.ts"
const signalTests = ["server/approvals/SessionSignals/SignalBuffer.test.ts"]
const feed = "server/console/ApprovalFeed.ts"
const feedTests = ["server/console/ApprovalFeed.test.ts"]
const stream = "server/approvals/SessionStream.ts"
const streamRows = "server/approvals/SessionStream/rows.ts"

export const streams: ReadonlyArray<ListedMutant> = [
  { file: feed, from: "isShutDown || isFull(org_id, key_id)", to: "isShutDown", tests: feedTests },
  { file: hub, from: "mustRead: true,", to: "mustRead: false,", tests: [...hubTests, ...streamTests] },
  { file: hub, from: "hasEnded: isClosed,", to: "hasEnded: false,", tests: hubTests },
  {
    file: hub,
    from: 'result._tag === "UpToDate" && followed.newest === newestAtStart',
    to: 'result._tag === "UpToDate"',
    tests: hubTests
  },
  {
    file: hub,
    from: "followed.newest = Math.max(followed.newest, result.newest)",
    to: "followed.newest = result.newest",
    tests: hubTests
  },
  {
    file: hub,
    from: "if (subscription.isReading || subscription.resume === undefined) return",
    to: "if (subscription.isReading) return",
    tests: hubTests
  },
  { file: hub, from: "if (followed.newest > newest)", to: "if (false)", tests: hubTests },
  { file: hub, from: "followed.subscriptions.size === 0 &&", to: "", tests: hubTests },
  { file: hub, from: "&& heartbeats < HEARTBEATS_PER_SWEEP", to: "", tests: hubTests },
  { file: hub, from: ".filter(({ key_id }) => keys.has(key_id))", to: "", tests: hubTests },
  {
    file: hub,
    from: "time - writePendingSince >= options.sendTimeoutMillis",
    to: "time - writePendingSince > options.sendTimeoutMillis",
    tests: hubTests
  },
  { file: hub, from: "slots.remove(org_id, subscription)", to: "", tests: [...hubTests, ...streamTests] },
  {
    file: hub,
    from: "slots.sizeOf(org_id) >= options.maxPerOrganization",
    to: "slots.sizeOf(org_id) > options.maxPerOrganization",
    tests: streamTests
  },
  {
    file: "server/concurrency/FairSlots.ts",
    from: "largest.size <= sizeOf(other) + 1",
    to: "largest.size <= sizeOf(other)",
    tests: ["server/concurrency/FairSlots.test.ts"]
  },
  {
    file: signals,
    from: "const SESSIONS_PER_PAYLOAD = 140",
    to: "const SESSIONS_PER_PAYLOAD = 160",
    tests: signalTests
  },
  {
    file: signals,
    from: "if (newestBySession.size >= MAX_BUFFERED_SESSIONS) overflowed = true else newestBySession",
    to: "newestBySession",
    tests: signalTests
  },
  {
    file: signals,
    from: "Math.max(newest, newestBySession.get(session_id) ?? 0)",
    to: "newest",
    tests: signalTests
  },
  {
    file: feed,
    from: "if (!Queue.offerUnsafe(subscriber.queue, bytes)) end(subscriber)",
    to: "Queue.offerUnsafe(subscriber.queue, bytes)",
    tests: feedTests
  },
  {
    file: feed,
    from: "onFailure: () => Effect.sync(() => broadcast(RESYNC))",
    to: "onFailure: () => Effect.void",
    tests: feedTests
  },
  {
    file: "server/console/ApprovalFeed/SignalBuffer.ts",
    from: "|| newestBySession.size > MAX_PENDING_SESSIONS",
    to: "",
    tests: ["server/console/ApprovalFeed/SignalBuffer.test.ts"]
  },
  {
    file: streamRows,
    from: "if (events[0]?.number !== after + 1) return gap",
    to: "",
    tests: streamTests
  },
  { file: streamRows, from: "newest >= 0 && newest <= after", to: "newest >= 0", tests: streamTests },
  {
    file: streamRows,
    from: "FROM agent_sessions WHERE org_id = ${org_id} AND session_id = ${session_id}",
    to: "FROM agent_sessions WHERE session_id = ${session_id}",
    tests: [...streamTests, "api/Tenancy.test.ts"]
  },
  {
    file: stream,
    from: "after < firstRetained - 1",
    to: "after < firstRetained - 2",
    tests: streamTests
  },
  {
    file: stream,
    from: "if (after > newest) return yield* cursorBeyondEnd(newest)",
    to: "",
    tests: streamTests
  },
  {
    file: stream,
    from: "if (signals === undefined) signalsLost.openUnsafe() else hub.signal(signals)",
    to: "if (signals !== undefined) hub.signal(signals)",
    tests: streamTests
  },
  {
    file: feed,
    from: "if (to !== undefined && subscriber.org_id !== to.org_id) continue",
    to: "",
    tests: feedTests
  },
  { file: feed, from: "|| ofKey >= MAX_PER_KEY", to: "", tests: feedTests },
  {
    file: feed,
    from: "if (sessions === undefined) return broadcast(RESYNC)",
    to: "if (sessions === undefined) return",
    tests: feedTests
  },
  {
    file: "server/console/ApprovalFeed/rows.ts",
    from: "AND (expires_at, approval_id) > (",
    to: "AND (expires_at, approval_id) >= (",
    tests: feedTests
  }
]
