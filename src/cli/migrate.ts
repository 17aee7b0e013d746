import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { layerExistingStore } from "../server/main/layerStore.ts"
import { readSettings } from "./environment.ts"
import * as Migrations from "../server/store/migrate.ts"

const migrate = Effect.gen(function* () {
  const { settings } = yield* readSettings
  const applied = yield* Effect.provide(Migrations.migrate, layerExistingStore(settings.store))
  yield* Effect.forEach(applied, (name) => Console.log(`Applied ${name}`), { discard: true })
  yield* Console.log(
    applied.length === 0 ? "No migrations to apply; the database is up to date" : "The database is up to date"
  )
})

export const migrateCommand = Command.make("migrate", {}, () => migrate).pipe(
  Command.withShortDescription("Apply pending database migrations and exit"),
  Command.withDescription(
    "Apply pending database migrations and exit. `serve` applies them too; use this command to migrate before a rollout."
  ),
  Command.withExamples([{ command: "countersign migrate", description: "Migrate the configured database" }])
)
