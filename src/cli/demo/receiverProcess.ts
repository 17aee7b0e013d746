import { Cause, Deferred, Effect, Queue, Schema } from "effect"
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { ReceivedDelivery } from "../receiver.ts"
import { DemoFailed } from "./DemoFailed.ts"

/** In the sources next to this file, in the package next to the bundle. */
const program = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./receiver.ts" : "./demo-receiver.js", import.meta.url)
)

const ReceiverMessage = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("ready"), port: Schema.Int }),
  Schema.Struct({
    kind: Schema.Literal("received"),
    received: Schema.Struct({
      method: Schema.String,
      path: Schema.String,
      headers: Schema.Record(Schema.String, Schema.String),
      body: Schema.String,
      verification: Schema.Union([
        Schema.Struct({ ok: Schema.Literal(true), event_id: Schema.String, type: Schema.String }),
        Schema.Struct({ ok: Schema.Literal(false), reason: Schema.String, message: Schema.String })
      ])
    })
  })
])
const decode = Schema.decodeUnknownSync(ReceiverMessage)

/** A receiver in its own process, which ends with the scope. */
export interface ReceiverProcess {
  readonly port: number
  readonly pid: number | undefined
  /** Received deliveries in order; fails when the process ends. */
  readonly deliveries: Queue.Dequeue<ReceivedDelivery, DemoFailed>
  /** Sends the signing secret; completes when the receiver uses it. */
  readonly useSecret: (secret: string) => Effect.Effect<void, DemoFailed>
}

/** Maximum number of buffered deliveries: far more than a demo produces. */
const MAX_DELIVERIES = 1_000

/** Maximum wait for a response of the process. */
const STARTUP_TIMEOUT = "10 seconds"

/** Starts the receiver; completes when it listens on a free loopback port. */
export const startReceiver = Effect.gen(function* () {
  const deliveries = yield* Queue.bounded<ReceivedDelivery, DemoFailed>(MAX_DELIVERIES)
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      fork(program, { stdio: ["ignore", "ignore", "inherit", "ipc"], env: { PATH: process.env["PATH"] } })
    ),
    (child) =>
      Effect.callback<void>((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
        child.once("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
  )
  let ready = yield* Deferred.make<number, DemoFailed>()
  child.on("message", (message) => {
    const received = decode(message)
    if (received.kind === "received") Queue.offerUnsafe(deliveries, received.received)
    else Deferred.doneUnsafe(ready, Effect.succeed(received.port))
  })
  const fail = (why: string) => {
    const failure = new DemoFailed({ message: `the receiver process exited: ${why}` })
    Deferred.doneUnsafe(ready, Effect.fail(failure))
    Queue.failCauseUnsafe(deliveries, Cause.fail(failure))
  }
  child.on("error", (error) => fail(error.message))
  child.on("exit", (code, signal) => fail(signal ?? `exit code ${code}`))

  const answered = Effect.suspend(() => Deferred.await(ready)).pipe(
    Effect.timeoutOrElse({
      duration: STARTUP_TIMEOUT,
      orElse: () => Effect.fail(new DemoFailed({ message: "the receiver process does not respond" }))
    })
  )
  const port = yield* answered
  const receiver: ReceiverProcess = {
    port,
    pid: child.pid,
    deliveries,
    useSecret: Effect.fnUntraced(function* (secret: string) {
      ready = yield* Deferred.make<number, DemoFailed>()
      child.send({ secret })
      yield* answered
    })
  }
  return receiver
})
