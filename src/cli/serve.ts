import { Command } from "effect/cli"
import { logFailure } from "./failureLog.ts"
import { lazily } from "./lazily.ts"
import { endsBySignal } from "./run.ts"

const serve = lazily(async () => (await import("./serve/serve.ts")).serve)

export const serveCommand = Command.make("serve", {}, () => logFailure(endsBySignal(serve()))).pipe(
  Command.withShortDescription("Run the service"),
  Command.withDescription(
    "Run the service until SIGTERM or Ctrl-C. The first start with an empty database prints an admin key once."
  ),
  Command.withExamples([
    { command: "countersign serve", description: "Use the embedded database, at http://127.0.0.1:8080" },
    {
      command: "DATABASE_URL=postgres://… COUNTERSIGN_MASTER_KEY=… HOST=0.0.0.0 countersign serve",
      description: "Use your own PostgreSQL, reachable from other hosts"
    }
  ])
)
