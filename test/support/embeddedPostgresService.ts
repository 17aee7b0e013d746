import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"

/**
 * A process that uses the embedded store of the directory in its first argument until it is told to stop: `ready` on a
 * line when the server answers, or `failed` and the phrase.
 */
const dataDir = process.argv[2] ?? ""
const say = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

Layer.effectDiscard(Effect.andThen(EmbeddedPostgres, say("ready"))).pipe(
  Layer.provide(EmbeddedPostgres.layer({ dataDir })),
  Layer.launch,
  Effect.catchTag("EmbeddedPostgresFailed", ({ phrase }) => say(`failed ${phrase}`)),
  NodeRuntime.runMain
)
