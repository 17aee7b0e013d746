import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { InvalidInput, LimitReached, NotFound } from "../../api/Problems.ts"
import type { ImportedRun, RunImportResult } from "../../api/Runs.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { Audit } from "../identity/Audit.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { checkRuns } from "./RunImports/checkRuns.ts"
import {
  importedTraceId,
  insertImportedRuns,
  insertScores,
  type ImportedRunRow,
  toImportedRunRow
} from "./RunImports/rows.ts"
import { redactObject } from "./redactJson.ts"
import { lockSchemas, readRunPlan, type RunPlan } from "./Runs/runPlan.ts"
import { readSchemas } from "./Tasks/rows.ts"

/** Imports past runs. */
export class RunImports extends Context.Service<
  RunImports,
  {
    /**
     * Logs past runs, with their scores as feedback: all valid ones, or none if the request fails. A run is known by the caller's id, from
     * which its trace id is derived, so that repeating a request imports nothing twice.
     */
    readonly import: (
      task_id: TaskId,
      runs: ReadonlyArray<ImportedRun>
    ) => Effect.Effect<RunImportResult, NotFound | InvalidInput | LimitReached, Authorized<"tasks.run">>
  }
>()("countersign/server/tasks/RunImports") {
  static readonly layer = Layer.effect(
    RunImports,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const schemas = yield* CompiledSchemas
      const secrets = yield* KnownSecrets
      const usage = yield* StoredUsage

      const schemasOf = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, plan: RunPlan) {
        const load = readSchemas(sql, org_id, task_id)
        return {
          inputs: yield* schemas.get(
            plan.input_schema_digest,
            Effect.map(load, ({ input_schema }) => input_schema)
          ),
          answers: yield* schemas.get(
            plan.answer_schema_digest,
            Effect.map(load, ({ answer_schema }) => answer_schema)
          )
        }
      })

      /** Removes secrets, if the organization has runs redacted before they are logged. */
      const redact = Effect.fnUntraced(function* (
        org_id: OrgId,
        plan: RunPlan,
        runs: ReadonlyArray<ImportedRun>
      ) {
        if (!plan.redacts_runs) return runs
        const known = yield* secrets.forOrg(org_id)
        return yield* Effect.forEach(
          runs,
          Effect.fnUntraced(function* (run) {
            const input = yield* redactObject(run.input, known, "#/input")
            const answer = yield* redactObject(run.answer, known, "#/answer")
            const metadata = yield* redactObject(run.metadata ?? {}, known, "#/metadata")
            return { ...run, input: input.value, answer: answer.value, metadata: metadata.value }
          })
        )
      })

      /** Stores runs and their scores. Undefined if the task's schemas have changed since the runs were validated. */
      const store = Effect.fnUntraced(function* (
        principal: Principal,
        task_id: TaskId,
        plan: RunPlan,
        rows: ReadonlyArray<ImportedRunRow>
      ) {
        const { org_id } = principal
        const now = yield* clock.now
        if (!plan.schemas_locked && !(yield* lockSchemas(sql, org_id, task_id, plan, now))) return undefined
        const inserted = yield* insertImportedRuns(sql, principal, { task_id, plan, rows })
        const stored = rows.filter(({ trace_id }) => inserted.has(trace_id))
        const scores = yield* insertScores(sql, principal, { task_id, rows: stored })
        if (stored.length > 0) {
          yield* audit.record(principal, "runs.imported", task_id, { runs: stored.length, scores })
        }
        const bytes = stored.reduce((sum, row) => sum + rowBytes.run + row.bytes, rowBytes.feedback * scores)
        yield* sql.afterCommit(
          Effect.sync(() => usage.add(org_id, { runs: stored.length, feedback: scores, bytes }))
        )
        return inserted
      })

      return RunImports.of({
        import: Effect.fn("RunImports.import")(function* (task_id, runs) {
          const principal = yield* Authorized("tasks.run")
          const { org_id } = principal
          yield* usage.requireCapacity(org_id, "runs")
          if (runs.some(({ score }) => score !== undefined)) yield* usage.requireCapacity(org_id, "feedback")
          for (;;) {
            const plan = yield* readRunPlan(sql, org_id, task_id, null, null)
            if (plan === undefined) return yield* notFound("task")
            const now = yield* clock.now
            const { problems, valid } = yield* checkRuns(yield* schemasOf(org_id, task_id, plan), runs, {
              now,
              canScore: principal.scopes.has("feedback.write")
            })
            const redacted = yield* redact(org_id, plan, valid)
            // Each id once, the first run of it; in one order, because concurrent imports of the same ids wait for each other.
            const rows = new Map<string, ImportedRunRow>()
            for (const run of redacted) {
              const row = yield* toImportedRunRow(org_id, task_id, run, now)
              if (!rows.has(row.trace_id)) rows.set(row.trace_id, row)
            }
            const sorted = [...rows.values()].toSorted((left, right) =>
              left.trace_id < right.trace_id ? -1 : 1
            )
            const inserted = yield* atomically(store(principal, task_id, plan, sorted))
            if (inserted === undefined) continue
            const unclaimed = new Set(inserted)
            return {
              runs: valid.map(({ id }) => {
                const trace_id = importedTraceId(org_id, task_id, id)
                // The first of several runs with one id.
                const status = unclaimed.delete(trace_id) ? ("imported" as const) : ("duplicate" as const)
                return { id, trace_id, status }
              }),
              problems
            }
          }
        }, dieOnDatabaseError)
      })
    })
  )
}
