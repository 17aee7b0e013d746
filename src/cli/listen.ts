import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { endsBySignal } from "./run.ts"
import { secretFlags } from "./secretFlag.ts"

/** Where `listen` finds the signing secret. */
export const listenSecret = {
  flag: "secret",
  variable: "WEBHOOK_SECRET",
  what: "Signing secret of the endpoint (whsec_…)"
}

const listen = lazily(async () => (await import("./listen/listen.ts")).listen)

export const listenCommand = Command.make(
  "listen",
  {
    port: Flag.Int("port").pipe(
      Flag.withDescription("Port on 127.0.0.1; default: 4000"),
      Flag.filter(
        (port) => port > 0 && port < 65_536,
        () => "a port from 1 to 65535"
      ),
      Flag.withDefault(4000)
    ),
    ...secretFlags(listenSecret)
  },
  (flags) => endsBySignal(listen(flags))
).pipe(
  Command.withShortDescription("Run a local webhook receiver"),
  Command.withDescription(
    "Run a local webhook receiver that verifies deliveries and prints their headers, body and result."
  ),
  Command.withExamples([
    {
      command: "WEBHOOK_SECRET=whsec_… countersign listen --port 4000",
      description: "Show the deliveries to http://127.0.0.1:4000/"
    }
  ])
)
