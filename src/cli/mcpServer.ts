import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { endsBySignal } from "./run.ts"
import { secretFlags } from "./secretFlag.ts"
import { serviceUrlFlag } from "./serviceUrl.ts"

/** Where the server finds its API key. */
export const serverKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key with the scopes of the tools that are used, such as approvals.read"
}

const handler = lazily(async () => (await import("./mcpServer/runServer.ts")).runServer)

export const mcpServerCommand = Command.make(
  "mcp",
  {
    url: serviceUrlFlag,
    ...secretFlags(serverKey),
    allowWrite: Flag.Boolean("allow-write").pipe(
      Flag.withDescription(
        "Add tools that send messages about approvals, replay deliveries, review feedback and replace the approval rules"
      ),
      Flag.withDefault(false)
    ),
    allowDecide: Flag.Boolean("allow-decide").pipe(
      Flag.withDescription(
        "Add the tool that decides approvals: a model then decides in the name of the key"
      ),
      Flag.withDefault(false)
    )
  },
  (flags) => endsBySignal(handler(flags))
).pipe(
  Command.withShortDescription("Run an MCP server that operates Countersign"),
  Command.withDescription(
    "Run an MCP server on standard input and output, with which an assistant operates a running service: approvals that wait, deliveries, " +
      "feedback, rules and tests of them. It only reads, unless more is allowed. The API key's scopes are the limit in any case."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_KEY=csk_… countersign mcp",
      description: "Only read"
    }
  ])
)
