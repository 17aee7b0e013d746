/** The export pipeline of spans, from `Spans` to the collector, in this process on a temporary database. */
import { Effect, Layer, ManagedRuntime, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { generateTraceId, KeyId, OrgId, TelemetryDestinationId } from "../../../src/domain/Ids.ts"
import { spanIdOf } from "../../../src/domain/telemetry/Span.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { Delivery } from "../../../src/server/delivery/Delivery.ts"
import { parseAllowedNetworks } from "../../../src/domain/network/PublicAddress.ts"
import { Egress } from "../../../src/server/egress/Egress.ts"
import { KnownSecrets } from "../../../src/server/secrets/KnownSecrets.ts"
import { SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { Spans, type SpansOptions } from "../../../src/server/telemetry/Spans.ts"
import { RecentPayloads } from "../../../src/server/telemetry/Spans/RecentPayloads.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import * as OtlpChannel from "../../../src/server/telemetry/Telemetry/OtlpChannel.ts"
import { destinationPlace, insertDestination } from "../../../src/server/telemetry/Telemetry/rows.ts"
import { encodeHeaders } from "../../../src/server/telemetry/Telemetry/sendSpans.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { attributesOf } from "./traces.ts"

/** Starts the pipeline. */
export const startPipeline = (url: Redacted.Redacted, options: SpansOptions) =>
  ManagedRuntime.make(
    Spans.layer(options).pipe(
      Layer.provideMerge(
        Layer.mergeAll(Delivery.layer(Effect.all([OtlpChannel.make(options)])), KnownSecrets.layer)
      ),
      Layer.provideMerge(
        Layer.mergeAll(
          Layer.orDie(SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] })),
          Egress.layer({
            dnsServers: [],
            allow: Result.getOrThrow(parseAllowedNetworks("127.0.0.0/8")),
            allowHttp: true,
            deny: [],
            ownHost: undefined
          }),
          StoreClock.layer,
          RecentPayloads.layer
        )
      ),
      Layer.provideMerge(Database.layer({ url }))
    )
  )

/** Creates an organization that exports to the collector at `url`. */
export const organizationExportingTo = Effect.fnUntraced(function* (url: string) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const org_id = yield* OrgId.generate
  const destination_id = yield* TelemetryDestinationId.generate
  const sealed = (column: "url" | "headers", text: string) =>
    box.seal(destinationPlace(org_id, destination_id, column), Redacted.make(text))
  yield* transaction(
    insertDestination(sql, {
      org_id,
      destination_id,
      url: yield* sealed("url", url),
      url_hint: "stub",
      headers: yield* sealed("headers", yield* encodeHeaders({ authorization: "Bearer of-a-benchmark" })),
      content: false,
      trace: "own",
      scores: "span",
      compression: "auto",
      created_at: yield* (yield* StoreClock).now,
      created_by_id: yield* KeyId.generate,
      created_by_name: "bench"
    })
  )
  return org_id
})

/** Records `count` traces of one span, as the service does. */
export const recordTraces = Effect.fnUntraced(function* (org_id: OrgId, count: number) {
  const spans = yield* Spans
  for (let number = 0; number < count; number++) {
    const trace_id = yield* generateTraceId
    yield* spans.record(org_id, {
      trace_id,
      count: 1,
      whole: true,
      make: (at) => [
        {
          trace_id,
          span_id: spanIdOf(trace_id.slice(0, 16)),
          parent_span_id: null,
          name: "chat gpt-small",
          kind: "client",
          start: at,
          end: at,
          attributes: attributesOf(number)
        }
      ]
    })
  }
})
