import { Effect, Redacted, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { rowsOf } from "../../store/rows.ts"
import type { SecretBox } from "../SecretBox.ts"
import { placeOf, sealedColumns } from "../SecretBox/sealedColumns.ts"

const SealedValueRow = Schema.Struct({
  /** The row's key, without its organization. */
  key: Schema.fromJsonString(Schema.Array(Schema.String)),
  value: Schema.Uint8Array
})

const sealedValues = rowsOf(SealedValueRow)

/** Reads and unseals the organization's credentials, from every sealed column that contains credentials. */
export const readSecrets = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId
) {
  const secrets: Array<Redacted.Redacted> = []
  for (const sealed of sealedColumns) {
    if (sealed.credentials === undefined) continue
    const { newest, parse } = sealed.credentials
    const column = sql(sealed.column)
    const rows = yield* sealedValues.all(sql`
      SELECT json_build_array(${sql.literal(sealed.key.join(", "))})::text AS key, ${column} AS value
      FROM ${sql(sealed.table)}
      WHERE org_id = ${org_id}
        AND ${column} IS NOT NULL
      ${newest === undefined ? sql.literal("") : sql`ORDER BY ${sql(newest.by)} DESC LIMIT ${newest.limit}`}
    `)
    for (const { key, value } of rows) {
      const plaintext = Redacted.value(yield* box.unseal(placeOf(sealed, org_id, key), value))
      secrets.push(...parse(plaintext).map((secret) => Redacted.make(secret)))
    }
  }
  return secrets
})
