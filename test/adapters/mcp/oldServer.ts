/** A server of the SDK before the stateless protocol. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js"
import { z } from "zod"
import { executed, refundDescription, text } from "./tools.ts"

const server = new McpServer({ name: "old-shop", version: "1.0.0" })
server.registerTool(
  "read",
  { inputSchema: { file: z.string() }, annotations: { readOnlyHint: true } },
  ({ file }) => {
    executed(`read ${file}`)
    return text(`content of ${file}`)
  }
)
server.registerTool(
  "refund",
  { description: refundDescription(), inputSchema: { amount: z.number() } },
  ({ amount }) => {
    executed(`refund ${amount}`)
    return text(`refunded ${amount}`)
  }
)
await server.connect(new StdioServerTransport())
