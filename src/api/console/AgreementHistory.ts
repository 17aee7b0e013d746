/** Agreement over the releases of a task, for the console's chart. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { ComparisonId, DatasetId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { NotFound } from "../Problems.ts"

/** The most releases of a history: the newest ones. */
export const MAX_HISTORY = 50

/** A release, with the results of the comparison that it was released by. */
export const ReleaseAgreement = Schema.Struct({
  release_id: ReleaseId,
  created_at: Timestamp,
  model: Schema.String,
  /** Whether it restored an earlier release, whose comparison is the one given here. */
  is_rollback: Schema.Boolean,
  /** Null: it was released without a comparison, such as a task's first release. */
  comparison: Schema.NullOr(
    Schema.Struct({
      id: ComparisonId,
      /** The dataset version whose examples were compared. */
      dataset_id: DatasetId,
      /** Compared examples. */
      compared: Schema.Int,
      /** Share of them in which the release's answer agrees, 0 to 1; null if there were none. */
      agreement: Schema.NullOr(Schema.Finite),
      /** The same of the release that was live then. */
      live_agreement: Schema.NullOr(Schema.Finite)
    })
  )
}).annotate({ identifier: "ReleaseAgreement" })
export type ReleaseAgreement = typeof ReleaseAgreement.Type

/** The history of agreement. */
export class ConsoleAgreementApi extends HttpApiGroup.make("agreement")
  .add(
    HttpApiEndpoint.get("history", "/:id", {
      params: { id: TaskId },
      success: Schema.Struct({
        /** The newest releases, oldest first. */
        releases: Schema.Array(ReleaseAgreement)
      }),
      error: NotFound
    }).middleware(requires("tasks.read"))
  )
  .prefix("/console/agreement")
  .middleware(RequestBody)
  .middleware(Authentication) {}
