import { Cause, Deferred, Effect, Queue, Schema } from "effect"
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { ReceivedDelivery } from "../receiver.ts"
import { DemoFailed } from "./DemoFailed.ts"

/** Beside this file in the sources, beside the bundle in the package. */
const program = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./receiver.ts" : "./demo-receiver.js", import.meta.url)
)

const FromReceiver = Schema.Union([
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
const decode = Schema.decodeUnknownSync(FromReceiver)

/** A receiver that runs as a process of its own, until the scope ends. */
export interface ReceiverProcess {
  readonly port: number
  readonly pid: number | undefined
  /** What it got, in the order it came; fails when the process ended. */
  readonly deliveries: Queue.Dequeue<ReceivedDelivery, DemoFailed>
  /** Tells it the secret to verify with; done when it knows. */
  readonly useSecret: (secret: string) => Effect.Effect<void, DemoFailed>
}

/** Deliveries kept until they are looked at: far more than a demo has. */
const MAX_DELIVERIES = 1_000

/** Longest wait for the process to answer. */
const PATIENCE = "10 seconds"

/** Starts the receiver; done when it listens on a free port of loopback. */
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
    const said = decode(message)
    if (said.kind === "received") Queue.offerUnsafe(deliveries, said.received)
    else Deferred.doneUnsafe(ready, Effect.succeed(said.port))
  })
  const ended = (why: string) => {
    const failure = new DemoFailed({ message: `the receiver's process ended: ${why}` })
    Deferred.doneUnsafe(ready, Effect.fail(failure))
    Queue.failCauseUnsafe(deliveries, Cause.fail(failure))
  }
  child.on("error", (error) => ended(error.message))
  child.on("exit", (code, signal) => ended(signal ?? `exit code ${code}`))

  const answered = Effect.suspend(() => Deferred.await(ready)).pipe(
    Effect.timeoutOrElse({
      duration: PATIENCE,
      orElse: () => Effect.fail(new DemoFailed({ message: "the receiver's process does not answer" }))
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
