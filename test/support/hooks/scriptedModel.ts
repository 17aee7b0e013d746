/** Scripted model servers: Anthropic's Messages API and OpenAI's Responses API, as Claude Code and Codex call them. */
import { Effect } from "effect"
import { createServer, type ServerResponse } from "node:http"

/** What the model answers: a text, or a call of a tool. */
export type Block =
  | { readonly text: string }
  | { readonly tool: string; readonly input: Readonly<Record<string, unknown>>; readonly id?: string }

export interface ScriptedModel {
  readonly url: string
  /** The results of tools that the model got, as text. */
  readonly results: ReadonlyArray<string>
}

const member = (value: unknown, name: string): unknown => Reflect.get(Object(value), name)

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))

/** Sends server-sent events. */
const sendEvents = (response: ServerResponse, events: ReadonlyArray<{ readonly type: string }>): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  response.end()
}

let messages = 0

const answerAnthropic = (turns: ReadonlyArray<ReadonlyArray<Block>>, body: unknown, results: Set<string>) => {
  const conversation = listOf(member(body, "messages"))
  for (const part of conversation.flatMap((message) => listOf(member(message, "content"))))
    if (member(part, "type") === "tool_result") results.add(textOf(member(part, "content")))
  const turn = conversation.filter((message) => member(message, "role") === "assistant").length
  // Requests without tools are for titles and the like.
  const isMain = listOf(member(body, "tools")).length > 0
  const blocks = (isMain ? turns[turn] : undefined) ?? [{ text: "done" }]
  const id = `msg_${++messages}`
  const content = blocks.map((block, index) =>
    "text" in block
      ? { type: "text", text: block.text }
      : {
          type: "tool_use",
          id: block.id ?? `toolu_${turn}_${index}_${id}`,
          name: block.tool,
          input: block.input
        }
  )
  const stop_reason = content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn"
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = {
    id,
    type: "message",
    role: "assistant",
    model: member(body, "model"),
    stop_sequence: null,
    usage
  }
  return [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    ...content.flatMap((block, index) => [
      {
        type: "content_block_start",
        index,
        content_block: block.type === "text" ? { type: "text", text: "" } : { ...block, input: {} }
      },
      {
        type: "content_block_delta",
        index,
        delta:
          "text" in block
            ? { type: "text_delta", text: block.text }
            : { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
      },
      { type: "content_block_stop", index }
    ]),
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" }
  ]
}

const answerOpenAi = (turns: ReadonlyArray<ReadonlyArray<Block>>, body: unknown, results: Set<string>) => {
  const input = listOf(member(body, "input"))
  const isOutput = (item: unknown) => textOf(member(item, "type")).includes("output")
  for (const item of input) if (isOutput(item)) results.add(textOf(member(item, "output")))
  // Results after each other are those of one turn.
  const turn = input.filter((item, index) => isOutput(item) && !isOutput(input[index - 1])).length
  const blocks = turns[turn] ?? [{ text: "done" }]
  const session = /session ID (\d+)/u.exec(JSON.stringify(input))?.[1]
  const id = `resp_${++messages}`
  const output = blocks.map((block, index) => {
    const item = { id: `item_${id}_${index}`, status: "completed" }
    if ("text" in block) {
      const content = [{ type: "output_text", text: block.text, annotations: [] }]
      return { ...item, type: "message", role: "assistant", content }
    }
    const call_id = block.id ?? `call_${turn}_${index}_${id}`
    const args = "session_id" in block.input ? { ...block.input, session_id: Number(session) } : block.input
    return { ...item, type: "function_call", call_id, name: block.tool, arguments: JSON.stringify(args) }
  })
  const usage = {
    input_tokens: 1,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 1,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 2
  }
  const response = {
    id,
    object: "response",
    status: "completed",
    model: member(body, "model"),
    output,
    usage
  }
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
    ...output.flatMap((item, output_index) => [
      { type: "response.output_item.added", output_index, item },
      { type: "response.output_item.done", output_index, item }
    ]),
    { type: "response.completed", response }
  ]
}

/** Starts a server that answers with one turn after the other; further ones are a text. It counts the
 * answers in a conversation, which a resumed one has too. */
export const startScriptedModel = (turns: ReadonlyArray<ReadonlyArray<Block>>) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(
        () =>
          new Promise<{ readonly close: () => void; readonly port: number; readonly results: Set<string> }>(
            (started) => {
              const results = new Set<string>()
              const server = createServer((request, response) => {
                let text = ""
                request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
                request.on("end", () => {
                  const path = request.url ?? ""
                  if (
                    request.method === "POST" &&
                    path.includes("/messages") &&
                    !path.includes("count_tokens")
                  )
                    sendEvents(response, answerAnthropic(turns, JSON.parse(text), results))
                  else if (request.method === "POST" && path.includes("/responses"))
                    sendEvents(response, answerOpenAi(turns, JSON.parse(text), results))
                  else response.writeHead(200, { "content-type": "application/json" }).end("{}")
                })
              })
              server.listen(0, "127.0.0.1", () => {
                const address = server.address()
                const port = typeof address === "object" && address !== null ? address.port : 0
                const close = () => {
                  server.closeAllConnections()
                  server.close()
                }
                started({ close, port, results })
              })
            }
          )
      ),
      ({ close }) => Effect.sync(close)
    ),
    ({ port, results }): ScriptedModel => ({
      url: `http://127.0.0.1:${port}`,
      get results() {
        return [...results]
      }
    })
  )
