import type { ToolCall } from "../../adapters/toolGate.ts"
import { type ChangedDefinition, type DefinitionsOptions, subjectOf } from "./Definitions.ts"
import { digestOf } from "./digest.ts"
import type { GovernedCalls } from "./GovernedCalls.ts"

/** Begins the tools of the steps that ask about a changed definition; the part follows, as in `mcp.tool_definition`. */
const TOOL_PREFIX = "mcp."

/** Their action class. */
export const DEFINITION_CLASS = "definition"

/** Asks people about changed definitions. */
export interface DefinitionQuestions {
  readonly ask: DefinitionsOptions["ask"]
  /** Whether people are asked at the moment. */
  readonly isPending: () => boolean
}

export const makeDefinitionQuestions = ({
  approvalUrl,
  calls,
  log,
  server,
  signal
}: {
  readonly calls: Pick<GovernedCalls, "ask" | "report" | "waitForPerson">
  readonly approvalUrl: (approval: string | null) => string
  /** Name of the server in the question. */
  readonly server: string
  /** Aborted when the gate stops. */
  readonly signal: AbortSignal
  readonly log: (line: string) => void
}): DefinitionQuestions => {
  let pending = 0

  const ask = async (
    change: ChangedDefinition,
    notify: (question: string) => void
  ): Promise<"approved" | "rejected" | undefined> => {
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
    let verdict = await calls.ask(call, undefined, { signal, wait: false })
    if (verdict.verdict === "pending") {
      const url = approvalUrl(verdict.decision.approval_id)
      notify(`A person is asked to approve it: ${url}`)
      log(`${subjectOf(change)}: a person is asked to approve the change: ${url}`)
      pending++
      verdict = await calls.waitForPerson(call, signal)
      pending--
    }
    if (verdict.verdict === "allow") {
      await calls.report(call, undefined, { status: "succeeded", result: { accepted: change.digest } })
      return "approved"
    }
    if (verdict.verdict === "pending") return undefined
    if (verdict.cause === "executed") return "approved"
    notify(verdict.message)
    return verdict.cause === "unreachable" || verdict.cause === "refused" ? undefined : "rejected"
  }

  return { ask, isPending: () => pending > 0 }
}
