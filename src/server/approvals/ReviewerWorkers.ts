import { Cause, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWorkerPool, renewLeaseEvery } from "../concurrency/Worker.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Reviewers } from "./Reviewers.ts"
import { claimReviewer, countClaimable, findReviewer, releaseLease, renewLease } from "./Reviewers/rows.ts"
import { doShadowWork, type ShadowRun } from "./Reviewers/shadowWork.ts"

/** Reviewers that one replica works on concurrently. */
const MAX_CONCURRENT = 4

/** How often a replica looks for new approvals and decisions. */
const POLL_INTERVAL = Duration.seconds(1)

/** After a crash, another replica takes over when the lease expires. */
const LEASE = Duration.seconds(15)
const HEARTBEAT_INTERVAL = Duration.seconds(5)

/** Pause of a reviewer whose model failed to answer, and of a worker after a failed run. */
const FAILURE_PAUSE = Duration.seconds(30)
const RETRY_DELAY = Duration.seconds(5)

/** The result of a run whose lease another replica has taken. */
const interruptedRun: ShadowRun = { answered: 0, failed: 0, isFailing: false, isOver: false }

/**
 * The workers `reviewers`: each claims a reviewer model with work, asks it about new approvals and compares its answers. The worker
 * `reviewer_poll` wakes one of them for each reviewer with work.
 */
export const layer: Layer.Layer<never, never, Reviewers | SqlClient.SqlClient | StoreClock> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const { askReviewer: ask, compare, record } = yield* Reviewers
      const store = { sql: yield* SqlClient.SqlClient, clock: yield* StoreClock }

      const runOnce = Effect.gen(function* () {
        const lease = yield* claimReviewer(store, LEASE)
        if (lease === undefined) return undefined
        const row = yield* findReviewer(store, lease.org_id, lease.task_id)
        // Its task was deleted meanwhile.
        if (row === undefined) return undefined
        const { answered, failed, isFailing, isOver } = yield* doShadowWork(
          { ...store, ask, record, compare },
          lease,
          row
        ).pipe(
          Effect.raceFirst(
            Effect.as(renewLeaseEvery(HEARTBEAT_INTERVAL, renewLease(store, lease, LEASE)), interruptedRun)
          ),
          // Also on shutdown, so that the next owner need not wait for the lease to expire.
          Effect.onError((cause) =>
            Effect.ignore(
              releaseLease(store, lease, Cause.hasInterruptsOnly(cause) ? Duration.zero : FAILURE_PAUSE)
            )
          )
        )
        yield* releaseLease(store, lease, isFailing ? FAILURE_PAUSE : Duration.zero)
        return { counts: { answered, failed }, ...(isOver ? {} : { next: 0 }) }
      })

      const { start } = yield* makeWorkerPool({
        name: "reviewers",
        workers: MAX_CONCURRENT,
        runOnce,
        countClaimable: (limit) => countClaimable(store, limit),
        pollName: "reviewer_poll",
        pollEvery: POLL_INTERVAL,
        retryAfter: RETRY_DELAY
      })
      yield* start
    })
  )
