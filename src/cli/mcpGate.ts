import { Argument, Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { pathFlag } from "./path.ts"
import { endsBySignal } from "./run.ts"
import { secretFlags } from "./secretFlag.ts"

/** Where the gate finds its API key. */
export const gateKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key of the preset runtime"
}

/** Where the gate finds the token for a server that it reaches by HTTP. */
export const serverToken = {
  flag: "server-token",
  variable: "MCP_SERVER_TOKEN",
  what: "Bearer token for the MCP server of --url"
}

const key = secretFlags(gateKey)
const token = secretFlags(serverToken)

const handler = lazily(async () => (await import("./mcpGate/runGate.ts")).runGate)

export const mcpGateCommand = Command.make(
  "mcp-gate",
  {
    service: Flag.String("service").pipe(
      Flag.withDescription(
        "Base URL of Countersign; default: the variable COUNTERSIGN_URL, or http://127.0.0.1:8080"
      ),
      Flag.optional
    ),
    key: key.text,
    keyFile: key.file,
    url: Flag.String("url").pipe(
      Flag.withDescription("MCP server to reach by streamable HTTP, in place of a command"),
      Flag.optional
    ),
    token: token.text,
    tokenFile: token.file,
    name: Flag.String("name").pipe(
      Flag.withDescription("Name of the MCP server; default: its command or host"),
      Flag.optional
    ),
    prefix: Flag.String("prefix").pipe(
      Flag.withDescription("Put before the names of tools that rules see, such as github.; default: nothing"),
      Flag.withDefault("")
    ),
    actionClass: Flag.KeyValuePair("action-class").pipe(
      Flag.withDescription("Action class of a tool, as TOOL=CLASS, in place of its annotations. Repeatable"),
      Flag.withDefault({})
    ),
    session: Flag.String("session").pipe(
      Flag.withDescription("Agent session (ses_…) that the calls belong to; default: one of the gate's own"),
      Flag.optional
    ),
    state: pathFlag("state", "directory").pipe(
      Flag.withDescription(
        "Directory of the gate's files; default: countersign/mcp-gate in the user's data directory"
      ),
      Flag.optional
    ),
    acceptChanges: Flag.Boolean("accept-changes").pipe(
      Flag.withDescription("Accept changed definitions of tools without asking a person"),
      Flag.withDefault(false)
    ),
    consoleUrl: Flag.String("console-url").pipe(
      Flag.withDescription(
        "Base URL of the console in links to approvals; default: that of Countersign and /console"
      ),
      Flag.optional
    ),
    command: Argument.String("command").pipe(
      Argument.withDescription(
        "Command that starts an MCP server on its standard input and output, with its arguments"
      ),
      Argument.variadic()
    )
  },
  (flags) => endsBySignal(handler(flags))
).pipe(
  Command.withShortDescription("Govern the tools of an MCP server"),
  Command.withDescription(
    "Run an MCP server behind a gate, for a client that starts the gate in place of the server. Each call of a tool is a governed step: rules " +
      "allow or reject it, or it waits for a person. The rest of the protocol is passed on. A changed definition of a tool is used once a person approved it."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_KEY=csk_… countersign mcp-gate -- npx -y some-mcp-server",
      description: "Govern a server that runs as a child process"
    },
    {
      command: "COUNTERSIGN_KEY=csk_… countersign mcp-gate --url https://mcp.example/mcp",
      description: "Govern a server that is reached by HTTP"
    }
  ])
)
