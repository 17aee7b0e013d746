import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { fileURLToPath } from "node:url"

const server = fileURLToPath(new URL("../../examples/frameworks/mcp-server.ts", import.meta.url))

/** Connects to an MCP server, directly or through a command in front of it, and returns a call of a tool. */
export const startMcpServer = async (
  gate: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>
) => {
  const [command, ...args] = [...gate, process.execPath, server]
  const client = new Client({ name: "bench", version: "1.0.0" })
  const env = { PATH: process.env["PATH"] ?? "", ...environment }
  await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }))
  return {
    call: async (order: string) => {
      const { isError } = await client.callTool({ name: "lookup", arguments: { order } })
      if (isError === true) throw new Error(`the call ${order} failed`)
    },
    close: () => client.close()
  }
}
