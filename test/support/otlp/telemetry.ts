import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { generateTraceId, OrgId, type TelemetryDestinationId, type TraceId } from "../../../src/domain/Ids.ts"
import { type Span, spanIdOf } from "../../../src/domain/telemetry/Span.ts"
import type { TelemetryDelivery } from "../../../src/domain/telemetry/TelemetryDestination.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../eventually.ts"
import { startCollector, type CollectorResponse } from "./collector.ts"

/** A secret that no database row, log or response may contain. */
export const TOKEN = "s3cr3t-t0ken-of-the-collector"

/** An admin of a new organization whose spans go to a collector with these responses. */
export const newTelemetryOrg = Effect.fnUntraced(function* (
  organization: string,
  answers?: CollectorResponse | ReadonlyArray<CollectorResponse>
) {
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const key = yield* countersign.key({}, organization)
  const admin = yield* countersign.clientWith(key)
  const peer = yield* startCollector(answers)
  const { id } = yield* admin.telemetryDestinations.create({
    payload: { url: `${peer.url}/private-path`, headers: { authorization: `Bearer ${TOKEN}` } }
  })
  const [row] = yield* sql<{ readonly org_id: string }>`
    SELECT org_id
    FROM telemetry_destinations
    WHERE destination_id = ${id}
  `
  return {
    admin,
    key,
    peer,
    id,
    params: { id },
    org_id: OrgId.make(row?.org_id ?? assert.fail("a destination"))
  }
})

/** A minimal span. */
export const someSpan = (trace_id: TraceId, index = 0): Span => ({
  trace_id,
  span_id: spanIdOf((index + 1).toString(16).padStart(16, "0")),
  parent_span_id: null,
  name: "a span",
  kind: "internal",
  start: 1_795_228_385_000,
  end: 1_795_228_385_001,
  attributes: { "svc.test": true }
})

/** Records traces, by default of one span each, as a service does. */
export const recordSpans = (org_id: OrgId, traces: number, spansEach = 1) =>
  Effect.gen(function* () {
    const spans = yield* Spans
    for (let count = 0; count < traces; count++) {
      const trace_id = yield* generateTraceId
      yield* spans.record(org_id, {
        trace_id,
        count: spansEach,
        make: () => Array.from({ length: spansEach }, (_, index) => someSpan(trace_id, index))
      })
    }
  })

/** Records traces and stores them. */
export const sendSpans = (org_id: OrgId, traces: number, spansEach = 1) =>
  Effect.andThen(
    recordSpans(org_id, traces, spansEach),
    Effect.flatMap(Spans, (spans) => spans.flush)
  )

/** Waits until the destination's deliveries satisfy a predicate. */
export const awaitBatches = (
  client: ClientCalls,
  id: TelemetryDestinationId,
  holds: (list: ReadonlyArray<TelemetryDelivery>) => boolean
) =>
  eventually(
    Effect.map(
      client.telemetryDestinations.listDeliveries({ params: { id } }),
      ({ deliveries }) => deliveries
    ),
    holds
  )

/** Waits until the destination's only delivery has this status. */
export const awaitOnlyBatch = (client: ClientCalls, id: TelemetryDestinationId, status: string) =>
  Effect.map(
    awaitBatches(client, id, (list) => list.length === 1 && list[0]?.status === status),
    ([batch]) => batch ?? assert.fail("a delivery")
  )

/** The organization's destination as the API returns it. */
export const shownDestination = (client: ClientCalls) =>
  Effect.map(
    client.telemetryDestinations.list(),
    ({ destinations }) => destinations[0] ?? assert.fail("a destination")
  )
