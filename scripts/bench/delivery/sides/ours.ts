/** The delivery engine with its webhook channel, configured as in the service. */
import { Array as Arr, DateTime, Effect, Layer, ManagedRuntime, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { DeliveryId, EndpointId, EventId, OrgId } from "../../../../src/domain/Ids.ts"
import { parseAllowedNetworks } from "../../../../src/domain/network/PublicAddress.ts"
import { generateSigningSecret } from "../../../../src/domain/delivery/WebhookSignature.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { shardOf } from "../../../../src/server/delivery/Delivery/shardOf.ts"
import { Egress } from "../../../../src/server/egress/Egress.ts"
import { endpointPlace, insertEvents } from "../../../../src/server/notifications/Notifications/rows.ts"
import { VerificationPolicy } from "../../../../src/server/identity/VerificationPolicy.ts"
import { RecentEvents } from "../../../../src/server/notifications/Notifications/RecentEvents.ts"
import * as WebhookChannel from "../../../../src/server/notifications/Notifications/WebhookChannel.ts"
import { SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { body, CONCURRENCY, ENDPOINTS, HANGING_PATH, ORGANIZATIONS, pathOf } from "../message.ts"
import { nowMicros, serveSide, pollUntilDone } from "../protocol.ts"

/** Deliveries per enqueue statement, as when many approvals fall due together. */
const ENQUEUE = 500

const url = Redacted.make(process.env["DATABASE_URL"] ?? "")
const receiver = `http://127.0.0.1:${process.env["BENCH_PORT"]}`
const keepMillis = Number(process.env["BENCH_KEEP_MILLIS"] ?? "0")

/** Reports every delivery as successful without sending it, to measure the database alone. */
const layerNoEgress = Layer.succeed(
  Egress,
  Egress.of({
    vet: () => Effect.die("not used by this benchmark"),
    send: () => Effect.succeed({ status: 204, retryAfter: undefined, body: new Uint8Array(), complete: true })
  })
)

const services = Layer.mergeAll(
  SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] }),
  process.env["BENCH_SEND"] === "nothing"
    ? layerNoEgress
    : Egress.layer({
        dnsServers: [],
        allow: Result.getOrThrow(parseAllowedNetworks("127.0.0.1/32")),
        allowHttp: true,
        deny: [],
        ownHost: undefined
      }),
  StoreClock.layer,
  RecentEvents.layer,
  VerificationPolicy.layerNone
).pipe(Layer.provideMerge(Database.layer({ url })))
/** Consecutive failures before a cooldown. The fairness benchmark sets it out of reach, so that attempts hang throughout. */
const cooldownAfter = Number(process.env["BENCH_COOLDOWN_AFTER"] ?? "5")

const runtime = ManagedRuntime.make(
  Delivery.layer(Effect.all([WebhookChannel.make({ queueLimit: 1_000_000, cooldownAfter })]), {
    slots: { slots: CONCURRENCY, retrySlots: CONCURRENCY * 0.75, organizationSlots: CONCURRENCY },
    ...(keepMillis > 0 ? { retention: { keep: keepMillis, every: "2 seconds" } } : {})
  }).pipe(Layer.provideMerge(services))
)

const makeEndpoint = Effect.fnUntraced(function* (org_id: OrgId, path: string) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const endpoint_id = yield* EndpointId.generate
  yield* sql`INSERT INTO notification_endpoints ${sql.insert({
    org_id,
    endpoint_id,
    url: yield* box.seal(endpointPlace(org_id, endpoint_id, "url"), Redacted.make(receiver + path)),
    url_hint: "",
    secret: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), yield* generateSigningSecret),
    events: ["approval.requested"],
    active: true,
    created_at: new Date(),
    created_by_id: "key",
    created_by_name: "key"
  })}`
  return endpoint_id
})

const organizations = await runtime.runPromise(
  Effect.forEach(Arr.range(0, ORGANIZATIONS - 1), (organization) =>
    Effect.gen(function* () {
      const org_id = yield* OrgId.generate
      const endpoints = yield* Effect.forEach(Arr.range(0, ENDPOINTS - 1), (endpoint) =>
        makeEndpoint(org_id, pathOf(organization, endpoint))
      )
      return { org_id, endpoints }
    })
  )
)

interface Subscriber {
  readonly org_id: OrgId
  readonly endpoints: ReadonlyArray<EndpointId>
}

/** Publishes one event per organization to all of its endpoints, in one transaction. */
const publishTo = (to: Arr.NonEmptyReadonlyArray<Subscriber>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const delivery = yield* Delivery
    const events = yield* Effect.forEach(to, (one) =>
      Effect.map(EventId.generate, (event_id) => ({ ...one, event_id }))
    )
    let at = 0
    yield* transaction(
      Effect.forEach(
        Arr.chunksOf(events, ENQUEUE / ENDPOINTS),
        Effect.fnUntraced(function* (chunk) {
          yield* insertEvents(
            sql,
            Arr.map(chunk, ({ event_id, org_id }) => ({
              org_id,
              event_id,
              type: "approval.requested",
              approval_id: "apr",
              body: Buffer.from(body),
              occurred_at: DateTime.nowUnsafe()
            }))
          )
          yield* delivery.enqueue(
            chunk.flatMap(({ endpoints, event_id, org_id }) =>
              endpoints.map((destination_id) => ({
                org_id,
                event_id,
                destination_id,
                channel: WebhookChannel.WEBHOOK,
                label: "bench"
              }))
            )
          )
        }),
        { discard: true }
      ).pipe(
        // Registered first, so that the time is taken before the engine's own hook, which starts sending.
        (inside) => Effect.andThen(sql.afterCommit(Effect.sync(() => void (at = nowMicros()))), inside)
      )
    )
    return { ids: events.map(({ event_id }) => event_id), at }
  })

let next = 0
const publish = (count: number) =>
  publishTo(Arr.makeBy(count, () => organizations[next++ % ORGANIZATIONS] ?? organizations[0]))

const lanes = organizations.flatMap(({ endpoints, org_id }) =>
  endpoints.map((endpoint) => ({ org_id, endpoint, shard: shardOf(endpoint) }))
)
const hasQueued = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`
    SELECT 1 AS found
    FROM unnest(
      ${lanes.map(({ shard }) => shard)}::smallint[],
      ${lanes.map(({ org_id }) => org_id)}::text[],
      ${lanes.map(({ endpoint }) => endpoint)}::text[]
    ) AS l (shard, org_id, destination_id)
    CROSS JOIN LATERAL (
      SELECT 1
      FROM delivery_queue q
      WHERE q.shard = l.shard
        AND q.org_id = l.org_id
        AND q.destination_id = l.destination_id
      LIMIT 1
    ) q
    LIMIT 1
  `
  return rows.length > 0
})

/** Adds the hanging endpoint to the first organization, so that it shares the limits of that organization. */
const queueForHanging = Effect.fnUntraced(function* (deliveries: number) {
  const [{ org_id }] = organizations
  const destination_id = yield* makeEndpoint(org_id, HANGING_PATH)
  for (let count = 0; count < deliveries; count += ENQUEUE) {
    yield* publishTo(Arr.makeBy(ENQUEUE, () => ({ org_id, endpoints: [destination_id] })))
  }
})

/** Queues deliveries by statements of its own, as another replica would: enqueueing them is not part of what this process does. */
const queueAhead = Effect.fnUntraced(function* (deliveries: number, perSecond: number, afterMillis: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* Effect.forEach(Arr.range(0, deliveries - 1), (index) =>
    Effect.gen(function* () {
      const {
        endpoint: destination_id,
        org_id,
        shard
      } = yield* Effect.fromNullishOr(lanes[index % lanes.length])
      const event_id = yield* EventId.generate
      return { org_id, destination_id, shard, event_id, delivery_id: yield* DeliveryId.generate }
    })
  )
  const column = (name: "org_id" | "destination_id" | "event_id" | "delivery_id") =>
    rows.map((row) => row[name])
  yield* transaction(
    sql`
      WITH given AS (
        SELECT *
        FROM unnest(
          ${rows.map(({ shard }) => shard)}::smallint[], ${column("org_id")}::text[], ${column("destination_id")}::text[],
          ${column("event_id")}::text[], ${column("delivery_id")}::text[]
        ) WITH ORDINALITY AS g (shard, org_id, destination_id, event_id, delivery_id, place)
      ), events AS (
        INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
        SELECT org_id, event_id, 'approval.requested', 'apr', ${Buffer.from(body)}::bytea, now()
        FROM given
      ), logged AS (
        INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
        SELECT org_id, destination_id, delivery_id, ${WebhookChannel.WEBHOOK}, event_id, 'bench', 'pending', now()
        FROM given
      )
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
      SELECT
        shard, org_id, destination_id, delivery_id, ${WebhookChannel.WEBHOOK}, event_id,
        now() + (${afterMillis}::float8 + place * 1000 / ${perSecond}::float8) * interval '1 millisecond', 0, 0
      FROM given
      ORDER BY place
    `
  )
})

serveSide({
  queueAhead: (deliveries, perSecond, afterMillis) =>
    runtime.runPromise(queueAhead(deliveries, perSecond, afterMillis)),
  queueForHanging: (deliveries) => runtime.runPromise(queueForHanging(deliveries)),
  publish: (events) => runtime.runPromise(publish(events)),
  settled: () => pollUntilDone(() => runtime.runPromise(hasQueued)),
  stop: () => runtime.dispose()
})
