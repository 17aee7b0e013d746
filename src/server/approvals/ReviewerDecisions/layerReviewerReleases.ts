import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { ReleaseMade } from "../../tasks/Releases.ts"
import { Reviewers } from "../Reviewers.ts"
import { hasDecided } from "./decidedRows.ts"

/**
 * Keeps an answer of the release before from deciding when the task of a reviewer gets another live release, and stops a reviewer that has
 * decided: another release has to be measured first.
 */
export const layerReviewerReleases: Layer.Layer<ReleaseMade, never, Reviewers | SqlClient.SqlClient> =
  Layer.effect(
    ReleaseMade,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reviewers = yield* Reviewers
      return Effect.fnUntraced(function* (org_id, task_id) {
        const raised = yield* sql`
          UPDATE reviewers
          SET generation = generation + 1
          WHERE org_id = ${org_id}
            AND task_id = ${task_id}
          RETURNING 1 AS raised
        `
        if (raised.length > 0 && (yield* hasDecided(sql, { org_id, task_id })))
          yield* reviewers.stopReviewer(org_id, task_id, "release_changed")
      }, Effect.orDie)
    })
  )
