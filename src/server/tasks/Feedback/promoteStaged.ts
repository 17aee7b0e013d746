import { Array as Arr, Effect, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import type { PromoteRequest } from "../../../api/Feedback.ts"
import { DatasetBaseChanged, FeedbackChanged, NothingStaged } from "../../../api/Problems.ts"
import type { NewExample } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId, FeedbackId, OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { planPromotion, type Promotion, sortByStagingTime } from "../../../domain/tasks/Promotion.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { textArray } from "../../store/pgArrays.ts"
import type { Datasets } from "../Datasets.ts"
import { acquireDatasetLock } from "../Datasets/datasetLock.ts"
import { redactionWarning, redactObject } from "../redactJson.ts"
import { requireStaged } from "./requireStaged.ts"
import { readNewestVersion, readStaged, readWithInputs, type StagedRow } from "./stagedRows.ts"

/**
 * Creates the next dataset version from a task's staged corrections, all or the ones that the request names, in the caller's transaction. Acquires the dataset lock first, so that
 * of two concurrent promotions one waits and then finds a newer base. Then locks the corrections, and reads them in chunks, however many
 * there are.
 */
export const promoteStaged = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  datasets: Datasets["Service"],
  { actor, org_id }: Principal,
  task_id: TaskId,
  request: PromoteRequest,
  { known, now }: { readonly known: KnownValues; readonly now: Timestamp }
) {
  yield* acquireDatasetLock(sql, org_id, task_id)
  const base = yield* readNewestVersion(sql, org_id, task_id)
  const selected = request.feedback_ids
  const staged = yield* readStaged(sql, org_id, task_id, selected, "FOR NO KEY UPDATE")
  const plan = planPromotion(staged)
  const current = { current_dataset_id: base, current_feedback_revision: plan.revision }
  if (base !== request.base_dataset_id) {
    return yield* new DatasetBaseChanged({
      detail:
        "A newer dataset version was created since the preview. Review a new preview, then promote again.",
      ...current
    })
  }
  yield* requireStaged(selected, staged, current)
  if (!Arr.isReadonlyArrayNonEmpty(plan.promoted)) {
    return yield* new NothingStaged({
      detail: "The task has no staged corrections. Stage a correction, then promote."
    })
  }
  if (plan.revision !== request.expected_feedback_revision) {
    return yield* new FeedbackChanged({
      detail:
        "The set of staged corrections has changed since the preview. Review a new preview, then promote again.",
      ...current
    })
  }
  const removed = { count: 0, pointers: new Array<string>() }
  const derived = yield* datasets.derive(
    { org_id, task_id, base, by: actor, now },
    streamExamples(sql, org_id, plan).pipe(
      Stream.mapEffect((example) => redactInput(example, known, removed))
    )
  )
  const { dataset } = derived
  // Inputs that differ in a secret alone are equal without it.
  const equalWhenRedacted = new Set(derived.superseded)
  const promoted = idsOf(plan.promoted).filter((id) => !equalWhenRedacted.has(id))
  const superseded = [...plan.superseded.map(({ id }) => id), ...equalWhenRedacted]
  yield* updateStatus(sql, org_id, promoted, "promoted", dataset.id)
  yield* updateStatus(sql, org_id, superseded, "superseded", null)
  const redaction_warning = removed.count === 0 ? undefined : redactionWarning(removed)
  return { dataset, promoted, superseded: superseded.length, redaction_warning }
})

/** Maximum number of fields that the warning of a promotion names. */
const MAX_POINTERS = 20

/** Removes secrets from the input of a run before it enters a dataset. A correction is redacted when it is created. */
const redactInput = Effect.fnUntraced(function* (
  example: NewExample,
  known: KnownValues,
  removed: { count: number; readonly pointers: Array<string> }
) {
  const { count, pointers, value } = yield* redactObject(example.input, known, "#/input")
  if (count === 0) return example
  removed.count += count
  removed.pointers.push(
    ...pointers
      .slice(0, MAX_POINTERS - removed.pointers.length)
      .map((pointer) => `${pointer} of ${example.source_feedback_id ?? "an example"}`)
  )
  return { ...example, input: value }
})

const updateStatus = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  ids: ReadonlyArray<FeedbackId>,
  status: "promoted" | "superseded",
  dataset_id: DatasetId | null
) => sql`
  UPDATE feedback
  SET status = ${status}, dataset_id = ${dataset_id}
  WHERE org_id = ${org_id}
    AND feedback_id = ANY(${textArray(ids)})
`

const idsOf = (staged: ReadonlyArray<StagedRow>): ReadonlyArray<FeedbackId> =>
  staged.map(({ feedback_id }) => feedback_id)

/**
 * The corrections as examples, read in chunks, in the order of their staging. If two inputs are equal once they are redacted, the version
 * contains the later example, so the correction that was staged last wins.
 */
const streamExamples = (sql: SqlClient.SqlClient, org_id: OrgId, { promoted }: Promotion<StagedRow>) =>
  Stream.fromIterable(chunksByBytes(sortByStagingTime(promoted))).pipe(
    Stream.mapEffect((chunk) => Effect.orDie(readWithInputs(sql, org_id, idsOf(chunk)))),
    Stream.flatMap((rows) => Stream.fromIterable(rows)),
    Stream.map(({ confirms, correction, feedback_id, input }): NewExample => ({
      input,
      answer: correction,
      source_feedback_id: feedback_id,
      origin: confirms ? "confirmed" : "correction"
    }))
  )
