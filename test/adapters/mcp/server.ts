/** A server of the newest SDK, for both protocols. */
import { inputRequired, McpServer } from "@modelcontextprotocol/server"
import { serveStdio } from "@modelcontextprotocol/server/stdio"
import { z } from "zod"
import { executed, hasAddedTool, refundDescription, text } from "./tools.ts"

const make = () => {
  const server = new McpServer(
    { name: "shop", version: "1.0.0" },
    { capabilities: { tools: { listChanged: true }, resources: {}, prompts: {} } }
  )
  server.registerTool(
    "read",
    { inputSchema: z.object({ file: z.string() }), annotations: { readOnlyHint: true } },
    ({ file }) => {
      executed(`read ${file}`)
      return text(`content of ${file}`)
    }
  )
  server.registerTool(
    "refund",
    { description: refundDescription(), inputSchema: z.object({ amount: z.number() }) },
    ({ amount }) => {
      executed(`refund ${amount}`)
      return text(`refunded ${amount}`)
    }
  )
  server.registerTool("forbidden", { inputSchema: z.object({}) }, () => {
    executed("forbidden")
    return text("done")
  })
  // Executes, and never answers.
  server.registerTool("hang", { inputSchema: z.object({}), annotations: { readOnlyHint: true } }, () => {
    executed("hang")
    return new Promise(() => undefined)
  })
  server.registerTool("die", { inputSchema: z.object({}), annotations: { readOnlyHint: true } }, () => {
    executed("die")
    process.exit(3)
  })
  server.registerTool("broken", { inputSchema: z.object({}), annotations: { readOnlyHint: true } }, () => ({
    ...text("The bank is closed"),
    isError: true
  }))
  // Asks its own question before it executes.
  server.registerTool("question", { inputSchema: z.object({}) }, (_, context) => {
    if (context.mcpReq.requestState() !== "asked") {
      return inputRequired({
        requestState: "asked",
        inputRequests: { sure: inputRequired.elicitUrl({ url: "https://shop.example/", message: "Sure?" }) }
      })
    }
    executed("question")
    return text("answered")
  })
  if (hasAddedTool()) server.registerTool("added", { inputSchema: z.object({}) }, () => text("added"))
  server.registerResource("note", "note://1", {}, () => ({ contents: [{ uri: "note://1", text: "a note" }] }))
  server.registerPrompt("greet", {}, () => ({
    messages: [{ role: "user", content: { type: "text", text: "hello" } }]
  }))
  return server
}

if (process.env["COUNTERSIGN_KEY"] !== undefined) executed("the server has the key")
serveStdio(make)
