/** The engine's stores over the model. */
import { type DeliveryStore } from "../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { Context, Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { ShardStore } from "../../../src/server/delivery/Delivery/ShardStore.ts"
import type { Statement } from "../core/Store.ts"
import type { StoreClient } from "../core/StoreClient.ts"
import type { DeliveryModel, LogEntry } from "./DeliveryModel.ts"

const statusAfter: Readonly<Record<"RetryLater" | "Delivered" | "Partial" | "Failed", LogEntry["status"]>> = {
  RetryLater: "pending",
  Delivered: "delivered",
  Partial: "partial",
  Failed: "failed"
}

/** Runs a statement in the transaction that records results, for the hooks of channels. */
export const CurrentTransaction = Context.Reference<
  <A>(statement: Statement<A>) => Effect.Effect<A, SqlError.SqlError>
>("countersign/simulate/CurrentTransaction", {
  defaultValue: () => () => Effect.die(new Error("There is no transaction"))
})

/** `ShardStore` of one replica over the model. */
export const modelShardStore = (model: DeliveryModel, client: StoreClient, owner: string): ShardStore => ({
  heartbeat: (beat) => client.statement("heartbeat", model.heartbeat(owner, beat)),
  claim: (wanted) => client.statement("claim", model.claim(owner, wanted)),
  release: (shards) => client.statement("release", model.release(owner, shards)),
  deregister: client.statement("deregister", model.deregister(owner)),
  endLease: client.statement("end lease", model.endLease(owner))
})

/** `DeliveryStore` of one replica over the model. `monotonicMillis` is its clock of due times. */
export const modelDeliveryStore = (
  model: DeliveryModel,
  client: StoreClient,
  monotonicMillis: () => number
): DeliveryStore => ({
  hasCachedNumbers: Effect.succeed(false),
  tail: (ranges, limit) => client.statement("tail", model.tail(ranges, limit)),
  nonEmpty: (shards) => client.statement("sweep: shards", model.nonEmpty(shards)),
  heads: (positions, horizonMillis) =>
    client.statement("sweep: heads", model.heads(positions, horizonMillis)),
  refill: (lanes, rows) => client.statement("refill", model.refill(lanes, rows)),
  recordResults: (batch, withinTransaction) => {
    const statement = model.recordResults(
      batch.map(({ result: { delivery, lane, outcome }, verdict }) => ({
        shard: lane.shard,
        seq: delivery.seq,
        epoch: lane.owned.epoch,
        attempt: delivery.attempt,
        sent: outcome._tag !== "Refused",
        status_after: statusAfter[verdict._tag],
        delayMillis: verdict._tag === "RetryLater" ? verdict.delay : 0,
        error: verdict._tag === "Delivered" ? null : verdict.error,
        status: outcome._tag === "Refused" ? null : outcome.status
      }))
    )
    return withinTransaction === undefined
      ? client.statement("record results", statement)
      : client.transaction((execute) =>
          Effect.tap(execute(statement), ({ written }) =>
            Effect.provideService(withinTransaction(written), CurrentTransaction, execute)
          )
        )
  },
  saveHealth: (lanes) => {
    const now = monotonicMillis()
    return client.statement(
      "save health",
      model.saveHealth(
        Array.from(lanes, ([lane, health]) => ({
          shard: lane.shard,
          epoch: lane.owned.epoch,
          org_id: lane.org_id,
          destination_id: lane.destination_id,
          failures: health.failures,
          round: health._tag === "Healthy" ? 0 : health.round,
          cooldownMillis: health._tag === "CoolingDown" ? Math.max(0, health.until - now) : null
        }))
      )
    )
  }
})
