import { Console, Effect, Option } from "effect"
import { demoKey } from "../demo.ts"
import { findSecret, type GivenSecret } from "../secretFlag.ts"
import { readServiceKey, readServiceUrl } from "../serviceClient.ts"
import { DemoFailed } from "./DemoFailed.ts"
import { playDemo } from "./playDemo.ts"
import { startReceiver } from "./receiverProcess.ts"
import { allowReceiver, type DemoService, startService } from "./service.ts"

interface DemoFlags extends GivenSecret {
  readonly url: Option.Option<string>
}

/** Returns the service named by the flags, or starts one for the demo. */
const resolveService = Effect.fnUntraced(function* (flags: DemoFlags, receiverPort: number) {
  if (Option.isNone(flags.url)) return yield* startService(allowReceiver(receiverPort))
  const url = yield* readServiceUrl(flags.url.value)
  const key = yield* findSecret(demoKey, flags)
  if (Option.isNone(key)) {
    return yield* new DemoFailed({
      message: "--url requires an admin key of that service: set COUNTERSIGN_ADMIN_KEY, or use --key-file"
    })
  }
  const service: DemoService = { url, key: yield* readServiceKey(key.value), about: "already running" }
  return service
})

/** Plays the demo against the service that the flags name, or against one of its own. */
export const demo = Effect.fnUntraced(function* (flags: DemoFlags) {
  yield* Console.log(
    Option.isNone(flags.url) ? "Starting a service and a webhook receiver …" : "Starting a webhook receiver …"
  )
  const receiver = yield* startReceiver
  const service = yield* resolveService(flags, receiver.port)
  yield* playDemo(service, receiver)
}, Effect.scoped)
