import { Console, Effect } from "effect"
import { requireSameSchema } from "../../server/store/Database/schemaVersion.ts"
import { layerBootstrapStore } from "../../server/main/layerStore.ts"
import * as Migrations from "../../server/store/migrate.ts"
import { readSettings } from "../environment.ts"

/** Applies pending migrations and prints their names. */
export const migrate = Effect.fnUntraced(function* () {
  const { settings } = yield* readSettings
  const applied = yield* Effect.provide(
    // A database of a newer version needs no migration, but this version's commands do not accept it.
    Effect.tap(Migrations.migrate, () => requireSameSchema),
    layerBootstrapStore(settings.store)
  )
  yield* Effect.forEach(applied, (name) => Console.log(`Applied ${name}`), { discard: true })
  yield* Console.log(
    applied.length === 0 ? "No migrations to apply; the database is up to date" : "The database is up to date"
  )
})
