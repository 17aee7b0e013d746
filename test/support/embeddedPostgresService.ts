import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"

/**
 * A process that uses the embedded PostgreSQL of the directory in its first argument until it gets a signal. It prints
 * a line `ready` when the server accepts connections, or `failed` with the phrase.
 */
const dataDir = process.argv[2] ?? ""
const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

Layer.effectDiscard(Effect.andThen(EmbeddedPostgres, print("ready"))).pipe(
  Layer.provide(EmbeddedPostgres.layer({ dataDir })),
  Layer.launch,
  Effect.catchTag("EmbeddedPostgresFailed", ({ phrase }) => print(`failed ${phrase}`)),
  NodeRuntime.runMain
)
