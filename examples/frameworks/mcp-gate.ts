/** An MCP client that starts the gate in place of the server, and calls two tools as an agent would. */
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { fileURLToPath } from "node:url"

const server = fileURLToPath(new URL("mcp-server.ts", import.meta.url))
const transport = new StdioClientTransport({
  command: "npx",
  args: ["countersign", "mcp-gate", "--", "node", server],
  // With COUNTERSIGN_URL and COUNTERSIGN_KEY. The gate keeps the key from the server.
  env: Object.fromEntries(Object.entries(process.env).map(([name, value]) => [name, value ?? ""])),
  stderr: "ignore"
})
const client = new Client({ name: "example", version: "1.0.0" })
await client.connect(transport)

const call = async (name: string, args: Record<string, unknown>) => {
  const { content } = await client.callTool(
    { name, arguments: args },
    {
      // The gate sends progress every ten seconds while an approval is pending.
      resetTimeoutOnProgress: true,
      onprogress: ({ message = "" }) => console.log(message)
    }
  )
  for (const part of content) if (part.type === "text") console.log(part.text)
}

await call("lookup", { order: "4711" })
await call("refund", { order: "4711", amount_cents: 12_900 })
await client.close()
