/** The stores of a replica, with the checks looking on. */
import { Effect, Exit } from "effect"
import { SqlError } from "effect/sql"
import type { DeliveryStore } from "../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { UNWRITABLE } from "../../../src/server/delivery/Delivery/Finisher.ts"
import type { ShardStore } from "../../../src/server/delivery/Delivery/ShardStore.ts"
import type { ConcludedAttempt } from "../../../src/server/delivery/Delivery/writeResults.ts"
import type { Replica } from "./Replica.ts"

/** Measures how long a statement takes, from the replica's side. */
export const timed = <A, E>(replica: Replica, statement: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const end = replica.world.checks.waits.statement(replica)
    return Effect.ensuring(statement, Effect.sync(end))
  })

/** Observes what a replica reads and records. */
export const observedDeliveryStore = (replica: Replica, store: DeliveryStore): DeliveryStore => {
  const { checks, rejected } = replica.world
  const reads = <A extends { readonly seq: number; readonly attempt: number }, E>(
    read: Effect.Effect<ReadonlyArray<A>, E>
  ) =>
    timed(
      replica,
      Effect.tap(read, (rows) => Effect.sync(() => checks.knows(replica, rows)))
    )
  const isRejected = ({ result, verdict }: ConcludedAttempt) =>
    rejected.has(result.lane.destination_id) && (verdict._tag !== "Failed" || verdict.error !== UNWRITABLE)
  return {
    hasCachedNumbers: store.hasCachedNumbers,
    tail: (ranges, limit) =>
      Effect.tap(reads(store.tail(ranges, limit)), () => Effect.sync(() => checks.stale.reads(replica))),
    nonEmpty: (shards) => timed(replica, store.nonEmpty(shards)),
    heads: (positions, horizonMillis) => reads(store.heads(positions, horizonMillis)),
    refill: (lanes, rows) => reads(store.refill(lanes, rows)),
    recordResults: (batch, withinTransaction) =>
      Effect.suspend(() =>
        batch.some(isRejected)
          ? Effect.fail(REJECTED)
          : timed(replica, store.recordResults(batch, withinTransaction))
      ).pipe(
        Effect.tap(({ locked, written }) =>
          Effect.sync(() => {
            const recorded = batch.filter(({ result }) => written.has(result.delivery.seq))
            checks.knows(
              replica,
              recorded.map(({ result: { delivery } }) => ({
                seq: delivery.seq,
                attempt: delivery.attempt + 1
              }))
            )
            for (const { result } of batch) {
              const { seq } = result.delivery
              if (!written.has(seq) && !locked.has(seq)) checks.stale.refused(replica, result.lane.owned)
            }
          })
        )
      ),
    saveHealth: (lanes) => store.saveHealth(lanes)
  }
}

/** Observes what a replica knows of its leases. */
export const observedShardStore = (replica: Replica, store: ShardStore): ShardStore => {
  const { stale } = replica.world.checks
  const worked = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      const end = stale.works(replica)
      return Effect.onExit(effect, (exit) => Effect.sync(() => end(Exit.isSuccess(exit))))
    })
  return {
    heartbeat: (beat) =>
      worked(
        Effect.suspend(() => {
          const answered = stale.renews(replica)
          return Effect.tap(store.heartbeat(beat), () => Effect.sync(answered))
        })
      ),
    claim: (wanted) => worked(store.claim(wanted)),
    release: (shards) => worked(store.release(shards)),
    deregister: worked(store.deregister),
    endLease: worked(store.endLease)
  }
}

/** An error of one statement, as of a value that a column does not take. */
const REJECTED = new SqlError.SqlError({
  reason: new SqlError.UnknownError({ cause: "simulated", message: "simulated", operation: "execute" })
})
