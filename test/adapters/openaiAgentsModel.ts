import type { AgentInputItem } from "@openai/agents-core"
import * as agents from "@openai/agents-core"
import * as sandbox from "@openai/agents-core/sandbox"
import * as testing from "@openai/agents-core/testing"

/** A call that the model asks for. */
interface ModelCall {
  readonly id: string
  readonly tool: string
  readonly arguments: Record<string, unknown>
}

/** The functions of one version of the SDK. */
export type Sdk = Pick<typeof agents, "Agent" | "handoff" | "run" | "RunState" | "tool"> &
  Pick<typeof sandbox, "SandboxAgent"> &
  Pick<typeof testing, "assistantMessage" | "functionCall" | "modelResponder" | "ScriptedModel">

export const newest: Sdk = { ...agents, ...sandbox, ...testing }

/**
 * A model that asks for the calls of one response after the other, and then answers `Done`. Its place in the script is what the input says, so
 * that a resumed run goes on where it was.
 */
export const scriptedModel = (sdk: Sdk, responses: ReadonlyArray<ReadonlyArray<ModelCall>>) =>
  new sdk.ScriptedModel(
    Array.from({ length: responses.length + 1 }, () =>
      sdk.modelResponder(({ request: { input } }) => {
        const told = toldAbout(typeof input === "string" ? [] : input)
        const calls = responses.find((response) => response.some(({ id }) => !told.has(id)))
        return calls === undefined
          ? [sdk.assistantMessage("Done")]
          : calls.map((call) => sdk.functionCall(call.tool, call.arguments, { callId: call.id }))
      })
    )
  )

/** What the model was told about each call. */
export const toldAbout = (items: ReadonlyArray<AgentInputItem>): Map<string, string> => {
  const told = new Map<string, string>()
  for (const item of items) {
    if (item.type !== "function_call_result") continue
    const { output } = item
    told.set(
      item.callId,
      typeof output === "object" && "text" in output ? output.text : JSON.stringify(output)
    )
  }
  return told
}
