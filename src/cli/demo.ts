import { Console, Effect, Option, type Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { DemoFailed } from "./demo/DemoFailed.ts"
import { playDemo } from "./demo/playDemo.ts"
import { startReceiver } from "./demo/receiverProcess.ts"
import { type DemoService, startService } from "./demo/service.ts"

/** Returns the service named by the flags, or starts one for the demo. */
const resolveService = (
  flags: { readonly url: Option.Option<string>; readonly key: Option.Option<Redacted.Redacted> },
  receiverPort: number
) => {
  if (Option.isNone(flags.url)) return startService(receiverPort)
  if (Option.isNone(flags.key)) {
    return Effect.fail(new DemoFailed({ message: "--url requires --key: an admin key of that service" }))
  }
  const service: DemoService = { url: flags.url.value, key: flags.key.value, about: "already running" }
  return Effect.succeed(service)
}

export const demoCommand = Command.make(
  "demo",
  {
    url: Flag.String("url").pipe(
      Flag.withDescription("URL of a running service on this machine; default: start one for the demo"),
      Flag.optional
    ),
    key: Flag.Redacted("key").pipe(Flag.withDescription("Admin key of that service"), Flag.optional)
  },
  Effect.fnUntraced(function* (flags) {
    yield* Console.log(
      Option.isNone(flags.url)
        ? "Starting a service and a webhook receiver …"
        : "Starting a webhook receiver …"
    )
    const receiver = yield* startReceiver
    const service = yield* resolveService(flags, receiver.port)
    yield* playDemo(service, receiver)
  }, Effect.scoped)
).pipe(
  Command.withShortDescription("Run one approval end to end"),
  Command.withDescription(
    "Run one approval end to end with a real receiver: an agent requests a step, a reviewer approves it, and both " +
      "webhooks arrive with valid signatures. Exits with code 0 only if everything succeeded."
  ),
  Command.withExamples([
    { command: "countersign demo", description: "Use a temporary service and database" },
    {
      command: "countersign demo --url http://127.0.0.1:8080 --key csk_…",
      description: "Use a running service that may send to loopback"
    }
  ])
)
