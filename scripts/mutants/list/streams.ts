/** Mutants of the streams of session events and of the console's inbox. */
import type { ListedMutant } from "../list.ts"

const hub = "server/approvals/SessionStream/Hub.ts"
const hubTests = ["server/approvals/SessionStream/Hub.test.ts"]
const streamTests = ["server/approvals/SessionStream.test.ts"]
const signals = "server/approvals/SessionSignals/SignalBuffer.ts"
const signalTests = ["server/approvals/SessionSignals/SignalBuffer.test.ts"]
const feed = "server/console/ApprovalFeed.ts"
const feedTests = ["server/console/ApprovalFeed.test.ts"]

export const streams: ReadonlyArray<ListedMutant> = [
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
  }
]
