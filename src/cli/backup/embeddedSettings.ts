import { Effect } from "effect"
import { BackupFailed } from "../../server/store/EmbeddedPostgres.ts"
import { readSettings } from "../environment.ts"

/** The settings of the embedded database. Fails if the configured database is another one. */
export const readEmbeddedStore = Effect.flatMap(readSettings, ({ settings: { store } }) =>
  store.kind === "embedded"
    ? Effect.succeed(store)
    : Effect.fail(
        new BackupFailed({
          phrase:
            "DATABASE_URL is set: this command is for the embedded database. Use pg_dump, WAL archiving or your provider's backups (docs/backups.md)"
        })
      )
)
