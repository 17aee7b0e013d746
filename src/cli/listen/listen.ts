import { Console, Effect, FiberSet, Option, Redacted, Schema } from "effect"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { listenSecret } from "../listen.ts"
import { findSecret, type GivenSecret, SecretMissing } from "../secretFlag.ts"
import { makeReceiver } from "../receiver.ts"
import { printDelivery } from "../print.ts"

/** The receiver cannot listen on its port. */
class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", { message: Schema.String }) {}

/** The failure to listen, for the operator. */
const describeListen = (port: number, error: Error): Error => {
  const code = errnoCode(error)
  if (code !== "EADDRINUSE" && code !== "EACCES") return error
  return new ListenFailed({
    message:
      code === "EADDRINUSE"
        ? `Port ${port} is in use: set another --port, or stop the process that uses it.`
        : `This account may not listen on port ${port}: set a --port from 1024 on.`
  })
}

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
    server.once("error", (error) => resume(Effect.fail(describeListen(flags.port, error))))
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
