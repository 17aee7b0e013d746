import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { NewRelease, ReleaseCandidate } from "../../api/Comparisons.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type CandidateLost,
  type ComparisonUnfinished,
  type LiveReleaseChanged,
  NotFound
} from "../../api/Problems.ts"
import { type OrgId, ReleaseId, type TaskId } from "../../domain/Ids.ts"
import { type ReleaseChanges, releaseChanges } from "../../domain/tasks/ReleaseChanges.ts"
import type { Release } from "../../domain/tasks/Task.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { Audit } from "../identity/Audit.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { type ComparisonRow, findComparison } from "./Comparisons/rows.ts"
import { atomic } from "../store/transaction.ts"
import type { Page } from "../store/Pagination.ts"
import { chooseCandidate, requireDataset } from "./Releases/chooseCandidate.ts"
import { findRelease, findReleaseBefore, insertRelease, listReleases, getRelease } from "./Releases/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { findTask, type TaskRow } from "./Tasks/rows.ts"
import { requireTask } from "./requireTask.ts"

/** A hook that is called in the transaction in which a task gets another live release. */
export class ReleaseMade extends Context.Service<
  ReleaseMade,
  (org_id: OrgId, task_id: TaskId) => Effect.Effect<void>
>()("countersign/server/tasks/Releases/ReleaseMade") {}

/** The releases of tasks. A release is a provider with instructions and a dataset version; the task's live release answers its runs. */
export class Releases extends Context.Service<
  Releases,
  {
    /** Lists a task's releases, newest first; the first is live, unless a canary was started after it. */
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ReleaseId>
    ) => Effect.Effect<Page<Release, ReleaseId>, NotFound, Authorized<"tasks.read">>
    /** Returns the changes of a release since another release of its task, by default since the one that was live before it. */
    readonly changes: (
      id: ReleaseId,
      since: ReleaseId | undefined
    ) => Effect.Effect<ReleaseChanges, NotFound, Authorized<"tasks.read">>
    /**
     * Makes the candidate of a finished comparison live, or rolls back to an earlier release. Returns the live release if it already is
     * that one. A promotion also sets the task's working copy to the candidate, unless the working copy has changed since the comparison
     * was created; a rollback does not change the working copy. Without `force`, refuses a candidate that lost, or that was compared with
     * another release than the live one. Ends the task's canary, and makes the canary itself live if it is the one that is named.
     */
    readonly create: (
      task_id: TaskId,
      input: NewRelease
    ) => Effect.Effect<
      Release,
      NotFound | ComparisonUnfinished | LiveReleaseChanged | CandidateLost,
      Authorized<"tasks.write">
    >
  }
>()("countersign/server/tasks/Releases") {
  static readonly layer = Layer.effect(
    Releases,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const onReleased = yield* ReleaseMade
      const clock = yield* StoreClock
      const secrets = yield* KnownSecrets

      /** The working copy after a comparison's candidate was released. */
      const workingCopyOf = (task: TaskRow, comparison: ComparisonRow) =>
        task.revision === comparison.task_revision
          ? { instructions: comparison.candidate_instructions, provider: comparison.candidate_provider }
          : task

      const chooseCompared = Effect.fnUntraced(function* (
        org_id: OrgId,
        task: TaskRow,
        live: Release,
        input: typeof ReleaseCandidate.Type
      ) {
        const { comparison_id } = input
        const comparison = yield* chooseCandidate(sql, org_id, task, live, input)
        const canary =
          task.canary_release_id === null ? undefined : yield* getRelease(sql, org_id, task.canary_release_id)
        const choice: ReleaseChoice = {
          content: {
            instructions: comparison.candidate_instructions,
            provider: comparison.candidate_provider,
            dataset_id: comparison.candidate_dataset_id,
            comparison_id,
            restored_release_id: null
          },
          canary: canary?.comparison_id === comparison_id ? canary : undefined,
          isLive: live.comparison_id === comparison_id,
          workingCopy: workingCopyOf(task, comparison)
        }
        return choice
      })

      const chooseEarlier = Effect.fnUntraced(function* (
        org_id: OrgId,
        task: TaskRow,
        live: Release,
        release_id: ReleaseId
      ) {
        const release = yield* findRelease(sql, org_id, release_id)
        if (release?.task_id !== task.task_id) return yield* noRelease
        const { comparison_id, dataset_id, instructions, provider } = release
        if (release_id === task.canary_release_id && comparison_id !== null) {
          const comparison = yield* findComparison(sql, org_id, comparison_id)
          const choice: ReleaseChoice = {
            content: release,
            canary: release,
            isLive: false,
            workingCopy: comparison === undefined ? task : workingCopyOf(task, comparison)
          }
          return choice
        }
        const choice: ReleaseChoice = {
          content: {
            instructions,
            provider,
            dataset_id,
            comparison_id: null,
            restored_release_id: release_id
          },
          canary: undefined,
          isLive: live.id === release_id || live.restored_release_id === release_id,
          workingCopy: task
        }
        return choice
      })

      return Releases.of({
        list: Effect.fn("Releases.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("tasks.read")
          const page = yield* Effect.orDie(listReleases(sql, org_id, task_id, request))
          if (page.items.length === 0) yield* requireTask(sql, org_id, task_id)
          return page
        }),
        changes: Effect.fn("Releases.changes")(function* (id, since) {
          const { org_id } = yield* Authorized("tasks.read")
          const release = yield* Effect.orDie(findRelease(sql, org_id, id))
          if (release === undefined) return yield* notFound("release")
          const base = yield* Effect.orDie(
            since === undefined ? findReleaseBefore(sql, org_id, id) : findRelease(sql, org_id, since)
          )
          if (since !== undefined && base?.task_id !== release.task_id) {
            return yield* new NotFound({ detail: "`since` is no release of the same task." })
          }
          return releaseChanges(release, base)
        }),
        create: Effect.fn("Releases.create")(function* (task_id, input) {
          const principal = yield* Authorized("tasks.write")
          const { actor, org_id } = principal
          const now = yield* clock.now
          const forced = "comparison_id" in input && input.force === true
          const reason =
            forced && input.reason !== undefined
              ? redactText(input.reason, yield* secrets.forOrg(org_id))
              : undefined
          return yield* atomically(
            Effect.gen(function* () {
              // The row lock serializes concurrent releases of the task.
              const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
              const live = yield* getRelease(sql, org_id, task.live_release_id)
              const { canary, content, isLive, workingCopy } =
                "release_id" in input
                  ? yield* chooseEarlier(org_id, task, live, input.release_id)
                  : yield* chooseCompared(org_id, task, live, input)
              if (isLive) return live
              yield* requireDataset(sql, org_id, content.dataset_id)
              // The canary keeps its id, and so the feedback on its runs.
              const release: Release =
                canary ??
                (yield* insertRelease(
                  sql,
                  org_id,
                  { id: yield* ReleaseId.generate, task_id, ...content, created_at: now, created_by: actor },
                  live.id
                ))
              yield* sql`
                UPDATE tasks
                SET
                  live_release_id = ${release.id},
                  canary_release_id = NULL, canary_share = NULL, canary_started_at = NULL,
                  instructions = ${workingCopy.instructions},
                  provider = ${JSON.stringify(workingCopy.provider)}
                WHERE org_id = ${org_id}
                  AND task_id = ${task_id}
              `
              yield* onReleased(org_id, task_id)
              yield* audit.record(principal, "release.created", release.id, {
                task_id,
                ...("release_id" in input
                  ? { release_id: input.release_id }
                  : { comparison_id: input.comparison_id }),
                ...(forced ? { force: true, reason: reason ?? "" } : {})
              })
              return release
            })
          )
        })
      })
    })
  )
}

/** The release to make live. */
interface ReleaseChoice {
  readonly content: Pick<
    Release,
    "instructions" | "provider" | "dataset_id" | "comparison_id" | "restored_release_id"
  >
  /** The task's canary, if it is what becomes live. */
  readonly canary: Release | undefined
  readonly isLive: boolean
  /** The task's working copy afterwards. */
  readonly workingCopy: Pick<Release, "instructions" | "provider">
}

const noRelease = Effect.fail(
  new NotFound({
    detail: "No such release of this task.",
    errors: [{ pointer: "#/release_id", detail: "No such release" }]
  })
)
