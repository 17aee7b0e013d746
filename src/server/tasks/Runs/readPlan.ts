import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { notFound } from "../../../api/notFound.ts"
import { InvalidInput, NotFound } from "../../../api/Problems.ts"
import type { NewRun } from "../../../api/Tasks.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { CompiledSchemas } from "../CompiledSchemas.ts"
import { readSchemas } from "../Tasks/rows.ts"
import { lockSchemas, readRunPlan, type RunPlan } from "./runPlan.ts"

/** Reads the plans of runs, and validates their inputs and answers against the task's schemas. */
export const makePlanReader = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  schemas: CompiledSchemas["Service"]
) => {
  const atomically = atomic(sql)

  const schemaOf = (
    org_id: OrgId,
    task_id: TaskId,
    digest: string,
    column: "input_schema" | "answer_schema"
  ) =>
    schemas.get(
      digest,
      Effect.map(readSchemas(sql, org_id, task_id), (stored) => stored[column])
    )

  /** Validates the input, and the answer if the caller supplies it. Returns the compiled answer schema. */
  const validate = Effect.fnUntraced(function* (
    org_id: OrgId,
    task_id: TaskId,
    digests: Pick<RunPlan, "input_schema_digest" | "answer_schema_digest">,
    { answer, input }: NewRun
  ) {
    const inputs = yield* schemaOf(org_id, task_id, digests.input_schema_digest, "input_schema")
    const answers = yield* schemaOf(org_id, task_id, digests.answer_schema_digest, "answer_schema")
    yield* nextTurn
    yield* check(inputs, input, "#/input")
    yield* nextTurn
    if (answer !== undefined) yield* check(answers, answer, "#/answer")
    return answers
  })

  /** Reads the plan of a run and validates the request. From then on the task's schemas cannot change. */
  const readPlan = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, request: NewRun) {
    const session_id = request.session_id ?? null
    // The answers that clients log are not the canary's.
    const canary_key =
      request.answer === undefined ? (request.canary_key ?? session_id ?? randomUUID()) : null
    for (;;) {
      const task = yield* Effect.orDie(readRunPlan(sql, org_id, task_id, session_id, canary_key))
      if (task === undefined) return yield* notFound("task")
      if (task.is_reviewer) return yield* reviewerNotRun
      if (!task.session_exists) return yield* notFound("session", "#/session_id")
      const answers = yield* validate(org_id, task_id, task, request)
      if (task.schemas_locked) return { task, answers }
      // The first run locks the schemas. If they have just changed, the input is validated again with the new ones.
      if (yield* atomically(lockSchemas(sql, org_id, task_id, task, yield* clock.now))) {
        return { task, answers }
      }
    }
  })

  return { readPlan, validate }
}

/** An agent could try its steps on the model that decides them, without a trace and beyond its daily limits. */
const reviewerNotRun = Effect.fail(
  new NotFound({
    detail:
      "A reviewer model's task cannot be run: only this service asks it, about steps. Try a change of it in a comparison or the playground."
  })
)

const check = (schema: CompiledSchema, value: JsonObject, at: string): Effect.Effect<void, InvalidInput> => {
  const errors = redactFaults(schema.check(value, at))
  const part = at === "#/input" ? "input" : "answer"
  return errors.length > 0
    ? Effect.fail(
        new InvalidInput({
          detail: `The ${part} does not match the task's ${part} schema: ${describeFirst(errors)}`,
          errors
        })
      )
    : Effect.void
}
