/** A session of an agent with usual rules, and a person who decides. For the tests of all adapters. */
import { Effect, Redacted, type Schema } from "effect"
import { connect, type CountersignClient } from "../../src/client/connect/index.ts"
import type { ReplaceApprovalRules } from "../../src/api/ApprovalRules.ts"
import type { Execution, Resolution } from "../../src/domain/approvals/Execution.ts"
import { ApprovalId, type ClaimId, SessionId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { eventually } from "../support/eventually.ts"

/** What a test of an adapter works with. The tool of a test is `refund`; each waits for a person by default. */
export interface GovernedRun {
  /** The agent's client. */
  readonly client: CountersignClient
  /** The agent's session. */
  readonly session: string
  readonly url: string
  /** The agent's key, for another process. */
  readonly key: string
  /** Waits until a call of the tool with these arguments waits for a person, and decides it. */
  readonly decide: (
    decision: "approve" | "reject" | "request_changes",
    tool: string,
    options?: {
      readonly comment?: string
      readonly proposes?: Readonly<Record<string, Schema.Json>>
      readonly arguments?: Schema.Json
    }
  ) => Promise<void>
  /** Waits until a call of the tool waits for a person, and sends a message about it. Returns the approval's ID. */
  readonly say: (tool: string, text: string) => Promise<string>
  /** The texts of the messages about an approval, each after its sender. */
  readonly conversation: (approval_id: string) => Promise<ReadonlyArray<string>>
  /** Replaces the rules. */
  readonly replaceRules: (rules: typeof ReplaceApprovalRules.Type.rules) => Effect.Effect<void>
  /** How the session's calls ended, in the order of their reports: `refund succeeded`. */
  readonly outcomes: () => Promise<ReadonlyArray<{ step_id: string; tool: string; status: string }>>
  /** The executions of the session whose outcome is or was unknown. */
  readonly executions: () => Promise<ReadonlyArray<typeof Execution.Type>>
  /** Resolves an unknown execution as a person. */
  readonly resolve: (claim_id: ClaimId, resolution: Resolution) => Promise<void>
}

/** The rules of every test: `read` and `repeatable` run, `forbidden` does not, everything else waits for a person, `unattended` for a second. */
const rules = [
  { tool: "read", effect: "allow" as const },
  { tool: "repeatable", effect: "allow" as const, retry_unknown: true },
  { tool: "forbidden", effect: "reject" as const, reason: "Nobody may do this" },
  { tool: "unattended", effect: "require_approval" as const, review_seconds: 1 },
  { effect: "require_approval" as const, review_seconds: 3_600 }
]

/** Creates a session in an organization of the test's own. */
export const governedRun = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ name: "admin" }, organization)
    yield* admin.approvalRules.replace({ payload: { rules } })
    const key = Redacted.value(yield* countersign.key({ preset: "runtime", name: "agent" }, organization))
    const client = connect({ url: countersign.url, key })
    yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
    const { session_id } = yield* Effect.promise(() => client.sessions.create())

    const decide: GovernedRun["decide"] = (decision, tool, options = {}) =>
      Effect.gen(function* () {
        const { approvals } = yield* admin.approvals.list({ query: { status: "pending" } })
        const found = approvals.find(
          (approval) =>
            approval.tool === tool &&
            (options.arguments === undefined ||
              JSON.stringify(approval.arguments) === JSON.stringify(options.arguments))
        )
        if (found === undefined) return false
        const comment = options.comment === undefined ? {} : { comment: options.comment }
        yield* admin.approvals.decide({
          params: { id: ApprovalId.make(found.approval_id) },
          payload:
            decision === "approve"
              ? { decision, ...comment }
              : {
                  decision,
                  ...comment,
                  ...(options.proposes === undefined ? {} : { proposed_arguments: options.proposes })
                }
        })
        return true
      }).pipe(
        (look) => eventually(look, (isDecided) => isDecided),
        Effect.asVoid,
        Effect.orDie,
        Effect.runPromise
      )

    const say: GovernedRun["say"] = (tool, text) =>
      Effect.gen(function* () {
        const { approvals } = yield* admin.approvals.list({ query: { status: "pending" } })
        const found = approvals.find((approval) => approval.tool === tool)
        if (found === undefined) return undefined
        yield* admin.approvals.sendMessage({ params: { id: found.approval_id }, payload: { text } })
        return found.approval_id
      }).pipe(
        (look) => eventually(look, (id) => id !== undefined),
        Effect.map(String),
        Effect.orDie,
        Effect.runPromise
      )

    const conversation: GovernedRun["conversation"] = async (id) => {
      const { messages } = await client.approvals.listMessages({ params: { id } })
      return messages.map(({ sender, text }) => `${sender}: ${text}`)
    }

    const outcomes = async () => {
      const ended: Array<{ step_id: string; tool: string; status: string }> = []
      await client.sessions.close({ params: { id: session_id } })
      for await (const event of client.stream(session_id, { after: 0 })) {
        if (event.type === "tool:outcome") {
          ended.push({ step_id: event.step_id, tool: event.tool, status: event.status })
        }
      }
      return ended
    }

    const executions = () =>
      Effect.gen(function* () {
        const found: Array<typeof Execution.Type> = []
        for (let cursor: ClaimId | undefined; ;) {
          const query = {
            session_id: SessionId.make(session_id),
            limit: 100,
            ...(cursor === undefined ? {} : { cursor })
          }
          const page = yield* admin.executions.list({ query })
          found.push(...page.executions)
          if (page.next_cursor === null) return found
          cursor = page.next_cursor
        }
      }).pipe(Effect.orDie, Effect.runPromise)

    const resolve: GovernedRun["resolve"] = (claim_id, resolution) =>
      Effect.runPromise(
        Effect.orDie(
          Effect.asVoid(admin.executions.resolve({ params: { claim_id }, payload: { resolution } }))
        )
      )

    const replaceRules: GovernedRun["replaceRules"] = (replaced) =>
      Effect.orDie(Effect.asVoid(admin.approvalRules.replace({ payload: { rules: replaced } })))

    const run: GovernedRun = {
      client,
      session: session_id,
      url: countersign.url,
      key,
      conversation,
      decide,
      say,
      replaceRules,
      outcomes,
      executions,
      resolve
    }
    return run
  }).pipe(Effect.orDie)
