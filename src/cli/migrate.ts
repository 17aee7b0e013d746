import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { layerExistingStore } from "../server/main/layerStore.ts"
import { readSettings } from "./environment.ts"
import * as Migrations from "../server/store/Database/migrate.ts"

const migrate = Effect.gen(function* () {
  const { settings } = yield* readSettings
  const applied = yield* Effect.provide(Migrations.migrate, layerExistingStore(settings.store))
  yield* Effect.forEach(applied, (name) => Console.log(`applied ${name}`), { discard: true })
  yield* Console.log(applied.length === 0 ? "The store has every migration" : "The store is up to date")
})

export const migrateCommand = Command.make("migrate", {}, () => migrate).pipe(
  Command.withDescription(
    "Apply the migrations that the store lacks, and stop. `serve` does so too; this is for those who migrate ahead of a roll-out."
  ),
  Command.withExamples([
    { command: "countersign migrate", description: "Migrate the store of this environment" }
  ])
)
