import { Console, Effect } from "effect"
import { layerExistingStore } from "../../server/main/layerStore.ts"
import * as Migrations from "../../server/store/migrate.ts"
import { readSettings } from "../environment.ts"

/** Applies pending migrations and prints their names. */
export const migrate = Effect.fnUntraced(function* () {
  const { settings } = yield* readSettings
  const applied = yield* Effect.provide(Migrations.migrate, layerExistingStore(settings.store))
  yield* Effect.forEach(applied, (name) => Console.log(`Applied ${name}`), { discard: true })
  yield* Console.log(
    applied.length === 0 ? "No migrations to apply; the database is up to date" : "The database is up to date"
  )
})
