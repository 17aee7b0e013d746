import { Array as Arr, Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { ExampleId, type OrgId } from "../../../domain/Ids.ts"
import { tokenize } from "../../../domain/tasks/tokenize.ts"
import { int4Array, int8Array } from "../../store/pgArrays.ts"
import { inputDigest, isInVersion } from "./exampleRows.ts"
import { wordKey } from "./wordCounts.ts"
import type { VersionRow } from "./versionRows.ts"

/** Words of an input that are looked up: with at most 200 examples a word that stand, a look-up reads 13,000 of them at worst. */
const MAX_LOOKUP_WORDS = 64

const Nearest = Schema.Struct({ example_id: ExampleId, answer: JsonObject })

const decodeNearest = Schema.decodeUnknownEffect(Schema.Array(Nearest), { disableChecks: true })

/**
 * The example of a version that is nearest to an input: one with this very input, else the one with the largest overlap of tokens (those
 * they share, of those either has), else, where no word leads to one, the newest. The later of two that are equally near. None in
 * a version that is empty.
 *
 * Words lead to the first 200 examples of a task that have them, so work and memory are bounded on a dataset of any size. A nearer
 * example is missed only where every word that it shares with the input was had by 200 others before it.
 */
export const findNearest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  input: JsonObject
) {
  const same = yield* sql`
    SELECT example_id, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND input_digest = decode(${inputDigest(version.task_id, input)}, 'hex')
      AND ${isInVersion(sql, version.version)}
    ORDER BY example_id DESC
    LIMIT 1
  `.pipe(Effect.flatMap(decodeNearest))
  if (Arr.isReadonlyArrayNonEmpty(same)) return Option.some(same[0])
  const tokens = tokenize(input)
  const near = tokens.length === 0 ? [] : yield* overlapping(sql, org_id, version, tokens)
  if (Arr.isReadonlyArrayNonEmpty(near)) return Option.some(near[0])
  const newest = yield* sql`
    SELECT example_id, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
      AND example_id <= ${version.last_example_id}
      AND ${isInVersion(sql, version.version)}
    ORDER BY example_id DESC
    LIMIT 1
  `.pipe(Effect.flatMap(decodeNearest))
  return Arr.head(newest)
})

/**
 * By way of the index of words alone: it is the only condition of the innermost query, or the planner might walk all examples of the
 * task instead. What it finds is narrowed to this organization, task and version before anything else is done with it.
 */
const overlapping = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  tokens: ReadonlyArray<number>
) => {
  const key = wordKey(version.task_id)
  const keys = int8Array(tokens.slice(0, MAX_LOOKUP_WORDS).map(key))
  return sql`
    WITH found AS MATERIALIZED (
      SELECT org_id, task_id, example_id, first_version, until_version, tokens
      FROM dataset_examples
      WHERE rare_tokens && ${keys}
    ),
    -- Once: each use of a column of it would count anew. By a subquery, which is hashed whatever the plan: an array is searched from end to
    -- end for every word, once the store plans for any parameters.
    overlap AS MATERIALIZED (
      SELECT
        example_id,
        cardinality(tokens) AS own,
        (SELECT count(*) FROM unnest(tokens) AS token WHERE token IN (SELECT unnest(${int4Array(tokens)}::int[]))) AS shared
      FROM found
      WHERE org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND ${isInVersion(sql, version.version)}
    ),
    nearest AS MATERIALIZED (
      SELECT example_id
      FROM overlap
      ORDER BY shared::float8 / (own + ${tokens.length}::int - shared) DESC, example_id DESC
      LIMIT 1
    )
    SELECT example_id, answer
    FROM nearest
      JOIN dataset_examples USING (example_id)
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
  `.pipe(Effect.flatMap(decodeNearest))
}
