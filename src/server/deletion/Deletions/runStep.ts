import { Effect } from "effect"
import { type OrgId, TaskId } from "../../../domain/Ids.ts"
import { deleteSession, findSessionAfter } from "../../approvals/deleteSessions.ts"
import { type DeletionRow, FIRST_PHASE } from "../../tasks/deletionRows.ts"
import {
  deleteExamplesOfTask,
  deleteExamplesOfVersion,
  deletePostings,
  deleteRest,
  deleteResults,
  deleteRunsOfTask,
  eraseExamplesOfEndUser,
  eraseExamplesOfSubject,
  eraseFeedbackOfEndUser,
  eraseRunsOfSubject,
  isOfSubject,
  type StepDeps,
  type StepResult,
  type Subject
} from "../../tasks/deletionSteps.ts"

/** The phases of each kind of deletion, in their order. */
const phases = {
  task: ["runs", "comparisons", "examples", "postings", "rest"],
  dataset: ["results", "examples"],
  erasure: ["runs", "examples", "sessions"]
} as const

/** The phases of the erasure of an end user. */
const endUserPhases = ["feedback", "examples"]

/** Runs the next step of a deletion. `next` is null if it was the last. */
export const runStep = Effect.fnUntraced(function* (deps: StepDeps, row: DeletionRow) {
  const names: ReadonlyArray<string> = row.end_user === null ? phases[row.kind] : endUserPhases
  const phase = row.phase === FIRST_PHASE ? names[0] : row.phase
  const { cursor, ...deleted }: StepResult = yield* stepOf(deps, row, phase ?? "")
  const following = names[names.indexOf(phase ?? "") + 1]
  const next =
    cursor !== null
      ? { phase: phase ?? FIRST_PHASE, cursor }
      : following === undefined
        ? null
        : { phase: following, cursor: null }
  return { deleted, next }
})

const stepOf = (deps: StepDeps, row: DeletionRow, phase: string) => {
  switch (row.kind) {
    case "task":
      return taskStep(deps, row, TaskId.make(row.target_id ?? ""), phase)
    case "dataset":
      return datasetStep(deps, row, phase)
    case "erasure":
      return erasureStep(deps, row, phase)
  }
}

const taskStep = (deps: StepDeps, { cursor, org_id }: DeletionRow, task_id: TaskId, phase: string) => {
  switch (phase) {
    case "runs":
      return deleteRunsOfTask(deps, org_id, task_id, cursor)
    case "comparisons":
      return deleteResults(deps, org_id, { task_id }, cursor)
    case "examples":
      return deleteExamplesOfTask(deps, org_id, task_id, cursor)
    case "postings":
      return deletePostings(deps, org_id, task_id, cursor)
    default:
      return deleteRest(deps, org_id, task_id)
  }
}

const datasetStep = (
  deps: StepDeps,
  { cursor, org_id, target_id, task_id, version }: DeletionRow,
  phase: string
) =>
  task_id === null || target_id === null || version === null
    ? Effect.die(new Error("The deletion of a dataset version does not name it"))
    : phase === "results"
      ? deleteResults(deps, org_id, { dataset_id: target_id }, cursor)
      : deleteExamplesOfVersion(deps, org_id, task_id, version, cursor)

const erasureStep = (deps: StepDeps, row: DeletionRow, phase: string) => {
  const { cursor, end_user, metadata_digest, metadata_key, org_id } = row
  if (end_user !== null) {
    return phase === "feedback"
      ? eraseFeedbackOfEndUser(deps, org_id, end_user, cursor)
      : eraseExamplesOfEndUser(deps, org_id, end_user, cursor)
  }
  if (metadata_key === null || metadata_digest === null) {
    return Effect.die(new Error("An erasure does not name its data subject"))
  }
  const subject: Subject = { key: metadata_key, digest: metadata_digest }
  switch (phase) {
    case "runs":
      return eraseRunsOfSubject(deps, org_id, subject, cursor)
    case "examples":
      return eraseExamplesOfSubject(deps, org_id, subject, cursor)
    default:
      return eraseNextSession(deps, org_id, subject, cursor)
  }
}

const eraseNextSession = Effect.fnUntraced(function* (
  { now, sql, usage }: StepDeps,
  org_id: OrgId,
  subject: Subject,
  cursor: string | null
) {
  const found = yield* findSessionAfter(sql, org_id, cursor, isOfSubject(sql, "metadata", subject))
  if (found.session_id === undefined) return { cursor: found.cursor } satisfies StepResult
  const { isGone, sessions } = yield* deleteSession(sql, org_id, found.session_id, {
    usage,
    now,
    keepsCounts: false
  })
  // Some rows of the session are left: it is found again.
  const result: StepResult = { sessions, cursor: isGone ? found.cursor : (cursor ?? "") }
  return result
})
