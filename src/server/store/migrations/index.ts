import type { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import firstRelease from "./0001_first_release.ts"

/** Every migration, in the order of application. Append only: a released migration is never edited. */
export const migrations: Record<string, Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>> = {
  "0001_first_release": firstRelease
}
