import { assistantMessage, functionCall, modelResponder, ScriptedModel } from "@openai/agents-core/testing"

/** In place of `model: "gpt-…"`: looks the order up, refunds it, and reports the result. */
export const agentModel = () =>
  new ScriptedModel(
    Array.from({ length: 3 }, () =>
      modelResponder(({ request: { input } }) => {
        const last = typeof input === "string" ? undefined : input.at(-1)
        if (last?.type !== "function_call_result")
          return [functionCall("lookup", { order: "4711" }, { callId: "call_1" })]
        if (last.callId === "call_1")
          return [functionCall("refund", { order: "4711", amount_cents: 12_900 }, { callId: "call_2" })]
        const { output } = last
        return [
          assistantMessage(`The refund: ${typeof output === "object" && "text" in output ? output.text : ""}`)
        ]
      })
    )
  )
