import { Effect, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import { JsonObject, type NewExample } from "../../../domain/tasks/Dataset.ts"
import { tokensToBytes } from "../../../domain/tasks/tokenize.ts"
import { ExampleId, FeedbackId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import { byteaArray, int4Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

/** The condition that a row of `dataset_examples` is part of a version of its task. */
export const isInVersion = (sql: SqlClient.SqlClient, version: number) => sql`
  first_version <= ${version}
  AND (until_version IS NULL OR until_version > ${version})
`

/**
 * The key that finds an example by its exact input: SHA-256, in hex, of the canonical JSON of the task's id and the input. The digest
 * includes the task so that it alone finds the example. With the task as a separate condition, the planner of a database without statistics
 * chooses the primary key and scans all of the task's examples.
 */
export const inputDigest = (task_id: TaskId, input: JsonObject): string =>
  createHash("sha256")
    .update(Result.getOrThrow(canonicalJson([task_id, input])))
    .digest("hex")

/** The text that represents an example in the digest of a version. */
export const digestMember = (input: JsonObject, answer: JsonObject): string =>
  Result.getOrThrow(canonicalJson([input, answer]))

/** A new example with its JSON texts and the digest of its input. */
export interface PreparedExample {
  readonly example: NewExample
  readonly input: string
  readonly answer: string
  readonly digest: string
  /** The tokens of its input: see `tokenize`. */
  readonly tokens: ReadonlyArray<number>
}

const SameInputRow = Schema.Struct({
  example_id: ExampleId,
  digest: Schema.String,
  bytes: Schema.Int,
  /** The number of the input in the dataset. */
  ordinal: Schema.Int,
  source_feedback_id: Schema.NullOr(FeedbackId),
  /** Whether the version that is being created has ended the example. */
  ended: Schema.Boolean,
  /** Whether it has inserted the example. */
  inserted: Schema.Boolean
})
export type SameInputRow = typeof SameInputRow.Type

const sameInputRows = rowsOf(SameInputRow)

/**
 * Finds the examples of the newest version that have one of these inputs. `version` is the version that is being created; the result
 * includes examples that it has already ended or inserted.
 */
export const findSameInputs = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: number,
  digests: ReadonlyArray<string>
) =>
  sameInputRows.all(sql`
    SELECT same.*
    FROM unnest(${textArray(digests)}) AS searched (digest)
      CROSS JOIN LATERAL (
        SELECT ${sameInputColumns(sql, version)}
        FROM dataset_examples
        WHERE org_id = ${org_id}
          AND input_digest = decode(searched.digest, 'hex')
          AND first_version <= ${version}
          AND (until_version IS NULL OR until_version = ${version})
        -- Each input is looked up by itself. Without statistics, as during a first import, the planner would rather read the whole table.
        OFFSET 0
      ) AS same
  `)

const sameInputColumns = (sql: SqlClient.SqlClient, version: number) => sql`
  example_id, encode(input_digest, 'hex') AS digest, bytes, ordinal, source_feedback_id,
  until_version IS NOT NULL AS ended, first_version = ${version} AS inserted
`

/** Finds the examples of the newest version with these ids. `version` is the version that is being created. */
export const findByIds = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  ids: ReadonlyArray<ExampleId>
) =>
  sameInputRows.all(sql`
    SELECT ${sameInputColumns(sql, version)}
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
      AND first_version < ${version}
      AND until_version IS NULL
  `)

const contentRows = rowsOf(Schema.Struct({ input: JsonObject, answer: JsonObject }))

/** Reads inputs and answers, in no particular order. The caller limits their total size. */
export const readContents = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  ids: ReadonlyArray<ExampleId>
) =>
  contentRows.all(sql`
    SELECT input, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
  `)

/** Ends examples: this version and later ones do not contain them. */
export const endExamples = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  ids: ReadonlyArray<ExampleId>
) =>
  ids.length === 0
    ? Effect.void
    : sql`
        UPDATE dataset_examples
        SET until_version = ${version}
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND example_id = ANY(${textArray(ids)})
      `

/** Deletes examples that this version, which is being created, has inserted. No other transaction has seen them. */
export const deleteInserted = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  ids: ReadonlyArray<ExampleId>
) =>
  ids.length === 0
    ? Effect.void
    : sql`
        DELETE FROM dataset_examples
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND example_id = ANY(${textArray(ids)})
          AND first_version = ${version}
      `

/** Inserts examples, each with the number of its input, that are part of this version and later ones. Returns the highest new id. */
export const insertExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  examples: ReadonlyArray<PreparedExample & { readonly ordinal: number }>
) {
  const ids = yield* Effect.replicateEffect(ExampleId.generate, examples.length)
  yield* sql`
    INSERT INTO dataset_examples (
      org_id, task_id, example_id, first_version, input, answer, bytes, input_digest, source_feedback_id, origin, tokens, ordinal
    )
    SELECT
      ${org_id}, ${task_id}, example_id, ${version}, input::json, answer::json, octet_length(input) + octet_length(answer),
      decode(digest, 'hex'), source_feedback_id, origin, tokens, ordinal
    FROM unnest(
      ${textArray(ids)},
      ${textArray(examples.map(({ input }) => input))},
      ${textArray(examples.map(({ answer }) => answer))},
      ${textArray(examples.map(({ digest }) => digest))},
      ${textArray(examples.map(({ example }) => example.source_feedback_id))},
      ${textArray(examples.map(({ example }) => example.origin))},
      ${byteaArray(examples.map(({ tokens }) => tokensToBytes(tokens)))},
      ${int4Array(examples.map(({ ordinal }) => ordinal))}
    ) AS example (example_id, input, answer, digest, source_feedback_id, origin, tokens, ordinal)
  `
  return ids.reduce((last, id) => (id > last ? id : last))
})
