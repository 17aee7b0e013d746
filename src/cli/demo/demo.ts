import { Console, Effect, Option, type Redacted } from "effect"
import { DemoFailed } from "./DemoFailed.ts"
import { playDemo } from "./playDemo.ts"
import { startReceiver } from "./receiverProcess.ts"
import { type DemoService, startService } from "./service.ts"

interface DemoFlags {
  readonly url: Option.Option<string>
  readonly key: Option.Option<Redacted.Redacted>
}

/** Returns the service named by the flags, or starts one for the demo. */
const resolveService = (flags: DemoFlags, receiverPort: number) => {
  if (Option.isNone(flags.url)) return startService(receiverPort)
  if (Option.isNone(flags.key)) {
    return Effect.fail(new DemoFailed({ message: "--url requires --key: an admin key of that service" }))
  }
  const service: DemoService = { url: flags.url.value, key: flags.key.value, about: "already running" }
  return Effect.succeed(service)
}

/** Plays the demo against the service that the flags name, or against one of its own. */
export const demo = Effect.fnUntraced(function* (flags: DemoFlags) {
  yield* Console.log(
    Option.isNone(flags.url) ? "Starting a service and a webhook receiver …" : "Starting a webhook receiver …"
  )
  const receiver = yield* startReceiver
  const service = yield* resolveService(flags, receiver.port)
  yield* playDemo(service, receiver)
}, Effect.scoped)
