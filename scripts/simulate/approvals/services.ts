/** The services of approvals as they are, over any client, without those that they do not need in a simulation. */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DeliveryId } from "../../../src/domain/Ids.ts"
import { Approvals } from "../../../src/server/approvals/Approvals.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import { Grants } from "../../../src/server/approvals/Grants.ts"
import { Rules } from "../../../src/server/approvals/Rules.ts"
import { SessionEvents } from "../../../src/server/approvals/SessionEvents.ts"
import { SessionFacts } from "../../../src/server/approvals/SessionFacts.ts"
import { Sessions } from "../../../src/server/approvals/Sessions.ts"
import { SessionWriter } from "../../../src/server/approvals/SessionWriter.ts"
import { Steps } from "../../../src/server/approvals/Steps.ts"
import { type Channel, defaultChannelPolicy } from "../../../src/server/delivery/Channel.ts"
import { Delivery } from "../../../src/server/delivery/Delivery.ts"
import { makeDeliveryQueue } from "../../../src/server/delivery/Delivery/DeliveryQueue.ts"
import type { QueueRow } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { Egress } from "../../../src/server/egress/Egress.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { Organizations } from "../../../src/server/identity/Organizations.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { Email } from "../../../src/server/notifications/Email.ts"
import { Notifications } from "../../../src/server/notifications/Notifications.ts"
import { RecentEvents } from "../../../src/server/notifications/Notifications/RecentEvents.ts"
import { WEBHOOK } from "../../../src/server/notifications/Notifications/WebhookChannel.ts"
import { KnownSecrets } from "../../../src/server/secrets/KnownSecrets.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"

/** A channel that only queues: sending is simulated apart. */
const channel: Channel = {
  name: WEBHOOK,
  ids: DeliveryId,
  policy: defaultChannelPolicy,
  load: () => Effect.die(new Error("Nothing is sent here")),
  expire: () => Effect.succeed(0)
}

/** What differs between uses of these services. */
export interface ServiceOptions {
  /** Approvals that one transaction of the deadline worker transitions. */
  readonly deadlineBatch: number
  /** Sees the rows that the delivery engine is told of after a commit. */
  readonly enqueued: (rows: ReadonlyArray<QueueRow>) => void
}

const layerDelivery = ({ enqueued }: ServiceOptions) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const queue = makeDeliveryQueue(
        sql,
        clock,
        new Map([[WEBHOOK, channel]]),
        () => (committed) => Effect.sync(() => enqueued(committed?.rows ?? []))
      )
      return Layer.mock(Delivery, {
        enqueue: queue.enqueue,
        prepare: queue.prepare,
        enqueueWith: queue.enqueueWith,
        hasPeers: () => true,
        countRequest: () => true
      })
    })
  )

/** Services that are reached, and do nothing in a simulation, or that are required and never reached. */
const layerAround = Layer.mergeAll(
  RecentEvents.layer,
  Layer.mock(Spans, { record: () => Effect.void, localCounts: () => ({ waiting: 0, dropped: 0 }) }),
  Layer.mock(StoredUsage, { requireCapacity: () => Effect.void, add: () => {} }),
  Layer.mock(Email, { enabled: false, publish: () => Effect.void }),
  Layer.mock(KnownSecrets, {}),
  Layer.mock(Organizations, {}),
  Layer.mock(SecretBox, {
    keyIdOf: () => Option.none(),
    keyIds: [""],
    primaryPrefix: new Uint8Array(),
    sign: () => "",
    isSigned: () => false
  }),
  Layer.mock(Egress, {})
)

/** Approvals, sessions, steps, rules and deadlines, over a client, a clock and the bus of signals. */
export const layerServices = (options: ServiceOptions) =>
  Layer.mergeAll(
    Sessions.layer,
    Steps.layer,
    Approvals.layer,
    Grants.layer,
    Deadlines.layer({ batch: options.deadlineBatch })
  ).pipe(
    Layer.provideMerge(Layer.mergeAll(SessionWriter.layer, SessionFacts.layer)),
    Layer.provideMerge(Layer.mergeAll(Notifications.layer, Rules.layer)),
    Layer.provideMerge(SessionEvents.layer),
    Layer.provideMerge(layerDelivery(options)),
    Layer.provideMerge(Audit.layer),
    Layer.provideMerge(layerAround)
  )

/** A client as the one of all services. */
export const layerClient = (sql: PgClient.PgClient): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient> =>
  Layer.succeedContext(Context.make(PgClient.PgClient, sql).pipe(Context.add(SqlClient.SqlClient, sql)))
