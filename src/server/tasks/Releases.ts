import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { NewRelease, ReleaseCandidate } from "../../api/Comparisons.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { CandidateLost, ComparisonUnfinished, LiveReleaseChanged, NotFound } from "../../api/Problems.ts"
import { type OrgId, ReleaseId, type TaskId } from "../../domain/Ids.ts"
import type { ComparisonSummary } from "../../domain/tasks/Comparison.ts"
import { summarizeTally } from "../../domain/tasks/ComparisonTally.ts"
import { type ReleaseChanges, releaseChanges } from "../../domain/tasks/ReleaseChanges.ts"
import type { Release } from "../../domain/tasks/Task.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import { Audit } from "../identity/Audit.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { findVersion } from "./Datasets/versionRows.ts"
import { findComparison } from "./Comparisons/rows.ts"
import { atomic } from "../store/transaction.ts"
import type { Page } from "../store/Pagination.ts"
import { findRelease, findReleaseBefore, insertRelease, listReleases, getRelease } from "./Releases/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { findTask, type TaskRow } from "./Tasks/rows.ts"
import { requireTask } from "./requireTask.ts"

/** The releases of tasks. A release is a provider with instructions and a dataset version; the task's live release answers its runs. */
export class Releases extends Context.Service<
  Releases,
  {
    /** Lists a task's releases, newest first; the first is live. */
    readonly list: (
      task_id: TaskId,
      request: PageRequest<ReleaseId>
    ) => Effect.Effect<Page<Release, ReleaseId>, NotFound, Authorized<"tasks.read">>
    /** Returns what a release changed since another release of its task, by default since the one before it. */
    readonly changes: (
      id: ReleaseId,
      since: ReleaseId | undefined
    ) => Effect.Effect<ReleaseChanges, NotFound, Authorized<"tasks.read">>
    /**
     * Makes the candidate of a finished comparison live, or rolls back to an earlier release. Returns the live release if it already is
     * that one. A promotion also sets the task's working copy to the candidate, unless the working copy has changed since the comparison
     * was created; a rollback does not change the working copy. Without `force`, refuses a candidate that lost, or that was compared with
     * another release than the live one.
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
      const clock = yield* StoreClock
      const secrets = yield* KnownSecrets

      const chooseCandidate = Effect.fnUntraced(function* (
        org_id: OrgId,
        task: TaskRow,
        live: Release,
        { comparison_id, force = false }: typeof ReleaseCandidate.Type
      ) {
        const comparison = yield* findComparison(sql, org_id, comparison_id)
        if (comparison?.task_id !== task.task_id) return yield* noComparison
        if (comparison.status !== "completed") {
          return yield* new ComparisonUnfinished({
            detail:
              comparison.status === "failed" || comparison.status === "cancelled"
                ? `The comparison ${comparison.status === "failed" ? "failed" : "was cancelled"}, so nothing shows whether its candidate is better. Start another one.`
                : `The comparison is still running: ${comparison.compared} of ${comparison.example_count} examples compared. Retry when it is completed.`
          })
        }
        const isLive = live.comparison_id === comparison_id
        if (!isLive && !force) {
          // A rollback makes the same content live under another id.
          if (![live.id, live.restored_release_id].includes(comparison.live_release_id)) {
            return yield* new LiveReleaseChanged({
              detail:
                "Another release was made live after the comparison was started. Compare the candidate with it, or send `force` with a `reason`.",
              current_release_id: live.id
            })
          }
          const defeat = defeatOf(summarizeTally(comparison.tally))
          if (defeat !== undefined) return yield* new CandidateLost({ detail: defeat })
        }
        const content = {
          instructions: comparison.candidate_instructions,
          provider: comparison.candidate_provider,
          dataset_id: comparison.candidate_dataset_id,
          comparison_id,
          restored_release_id: null
        }
        const choice: ReleaseChoice = {
          content,
          isLive,
          workingCopy: task.revision === comparison.task_revision ? content : task
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
        const { dataset_id, instructions, provider } = release
        const choice: ReleaseChoice = {
          content: {
            instructions,
            provider,
            dataset_id,
            comparison_id: null,
            restored_release_id: release_id
          },
          isLive: live.id === release_id || live.restored_release_id === release_id,
          workingCopy: task
        }
        return choice
      })

      /** Fails if the dataset version of a release was deleted. The task's row is locked, so none is being deleted. */
      const requireDataset = Effect.fnUntraced(function* (org_id: OrgId, content: ReleaseChoice["content"]) {
        if (content.dataset_id === null) return
        if ((yield* findVersion(sql, org_id, content.dataset_id)) === undefined) return yield* datasetDeleted
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
            since === undefined ? findReleaseBefore(sql, org_id, release) : findRelease(sql, org_id, since)
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
              const { content, isLive, workingCopy } =
                "release_id" in input
                  ? yield* chooseEarlier(org_id, task, live, input.release_id)
                  : yield* chooseCandidate(org_id, task, live, input)
              if (isLive) return live
              yield* requireDataset(org_id, content)
              const release: Release = {
                id: yield* ReleaseId.generate,
                task_id,
                ...content,
                created_at: now,
                created_by: actor
              }
              yield* insertRelease(sql, org_id, release)
              yield* sql`
                UPDATE tasks
                SET
                  live_release_id = ${release.id},
                  instructions = ${workingCopy.instructions},
                  provider = ${JSON.stringify(workingCopy.provider)}
                WHERE org_id = ${org_id}
                  AND task_id = ${task_id}
              `
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
  readonly isLive: boolean
  /** The task's working copy afterwards. */
  readonly workingCopy: Pick<Release, "instructions" | "provider">
}

/** Why the comparison speaks against the candidate; undefined if it does not. */
const defeatOf = ({ candidate, live }: ComparisonSummary): string | undefined => {
  if (candidate.agreement === null || live.agreement === null) return undefined
  if (candidate.latency_ms === null) return "The candidate has no answer for any of the examples."
  return candidate.agreed < live.agreed
    ? `The candidate agreed with ${candidate.agreed} examples, the live release with ${live.agreed}.`
    : undefined
}

const notOfTask = (pointer: string, noun: string) =>
  Effect.fail(
    new NotFound({
      detail: `No such ${noun} of this task.`,
      errors: [{ pointer, detail: `No such ${noun}` }]
    })
  )

const datasetDeleted = Effect.fail(
  new NotFound({ detail: "The dataset version of this release was deleted, so it cannot be made live." })
)

const noComparison = notOfTask("#/comparison_id", "comparison")

const noRelease = notOfTask("#/release_id", "release")
