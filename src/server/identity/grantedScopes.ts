import type { SqlClient } from "effect/sql"
import { Preset, presetScopes } from "../../domain/identity/Scope.ts"

/** SQL of the scopes of a key as `text[]`, for statements over `api_keys`: its own scopes, or else the scopes of its preset. */
export const grantedScopes = (sql: SqlClient.SqlClient) => sql.literal(GRANTED_SCOPES)

const GRANTED_SCOPES = `coalesce(api_keys.scopes, CASE api_keys.preset ${Preset.literals
  .map((preset) => `WHEN '${preset}' THEN '{${presetScopes(preset).join(",")}}'::text[]`)
  .join(" ")} END)`
