/**
 * Writes `schema.sql`: what all migrations together make, for review. With `--check` fails where it differs. It runs on an
 * embedded PostgreSQL of its own, so that the text is the same wherever it is written.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Data, Effect } from "effect"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import * as Database from "../src/server/store/Database.ts"
import { EmbeddedPostgres } from "../src/server/store/EmbeddedPostgres.ts"
import { dump } from "./schema/dump.ts"
import { migrate } from "../src/server/store/Database/migrate.ts"

const file = new URL("../schema.sql", import.meta.url)
const heading = "-- What the migrations make. Written by: node scripts/schema.ts\n\n"

class SchemaDiffers extends Data.TaggedError("SchemaDiffers")<{ readonly message: string }> {}

const dataDir = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-schema-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)

const migrated = Effect.gen(function* () {
  const { url } = yield* EmbeddedPostgres
  return yield* Effect.andThen(migrate, dump).pipe(Effect.provide(Database.layer({ url, maxConnections: 1 })))
})

const program = Effect.gen(function* () {
  const now = yield* Effect.provide(
    migrated,
    EmbeddedPostgres.layer({ dataDir: yield* dataDir, sync: false })
  )
  const text = heading + now
  if (!process.argv.includes("--check")) {
    yield* Effect.promise(() => writeFile(file, text))
    return yield* Console.log("schema.sql written")
  }
  const committed = yield* Effect.promise(() => readFile(file, "utf8").catch(() => ""))
  if (committed === text) return yield* Console.log("schema.sql is what the migrations make")
  const [was, is] = [committed.split("\n"), text.split("\n")]
  const at = is.findIndex((line, index) => line !== was[index])
  return yield* new SchemaDiffers({
    message: `schema.sql differs from what the migrations make at line ${at + 1} (${is[at]?.trim()}); run: node scripts/schema.ts`
  })
}).pipe(
  Effect.scoped,
  Effect.tapError((error) => Console.error(error.message))
)

NodeRuntime.runMain(program, { disableErrorReporting: true })
