import { Console, Effect, FiberSet, Option, Redacted } from "effect"
import { listenSecret } from "../listen.ts"
import { findSecret, type GivenSecret, SecretMissing } from "../secretFlag.ts"
import { makeReceiver } from "../receiver.ts"
import { printDelivery } from "../print.ts"

/** Runs the receiver until it is interrupted. */
export const listen = Effect.fnUntraced(function* (flags: GivenSecret & { readonly port: number }) {
  const found = yield* findSecret(listenSecret, flags)
  if (Option.isNone(found)) {
    return yield* new SecretMissing({
      message: "the signing secret of the endpoint is missing: set WEBHOOK_SECRET, or use --secret-file"
    })
  }
  const runPrint = yield* FiberSet.makeRuntime()
  const secret = Redacted.value(found.value)
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
