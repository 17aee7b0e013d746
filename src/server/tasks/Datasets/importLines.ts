import { Effect, Option, Result, Schema, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject, type NewExample } from "../../../domain/tasks/Dataset.ts"
import { KeyId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import { scan } from "../../../domain/json/StrictJson.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { findTask } from "../Tasks/rows.ts"
import { beginVersion } from "./beginVersion.ts"
import { acquireDatasetLock } from "./datasetLock.ts"

/** The longest line that is taken, in bytes: what an input and an answer of the API may have together. */
export const MAX_LINE_BYTES = 8 * 2 ** 20

/** Whose doing an import is: it is made beside the store, without a key. */
export const OPERATOR: Actor = { id: KeyId.make(`key_${"0".repeat(32)}`), name: "operator" }

/** A line is no example of the task. The message says which line, and what is wrong with it. Nothing was imported. */
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

/** The example of a line, or what is wrong with it. */
const readLine = (
  text: string,
  { answers, inputs }: { readonly inputs: CompiledSchema; readonly answers: CompiledSchema }
): Result.Result<NewExample, string> => {
  if (Buffer.byteLength(text) > MAX_LINE_BYTES) return Result.fail(`has more than ${MAX_LINE_BYTES} bytes`)
  const scanned = scan(text)
  if (Result.isFailure(scanned)) return Result.fail(`${scanned.failure.pointer} ${scanned.failure.detail}`)
  const decoded = decodeLine(text)
  if (Result.isFailure(decoded)) {
    return Result.fail('expected a JSON object {"input": {…}, "answer": {…}} on one line')
  }
  const { answer, input } = decoded.success
  const [fault] = [...inputs.check(input, "#/input"), ...answers.check(answer, "#/answer")]
  return fault === undefined
    ? Result.succeed({ input, answer, source_feedback_id: null })
    : Result.fail(`${fault.pointer} ${fault.detail}`)
}

/** What an import is made for. */
export interface ImportTarget {
  readonly org_id: OrgId
  readonly task_id: TaskId
  readonly now: Timestamp
  /** The shapes of a task, by their digests and schemas. */
  readonly schemaOf: (digest: string, schema: Schema.Json) => Effect.Effect<CompiledSchema>
}

/**
 * Within the caller's transaction: makes the task's next version from JSON Lines, an example a line, empty lines passed over. Memory is
 * bounded by a few hundred examples. `progress` hears how many lines were read after each of them. All of it, or nothing, is imported.
 */
export const importLines = Effect.fnUntraced(function* <E>(
  sql: SqlClient.SqlClient,
  { now, org_id, schemaOf, task_id }: ImportTarget,
  lines: Stream.Stream<string, E>,
  progress: (read: number) => Effect.Effect<void>
) {
  // The lines may come from somewhere slow, and the transaction waits for them. Nobody waits for it but other changes of the dataset.
  yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
  // Nor is all that was read given up for a row that is held a little longer.
  yield* sql`SET LOCAL lock_timeout = 0`
  yield* acquireDatasetLock(sql, org_id, task_id)
  const task = yield* findTask(sql, org_id, task_id)
  const shapes = {
    inputs: yield* schemaOf(task.input_schema_digest, task.input_schema),
    answers: yield* schemaOf(task.answer_schema_digest, task.answer_schema)
  }
  const change = yield* beginVersion(sql, { org_id, task_id, base: task.dataset_id, by: OPERATOR, now }).pipe(
    // The dataset is held: no other version can have come between.
    Effect.catchTag("DATASET_BASE_CHANGED", Effect.die)
  )
  let read = 0
  yield* Stream.runForEach(
    lines,
    Effect.fnUntraced(function* (text: string) {
      read++
      if (text.trim() === "") return
      const example = readLine(text, shapes)
      if (Result.isFailure(example)) return yield* new InvalidLine({ line: read, problem: example.failure })
      yield* change.put(example.success)
      yield* progress(read)
    })
  )
  const made = yield* change.finish
  return Option.isSome(made)
    ? made.value
    : yield* new InvalidLine({ line: read, problem: "there is no example in the file" })
})
