import { Effect, Result, Schema, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject, type NewExample } from "../../../domain/tasks/Dataset.ts"
import { KeyId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import { scan } from "../../../domain/json/StrictJson.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { findTask } from "../Tasks/rows.ts"
import { beginVersion, type DerivedVersion } from "./beginVersion.ts"
import type { TaskSchemas } from "./checkExamples.ts"
import { awaitDatasetLock } from "./datasetLock.ts"
import { redactExample } from "./redactExamples.ts"

/** Bytes of one line: as many as an input and an answer may have together in the API. */
export const MAX_LINE_BYTES = 8 * 2 ** 20

/** Maximum number of line numbers in the result's list of redacted lines. */
const MAX_NAMED_LINES = 20

/** The author of imports, which run from the command line without an API key. */
export const OPERATOR: Actor = { id: KeyId.make(`key_${"0".repeat(32)}`), name: "operator" }

/** A line is not a valid example of the task. The message contains the line number and the problem. Nothing was imported. */
export class InvalidLine extends Schema.TaggedError<InvalidLine>()("InvalidLine", {
  line: Schema.Int,
  problem: Schema.String
}) {
  override get message(): string {
    return `line ${this.line}: ${this.problem}`
  }
}

const decodeLine = Schema.decodeUnknownResult(
  Schema.fromJsonString(Schema.Struct({ input: JsonObject, answer: JsonObject }))
)

/** The faults of an example, first of its input, then of its answer. */
const findFaults = (
  { answer, input }: Pick<NewExample, "input" | "answer">,
  { answers, inputs }: TaskSchemas
) => [...inputs.check(input, "#/input"), ...answers.check(answer, "#/answer")]

/** Parses a line, or returns the problem with it. */
const parseLine = (text: string, schemas: TaskSchemas): Result.Result<NewExample, string> => {
  if (Buffer.byteLength(text) > MAX_LINE_BYTES) return Result.fail(`is longer than ${MAX_LINE_BYTES} bytes`)
  const scanned = scan(text)
  if (Result.isFailure(scanned)) return Result.fail(`${scanned.failure.pointer} ${scanned.failure.detail}`)
  const decoded = decodeLine(text)
  if (Result.isFailure(decoded)) {
    return Result.fail('expected a JSON object {"input": {…}, "answer": {…}} on one line')
  }
  const { answer, input } = decoded.success
  const [fault] = findFaults({ input, answer }, schemas)
  return fault === undefined
    ? Result.succeed({ input, answer, source_feedback_id: null, origin: "import" })
    : Result.fail(`${fault.pointer} ${fault.detail}`)
}

/** A version that was created from lines. */
export interface ImportedVersion extends DerivedVersion {
  /** How many lines protected values were removed from, and the numbers of the first of them. */
  readonly redacted: { readonly lines: number; readonly first: ReadonlyArray<number> }
}

/** The task that an import adds a dataset version to. */
export interface ImportTarget {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly now: Timestamp
  /** Returns a compiled schema of the task, by its digest. */
  readonly schemaOf: (digest: string, schema: Schema.Json) => Effect.Effect<CompiledSchema>
  /** The protected values to remove from the examples. */
  readonly known: KnownValues
}

/**
 * Creates the task's next dataset version from JSON Lines, one example per line, in the caller's transaction. Skips
 * empty lines. Imports all lines or none. Removes protected values before it stores an example. Memory is bounded by a
 * few hundred examples. Calls `progress` with the number of lines read so far, after each line.
 */
export const importLines = Effect.fnUntraced(function* <E>(
  sql: SqlClient.SqlClient,
  { known, now, org_id, schemaOf, task_id }: ImportTarget,
  lines: Stream.Stream<string, E>,
  progress: (read: number) => Effect.Effect<void>
) {
  // The transaction is idle while it waits for a slow source of lines. Its lock blocks only other changes of this dataset.
  yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
  yield* awaitDatasetLock(sql, org_id, task_id)
  // Without a lock timeout, because it would discard a long import for one row that is locked a little longer.
  yield* sql`SET LOCAL lock_timeout = 0`
  const task = yield* findTask(sql, org_id, task_id)
  const schemas: TaskSchemas = {
    inputs: yield* schemaOf(task.input_schema_digest, task.input_schema),
    answers: yield* schemaOf(task.answer_schema_digest, task.answer_schema)
  }
  const version = yield* beginVersion(sql, {
    org_id,
    task_id,
    base: task.dataset_id,
    by: OPERATOR,
    now
  }).pipe(
    // This transaction has the dataset lock, so no other version can be created in between.
    Effect.catchTag("DATASET_BASE_CHANGED", Effect.die)
  )
  let read = 0
  const redacted = { lines: 0, first: new Array<number>() }
  yield* Stream.runForEach(
    lines,
    Effect.fnUntraced(function* (text: string) {
      read++
      if (text.trim() === "") return
      const parsed = parseLine(text, schemas)
      if (Result.isFailure(parsed)) return yield* new InvalidLine({ line: read, problem: parsed.failure })
      const safe = yield* redactExample(parsed.success, known, "#")
      if (safe.count > 0) {
        const [fault] = findFaults(safe.example, schemas)
        if (fault !== undefined) {
          const problem = `${fault.pointer} ${fault.detail} without a protected value; use an example value in its place`
          return yield* new InvalidLine({ line: read, problem })
        }
        redacted.lines++
        if (redacted.first.length < MAX_NAMED_LINES) redacted.first.push(read)
      }
      yield* version.put(safe.example)
      yield* progress(read)
    })
  )
  const derived = yield* version.finish
  if (derived === undefined)
    return yield* new InvalidLine({ line: read, problem: "the file contains no examples" })
  const imported: ImportedVersion = { ...derived, redacted }
  return imported
})
