import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { DatasetId, OrgId } from "../../../domain/Ids.ts"
import { noUsage } from "../../../domain/tasks/Provider.ts"
import { findVersion } from "../Datasets/versionRows.ts"
import { NoAnswer } from "./ProviderRequest.ts"

/** Reads a release's dataset version. It, or its task, may have been deleted since the release was read. */
export const requireVersion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: DatasetId
) {
  const version = yield* Effect.orDie(findVersion(sql, org_id, id))
  return (
    version ??
    (yield* new NoAnswer({
      reason: "no_example",
      detail: "The release's dataset version was deleted.",
      usage: noUsage,
      calls: [],
      examples: []
    }))
  )
})
