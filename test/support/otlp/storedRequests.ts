import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { gunzipSync } from "node:zlib"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { payloadPlace } from "../../../src/server/telemetry/Spans/storeBatches.ts"

/** The decrypted requests that wait for delivery or can be replayed, without those with ids that a test made up. */
export const storedRequests = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const batches = yield* sql<{
    readonly org_id: string
    readonly batch_id: string
    readonly payload: Uint8Array
  }>`
    SELECT org_id, batch_id, payload FROM telemetry_batches WHERE length(batch_id) > 10 ORDER BY batch_id
  `
  const texts = yield* Effect.forEach(batches, ({ batch_id, org_id, payload }) =>
    Effect.map(box.unsealBytes(payloadPlace(org_id, batch_id), payload), (bytes) =>
      gunzipSync(bytes).toString("utf8")
    )
  )
  return texts.join("\n")
})
