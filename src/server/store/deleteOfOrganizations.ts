import { Effect, Exit } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { type BatchRun, deleteInBatches } from "../concurrency/deleteInBatches.ts"
import { isCluster } from "./Cluster.ts"

/** Organizations that one statement reads. */
const MAX_ORGANIZATIONS = 1_000

/**
 * `deleteInBatches` over all organizations. PostgreSQL deletes for all of them with each statement: `deleteBatch` gets no organization. On a
 * cluster each organization's node deletes for itself: one that fails does not stop the others. Fails at the end with the first failure.
 */
export const deleteOfOrganizations = Effect.fnUntraced(function* <E, R>(
  sql: SqlClient.SqlClient,
  deleteBatch: (org_id: OrgId | undefined) => Effect.Effect<number, E, R>,
  limits: { readonly rows: number; readonly steps: number }
): Effect.fn.Return<BatchRun, E | SqlError.SqlError, R> {
  if (!(yield* isCluster(sql))) return yield* deleteInBatches(deleteBatch(undefined), limits)
  let removed = 0
  let more = false
  let failure: Exit.Exit<never, E> | undefined
  for (let after = ""; ;) {
    const organizations = yield* sql<{ readonly org_id: OrgId }>`
      SELECT org_id
      FROM organizations
      WHERE org_id > ${after}
      ORDER BY org_id
      LIMIT ${MAX_ORGANIZATIONS}
    `
    for (const { org_id } of organizations) {
      const run = yield* Effect.exit(deleteInBatches(deleteBatch(org_id), limits))
      if (Exit.isFailure(run)) {
        failure ??= Exit.failCause(run.cause)
        continue
      }
      removed += run.value.removed
      more ||= run.value.more
    }
    const last = organizations.at(-1)
    if (last === undefined || organizations.length < MAX_ORGANIZATIONS) break
    after = last.org_id
  }
  return failure === undefined ? { removed, more } : yield* failure
})
