import { DateTime, Effect } from "effect"
import type { FieldError } from "../../../api/Problem.ts"
import { InvalidInput } from "../../../api/Problems.ts"
import type { ImportedRun, RunImportResult } from "../../../api/Runs.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import type { WorkBudget } from "../../../domain/tasks/CompiledSchema.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { nextTurnOrYield } from "../../admission/LoopTurns.ts"
import type { TaskSchemas } from "../Datasets/checkExamples.ts"

/** Errors that are named for one run. */
const MAX_ERRORS = 5

/** Units of work for all runs of one request: about a tenth of a second, a second at most. */
const MAX_TOTAL_WORK = 10_000_000

/** Units of work after which other requests run: a few milliseconds. */
const WORK_PER_TURN = 300_000

/** The earliest time of a run: an earlier one is a mistake, such as seconds instead of milliseconds. */
const EARLIEST = DateTime.makeUnsafe("2000-01-01T00:00:00Z")

/** How far a client's clock may be ahead, in milliseconds. */
const CLOCK_SKEW_MILLIS = 60_000

/** Separates valid runs from invalid ones. Yields to other requests. */
export const checkRuns = Effect.fnUntraced(function* (
  { answers, inputs }: TaskSchemas,
  runs: ReadonlyArray<ImportedRun>,
  { canScore, now }: { readonly now: Timestamp; readonly canScore: boolean }
) {
  const work: WorkBudget = { left: MAX_TOTAL_WORK }
  let yieldAt = work.left - WORK_PER_TURN
  const valid: Array<ImportedRun> = []
  const problems: Array<RunImportResult["problems"][number]> = []
  for (const [index, run] of runs.entries()) {
    const at = `#/runs/${index}`
    const errors: Array<FieldError> = [
      ...inputs.check(run.input, `${at}/input`, work),
      ...answers.check(run.answer, `${at}/answer`, work)
    ]
    if (work.left < 0) {
      return yield* new InvalidInput({
        detail: "Validating these runs in one request takes too long. Send fewer runs per request.",
        errors: [{ pointer: at, detail: "exceeds the validation limit of the request" }]
      })
    }
    const time = run.created_at ?? run.answered_by?.started_at
    const member = run.created_at === undefined ? "answered_by/started_at" : "created_at"
    if (time !== undefined && DateTime.isLessThan(time, EARLIEST)) {
      errors.push({ pointer: `${at}/${member}`, detail: "is before the year 2000" })
    }
    if (
      time !== undefined &&
      DateTime.toEpochMillis(time) > DateTime.toEpochMillis(now) + CLOCK_SKEW_MILLIS
    ) {
      errors.push({ pointer: `${at}/${member}`, detail: "is in the future" })
    }
    if (run.score !== undefined && !canScore) {
      errors.push({ pointer: `${at}/score`, detail: "needs an API key with the scope feedback.write" })
    }
    if (errors.length === 0) valid.push(run)
    else problems.push({ index, id: run.id, errors: redactFaults(errors.slice(0, MAX_ERRORS)) })
    if (work.left < yieldAt) {
      yieldAt = work.left - WORK_PER_TURN
      yield* nextTurnOrYield
    }
  }
  return { valid, problems }
})
