import { Console, Effect, Option, type Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { DemoFailed } from "./demo/DemoFailed.ts"
import { playDemo } from "./demo/playDemo.ts"
import { startReceiver } from "./demo/receiverProcess.ts"
import { type DemoService, startService } from "./demo/service.ts"

/** The service named by the flags, else one of the demo's own. */
const serviceOf = (
  flags: { readonly url: Option.Option<string>; readonly key: Option.Option<Redacted.Redacted> },
  receiverPort: number
) => {
  if (Option.isNone(flags.url)) return startService(receiverPort)
  if (Option.isNone(flags.key)) {
    return Effect.fail(
      new DemoFailed({ message: "--url needs --key: an admin key of the service that runs there" })
    )
  }
  const service: DemoService = { url: flags.url.value, key: flags.key.value, about: "running already" }
  return Effect.succeed(service)
}

export const demoCommand = Command.make(
  "demo",
  {
    url: Flag.String("url").pipe(
      Flag.withDescription("A running service on this machine; default: one is started for the demo"),
      Flag.optional
    ),
    key: Flag.Redacted("key").pipe(Flag.withDescription("An admin key of that service"), Flag.optional)
  },
  Effect.fnUntraced(function* (flags) {
    yield* Console.log("Starting a receiver, and a service unless one is named …")
    const receiver = yield* startReceiver
    const service = yield* serviceOf(flags, receiver.port)
    yield* playDemo(service, receiver)
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Play one approval from end to end, with a real receiver: an agent asks, a person approves, both events arrive signed and are verified. Exit code 0 only if all of it held."
  ),
  Command.withExamples([
    { command: "countersign demo", description: "On a service and a store of its own" },
    {
      command: "countersign demo --url http://127.0.0.1:8080 --key csk_…",
      description: "On a running service that may send to loopback"
    }
  ])
)
