/**
 * In place of Claude Code, so that the example needs neither its program nor a model key. Speaks the SDK's protocol: lines of JSON on stdin and
 * stdout. Asks for the calls of one response after the other, runs the hooks, and calls the tools of the SDK's own MCP server.
 */
import { createInterface } from "node:readline"

/** The calls of each response. The real Claude Code gives them new IDs in each run. */
const responses = JSON.parse(
  process.env.CLAUDE_CODE_RESPONSES ??
    JSON.stringify([
      [{ id: "call_1", tool: "mcp__orders__lookup", arguments: { order: "4711" } }],
      [{ id: "call_2", tool: "mcp__orders__refund", arguments: { order: "4711", amount_cents: 12_900 } }]
    ])
)

const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
const session_id = "11111111-2222-4333-8444-555555555555"
const waiting = new Map()
let requests = 0
/** Sends a request to the SDK. */
const request = (body) =>
  new Promise((resolve, reject) => {
    const request_id = `request_${++requests}`
    waiting.set(request_id, ({ error, response }) =>
      error === undefined ? resolve(response) : reject(new Error(error))
    )
    send({ type: "control_request", request_id, request: body })
  })

let options = {}
const asksPermission = process.argv.some((argument) => argument.startsWith("--permission-prompt-tool"))

/** Runs all hooks of an event. */
const runHooks = (hook_event_name, { id, tool, arguments: tool_input }, more = {}) => {
  const base = { session_id, transcript_path: "/dev/null", cwd: process.cwd(), permission_mode: "default" }
  const input = { ...base, hook_event_name, tool_name: tool, tool_input, tool_use_id: id, ...more }
  const ids = (options.hooks?.[hook_event_name] ?? []).flatMap(({ hookCallbackIds }) => hookCallbackIds)
  return Promise.all(
    ids.map((callback_id) => request({ subtype: "hook_callback", callback_id, input, tool_use_id: id }))
  )
}

/** Whether a call is denied, and why. */
const denialOf = async (call) => {
  const outputs = (await runHooks("PreToolUse", call)).map(({ hookSpecificOutput }) => hookSpecificOutput)
  const denial = outputs.find((output) => output?.permissionDecision === "deny")
  if (denial !== undefined) return denial.permissionDecisionReason
  if (outputs.some((output) => output?.permissionDecision === "allow")) return undefined
  if (!asksPermission) return "Permission denied"
  const permission = await request({
    subtype: "can_use_tool",
    tool_name: call.tool,
    input: call.arguments,
    tool_use_id: call.id
  })
  return permission.behavior === "deny" ? permission.message : undefined
}

const execute = async (call) => {
  const [server_name] = options.sdkMcpServers
  const { mcp_response } = await request({
    subtype: "mcp_message",
    server_name,
    message: {
      jsonrpc: "2.0",
      id: ++requests,
      method: "tools/call",
      params: { name: call.tool.replace(`mcp__${server_name}__`, ""), arguments: call.arguments }
    }
  })
  const { content, isError = false } = mcp_response.result
  return { text: content.map(({ text }) => text).join("\n"), isError, content }
}

/** Makes a call as Claude Code does: the hooks before, the tool, the hooks after. */
const callTool = async (call) => {
  const denial = await denialOf(call)
  if (denial !== undefined) return { text: denial, isError: true }
  const result = await execute(call)
  if (result.isError) await runHooks("PostToolUseFailure", call, { error: result.text })
  else await runHooks("PostToolUse", call, { tool_response: result.content })
  return result
}

const run = async () => {
  const base = { session_id, parent_tool_use_id: null, uuid: session_id }
  let last = ""
  for (const calls of responses) {
    const content = calls.map(({ arguments: input, id, tool: name }) => ({
      type: "tool_use",
      id,
      name,
      input
    }))
    send({ ...base, type: "assistant", message: { role: "assistant", content } })
    const results = await Promise.all(calls.map(callTool))
    last = results.at(-1)?.text ?? ""
    send({
      ...base,
      type: "user",
      message: {
        role: "user",
        content: results.map(({ isError, text }, index) => ({
          type: "tool_result",
          tool_use_id: calls[index].id,
          content: text,
          is_error: isError
        }))
      }
    })
  }
  send({
    type: "result",
    subtype: "success",
    is_error: false,
    result: `The refund: ${last}`,
    session_id,
    uuid: session_id
  })
  process.exitCode = 0
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line)
  if (message.type === "control_response") waiting.get(message.response.request_id)?.(message.response)
  if (message.type === "control_request") {
    if (message.request.subtype === "initialize") options = message.request
    const response = {
      commands: [],
      models: [],
      agents: [],
      account: {},
      hook_on_failure_supported: true,
      mcp_servers_applied: true
    }
    send({
      type: "control_response",
      response: { subtype: "success", request_id: message.request_id, response }
    })
  }
  if (message.type === "user") void run()
}
