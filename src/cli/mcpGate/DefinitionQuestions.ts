import { Effect } from "effect"
import type { ToolCall } from "../../adapters/toolGate/publicTypes.ts"
import { type ChangedDefinition, subjectOf } from "./Definitions.ts"
import { digestOf } from "./digest.ts"
import type { GovernedCalls } from "./GovernedCalls.ts"

/** Begins the tools of the steps that ask about a changed definition; the part follows, as in `mcp.tool_definition`. */
const TOOL_PREFIX = "mcp."

/** Their action class. */
export const DEFINITION_CLASS = "definition"

/** Asks people about changed definitions. */
export const makeDefinitionQuestions = ({
  approvalUrl,
  calls,
  log,
  server
}: {
  readonly calls: Pick<GovernedCalls, "ask" | "report" | "waitForPerson">
  readonly approvalUrl: (approval: string | null) => string
  /** Name of the server in the question. */
  readonly server: string
  readonly log: (line: string) => void
}) => {
  let pending = 0

  /** Asks, with the place of the question for `notify`. Undefined: the question could not be asked. */
  const ask = Effect.fnUntraced(function* (change: ChangedDefinition, notify: (question: string) => void) {
    const call: ToolCall = {
      id: `definition_${digestOf([change.part, change.tool, change.digest]).slice(0, 32)}`,
      tool: `${TOOL_PREFIX}${change.part}`,
      actionClass: DEFINITION_CLASS,
      arguments: {
        server,
        ...(change.tool === null ? {} : { tool: change.tool }),
        old: change.old,
        new: change.new
      }
    }
    let verdict = yield* calls.ask(call)
    if (verdict.verdict === "pending") {
      const url = approvalUrl(verdict.decision.approval_id)
      notify(`A person is asked to approve it: ${url}`)
      log(`${subjectOf(change)}: a person is asked to approve the change: ${url}`)
      pending++
      verdict = yield* calls.waitForPerson(call)
      pending--
    }
    if (verdict.verdict === "allow") {
      yield* calls.report(call, { status: "succeeded", result: { accepted: change.digest } })
      return "approved"
    }
    if (verdict.verdict === "pending") return undefined
    if (verdict.cause === "executed") return "approved"
    notify(verdict.message)
    return verdict.cause === "unreachable" || verdict.cause === "refused" ? undefined : "rejected"
  })

  return {
    ask,
    /** Whether people are asked, also when the gate was stopped meanwhile. */
    isPending: (): boolean => pending > 0
  }
}
