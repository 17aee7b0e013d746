import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ints } from "../Delivery/Columns.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"
import { hash } from "../../domain/Tokens.ts"

/**
 * The most examples of a task that one token leads to. A token that more have tells little, and its list would grow with the
 * dataset; with this limit the nearest example is looked for among a bounded number.
 */
export const EXAMPLES_PER_TOKEN = 500

const decodeCounts = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ token: Schema.Int, examples: Schema.Int }))
)

/** A token of one task, as the index of all examples holds it: the task's own 32 bits, then the token's. */
export const tokenKey = (task_id: TaskId): ((token: number) => bigint) => {
  const task = BigInt(hash(task_id)) << 32n
  return (token) => task | BigInt(token >>> 0)
}

/**
 * Which of their tokens a few more examples of a task are found by, in the order of the examples: those that fewer than
 * `EXAMPLES_PER_TOKEN` examples are found by already. The caller holds the task's row, so counts are read and written without a race.
 */
export const takeTelling = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  examples: ReadonlyArray<ReadonlyArray<number>>
) {
  const counts = new Map<number, number>()
  for (const tokens of examples) for (const token of tokens) counts.set(token, 0)
  const known = yield* sql`
    SELECT token, examples
    FROM dataset_tokens
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND token = ANY(${ints([...counts.keys()])})
  `.pipe(Effect.flatMap(decodeCounts))
  for (const { examples, token } of known) counts.set(token, examples)
  const changed = new Set<number>()
  const telling = examples.map((tokens) =>
    tokens.filter((token) => {
      const count = counts.get(token) ?? 0
      if (count >= EXAMPLES_PER_TOKEN) return false
      counts.set(token, count + 1)
      changed.add(token)
      return true
    })
  )
  if (changed.size > 0) {
    const tokens = [...changed]
    yield* sql`
      INSERT INTO dataset_tokens (org_id, task_id, token, examples)
      SELECT ${org_id}, ${task_id}, token, examples
      FROM unnest(${ints(tokens)}, ${ints(tokens.map((token) => counts.get(token) ?? 0))}) AS counted (token, examples)
      ON CONFLICT (org_id, task_id, token) DO UPDATE
      SET examples = excluded.examples
    `
  }
  return telling
})
