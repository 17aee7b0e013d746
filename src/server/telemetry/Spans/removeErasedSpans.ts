import { Data, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { promisify } from "node:util"
import { gunzip, gzip } from "node:zlib"
import type { OrgId } from "../../../domain/Ids.ts"
import { isParentRemote } from "../../../domain/telemetry/OtlpJson.ts"
import { SpanId } from "../../../domain/telemetry/Span.ts"
import { runTraceIds } from "../../../domain/telemetry/SpanConventions.ts"
import { nextTurnOrYield } from "../../admission/LoopTurns.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

const gunzipBytes = promisify(gunzip)
const gzipBytes = promisify(gzip)

/** The most bytes of a request before compression; storage limits it to 1 MiB. */
const MAX_REQUEST_BYTES = 16 * 2 ** 20

const idRows = rowsOf(Schema.Struct({ id: Schema.String }))

/** The members of a span that tell which run or session it belongs to. */
const SpanIdentity = Schema.Struct({
  traceId: Schema.String,
  spanId: SpanId,
  parentSpanId: Schema.optionalKey(SpanId),
  flags: Schema.optionalKey(Schema.Int)
})

/** The part of an OTLP request that is read; other members stay as they are, unchecked: their values are most of a request. */
const Request = Schema.Struct({
  resourceSpans: Schema.Array(
    Schema.StructWithRest(
      Schema.Struct({
        scopeSpans: Schema.Array(
          Schema.StructWithRest(
            Schema.Struct({
              spans: Schema.Array(
                Schema.StructWithRest(SpanIdentity, [Schema.Record(Schema.String, Schema.Unknown)])
              )
            }),
            [Schema.Record(Schema.String, Schema.Unknown)]
          )
        )
      }),
      [Schema.Record(Schema.String, Schema.Unknown)]
    )
  )
})
type Request = typeof Request.Type

const decodeRequest = Schema.decodeUnknownResult(Schema.fromJsonString(Request))

/** A stored request has a form that this service does not write. It can hold content, so no error quotes it. */
export class UnreadableRequest extends Data.TaggedError("UnreadableRequest")<{
  readonly reason: "not gzip" | "no OTLP request of this service"
}> {}

/** Reads a request as it is sent. */
const decode = Effect.fnUntraced(function* (request: Uint8Array) {
  const json = yield* Effect.tryPromise({
    try: () => gunzipBytes(request, { maxOutputLength: MAX_REQUEST_BYTES }),
    catch: () => new UnreadableRequest({ reason: "not gzip" })
  })
  yield* nextTurnOrYield
  return yield* Effect.mapError(
    Effect.fromResult(decodeRequest(json.toString("utf8"))),
    () => new UnreadableRequest({ reason: "no OTLP request of this service" })
  )
})

const identitiesOf = ({ resourceSpans }: Request): ReadonlyArray<typeof SpanIdentity.Type> =>
  resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))

/**
 * The ids by which a span is found in a caller's trace, which is not the run's own: its own, for a run and its calls, and
 * its parent's, for feedback. A remote parent is a span of the caller, who may be called by another run's model.
 */
const joinedIdsOf = ({ flags = 0, parentSpanId, spanId }: typeof SpanIdentity.Type): ReadonlyArray<SpanId> =>
  parentSpanId === undefined || isParentRemote(flags) ? [spanId] : [spanId, parentSpanId]

/**
 * Finds the ids of these spans by which they belong to erased runs and sessions: trace ids, and span ids
 * of runs in a caller's trace.
 */
const findErasedIds = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  spans: ReadonlyArray<typeof SpanIdentity.Type>
) => {
  const trace_ids = [...new Set(spans.map(({ traceId }) => traceId))]
  const span_ids = [...new Set(spans.flatMap(joinedIdsOf))]
  const runs = span_ids.map(runTraceIds)
  return idRows.all(sql`
    SELECT trace_id AS id
    FROM erased_traces
    WHERE org_id = ${org_id}
      AND trace_id = ANY(${textArray(trace_ids)})
    UNION ALL
    SELECT joined.span_id AS id
    FROM unnest(
      ${textArray(span_ids)}::text[],
      ${textArray(runs.map(({ first }) => first))}::text[],
      ${textArray(runs.map(({ last }) => last))}::text[]
    ) AS joined (span_id, first, last)
      CROSS JOIN LATERAL (
        SELECT
        FROM erased_traces
        WHERE org_id = ${org_id}
          AND trace_id BETWEEN joined.first AND joined.last
        ORDER BY trace_id
        LIMIT 1
      ) AS erased
  `)
}

const withoutErased = ({ resourceSpans, ...rest }: Request, erased: ReadonlySet<string>): Request => ({
  ...rest,
  resourceSpans: resourceSpans.map((resource) => ({
    ...resource,
    scopeSpans: resource.scopeSpans.map((scope) => ({
      ...scope,
      spans: scope.spans.filter(
        (span) => !erased.has(span.traceId) && !joinedIdsOf(span).some((id) => erased.has(id))
      )
    }))
  }))
})

/**
 * Returns a request of an organization without the spans of its erased runs and sessions; undefined if it has none.
 * Requests are gzipped.
 */
export const removeErasedSpans = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: Uint8Array
) {
  const decoded = yield* decode(request)
  const erased = yield* findErasedIds(sql, org_id, identitiesOf(decoded))
  if (erased.length === 0) return undefined
  const left = withoutErased(decoded, new Set(erased.map(({ id }) => id)))
  yield* nextTurnOrYield
  const json = JSON.stringify(left)
  return yield* Effect.promise(() => gzipBytes(json))
})
