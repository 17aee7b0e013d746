/** Mutants of what the adapters share, of the MCP gate's journal and tokens, and of the clients' shared waits. */
import type { ListedMutant } from "../list.ts"

const gate = "adapters/toolGate.ts"
const gateTests = ["adapters/toolGate.test.ts"]
const recordable = "adapters/toolGate/recordable.ts"
const waits = "client/connect/approvalWaits.ts"
const waitTests = ["client/connect/approvalWaits.test.ts"]
const effectWaits = "client/approvalWaits.ts"
const effectWaitTests = ["client/approvalWaits.test.ts"]
const tokens = "cli/mcpGate/requestState.ts"
const tokenTests = ["cli/mcpGate/requestState.test.ts"]
const journal = "cli/mcpGate/Journal.ts"
const journalTests = ["cli/mcpGate/Journal.test.ts"]

export const adapters: ReadonlyArray<ListedMutant> = [
  {
    file: gate,
    from: 'isUnreachable && whenUnreachable === "allow"',
    to: 'whenUnreachable === "allow"',
    tests: gateTests
  },
  { file: gate, from: 'whenUnreachable = "deny" }', to: 'whenUnreachable = "allow" }', tests: gateTests },
  { file: gate, from: "askOptions.signal?.throwIfAborted()", to: "", tests: gateTests },
  {
    file: gate,
    from: 'return denial("executed", problem)',
    to: 'return { verdict: "allow", decision: undefined }',
    tests: gateTests
  },
  { file: gate, from: 'await report(call, context, { status: "failed", error })', to: "", tests: gateTests },
  {
    file: gate,
    from: 'await report(call, context, { status: "succeeded", result })',
    to: "",
    tests: gateTests
  },
  { file: gate, from: "arguments: toJson(call.arguments)", to: "arguments: null", tests: gateTests },
  {
    file: gate,
    from: 'if (approval_id === null || decision_source !== "human") return null',
    to: "return null",
    tests: gateTests
  },
  {
    file: gate,
    from: 'if (answer.verdict !== "allow") return answer',
    to: 'if (answer.verdict === "deny") return answer',
    tests: gateTests
  },
  { file: gate, from: 'if (decision.decision === "pending") {', to: "if (false) {", tests: gateTests },
  { file: recordable, from: "text.length > MAX_RESULT_CHARACTERS", to: "false", tests: gateTests },
  {
    file: waits,
    from: "starts.includes(undefined) ? undefined : Math.min(...starts.map(Number))",
    to: "Math.max(...starts.map(Number))",
    tests: waitTests
  },
  { file: waits, from: "if (waiting(session).length > 0) return", to: "", tests: waitTests },
  { file: waits, from: "stream?.abort()", to: "", tests: waitTests },
  { file: waits, from: "if (found !== undefined) return resolve(found)", to: "", tests: waitTests },
  { file: waits, from: "if (approval.approval_id === approval_id) finish", to: "finish", tests: waitTests },
  {
    file: waits,
    from: "if (session.stream === undefined) open(id, session, reconnect)",
    to: "open(id, session, reconnect)",
    tests: waitTests
  },
  {
    file: effectWaits,
    from: "if (stream === undefined || waitsOf(session).length > 0) return Effect.void",
    to: "if (stream === undefined) return Effect.void",
    tests: effectWaitTests
  },
  {
    file: effectWaits,
    from: "return Fiber.interrupt(stream)",
    to: "return Effect.void",
    tests: effectWaitTests
  },
  {
    file: effectWaits,
    from: "if (found !== undefined) return Effect.succeed(found)",
    to: "",
    tests: effectWaitTests
  },
  {
    file: effectWaits,
    from: "session.stream === undefined ? open(id, session, reconnect) : Effect.void",
    to: "open(id, session, reconnect)",
    tests: effectWaitTests
  },
  { file: effectWaits, from: "Effect.failCause(exit.cause)", to: "Effect.undefined", tests: effectWaitTests },
  {
    file: tokens,
    from: "decipher.setAuthTag(bytes.subarray(-TAG_BYTES))",
    to: "decipher.setAuthTag(Buffer.alloc(TAG_BYTES))",
    tests: tokenTests
  },
  {
    file: journal,
    from: "if (Option.isSome(end)) return",
    to: "if (Option.isNone(end)) return",
    tests: journalTests
  }
]
