import { Console, Effect, FiberSet, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { makeReceiver } from "./receiver.ts"
import { endsBySignal } from "./run.ts"
import { printDelivery } from "./print.ts"

const listen = Effect.fnUntraced(function* (flags: {
  readonly port: number
  readonly secret: Redacted.Redacted
}) {
  const runPrint = yield* FiberSet.makeRuntime()
  const secret = Redacted.value(flags.secret)
  const server = makeReceiver({
    secret: () => secret,
    onDelivery: (received) => void runPrint(printDelivery(received))
  })
  yield* Effect.callback<void, Error>((resume) => {
    server.once("error", (error) => resume(Effect.fail(error)))
    server.listen(flags.port, "127.0.0.1", () => resume(Effect.void))
  })
  yield* Effect.addFinalizer(() =>
    Effect.promise(async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    })
  )
  yield* Console.log(
    [
      `Listening on http://127.0.0.1:${flags.port} (Ctrl-C to stop)`,
      "A service delivers to this address only with COUNTERSIGN_EGRESS_ALLOW=127.0.0.0/8 and COUNTERSIGN_EGRESS_HTTP=true"
    ].join("\n")
  )
  return yield* Effect.never
}, Effect.scoped)

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
    secret: Flag.Redacted("secret").pipe(Flag.withDescription("Signing secret of the endpoint (whsec_…)"))
  },
  (flags) => endsBySignal(listen(flags))
).pipe(
  Command.withShortDescription("Run a local webhook receiver"),
  Command.withDescription(
    "Run a local webhook receiver that verifies deliveries and prints their headers, body and result."
  ),
  Command.withExamples([
    {
      command: "countersign listen --port 4000 --secret whsec_…",
      description: "Show the deliveries to http://127.0.0.1:4000/"
    }
  ])
)
