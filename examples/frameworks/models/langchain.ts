import { AIMessage, type BaseMessage, fakeModel, ToolMessage } from "langchain"

/** In place of `new ChatOpenAI({ … })` or another model: looks the order up, refunds it, and reports the result. */
export const agentModel = () => {
  const call = (id: string, name: string, args: object) =>
    new AIMessage({ content: "", tool_calls: [{ id, name, args: { ...args }, type: "tool_call" }] })
  const next = (messages: ReadonlyArray<BaseMessage>) => {
    const last = messages.at(-1)
    if (!ToolMessage.isInstance(last)) return call("call_1", "lookup", { order: "4711" })
    if (last.tool_call_id === "call_1")
      return call("call_2", "refund", { order: "4711", amount_cents: "12900" })
    return new AIMessage(`The refund: ${last.text}`)
  }
  return fakeModel().respond(next).respond(next).respond(next)
}
