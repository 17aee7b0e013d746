import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { BYTES_PER_TOKEN, type FewShot } from "../../../domain/tasks/Provider.ts"
import { findNearest, type NearExample } from "../Datasets/findNearest.ts"
import type { ProviderRequest } from "./ProviderRequest.ts"
import { requireVersion } from "./requireVersion.ts"

/**
 * Finds the examples for a model's prompt: the ones of the release's dataset version that are nearest to the input, nearest first, within the
 * token budget. The same input and version always get the same examples.
 */
export const findPromptExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  {
    dataset_id,
    holdOut,
    input,
    org_id
  }: Pick<ProviderRequest, "dataset_id" | "holdOut" | "input" | "org_id">,
  { examples, max_tokens }: FewShot
) {
  const none: ReadonlyArray<NearExample> = []
  if (dataset_id === null || examples === 0 || max_tokens === 0) return none
  const version = yield* requireVersion(sql, org_id, dataset_id)
  return yield* Effect.orDie(
    findNearest(sql, org_id, version, input, {
      k: examples,
      maxBytes: max_tokens * BYTES_PER_TOKEN,
      ...(holdOut === undefined ? {} : { holdOut })
    })
  )
})
