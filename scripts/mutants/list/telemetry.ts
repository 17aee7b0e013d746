/** Mutants of span export: limits, the accounting of pending and dropped spans, and which responses are retried. */
import type { ListedMutant } from "../list.ts"

const channel = "server/telemetry/Telemetry/OtlpChannel.ts"
const retention = "server/telemetry/Telemetry/Retention.ts"
const deliveries = "server/telemetry/Telemetry/deliveries.ts"
const rows = "server/telemetry/Telemetry/rows.ts"
const spans = "server/telemetry/Spans.ts"
const buffer = "server/telemetry/Spans/SpanBuffer.ts"
const orgBuffer = "server/telemetry/Spans/OrgBuffer.ts"
const cache = "server/telemetry/Spans/DestinationCache.ts"
const redactors = "server/telemetry/Spans/Redactors.ts"
const store = "server/telemetry/Spans/storeBatches.ts"
const response = "domain/telemetry/OtlpResponse.ts"

const exportTests = ["server/telemetry/Telemetry/export.test.ts"]
const replayTests = ["server/telemetry/Telemetry/replay.test.ts"]
const bufferTests = ["server/telemetry/Spans/SpanBuffer.test.ts"]
const cacheTests = ["server/telemetry/Spans/DestinationCache.test.ts"]
const redactorTests = ["server/telemetry/Spans/Redactors.test.ts"]
const outageTests = ["server/telemetry/Spans/outages.test.ts"]
const scoreTests = ["server/telemetry/Telemetry/scores.test.ts"]
const joinedTests = ["server/telemetry/Telemetry/joinedTraces.test.ts"]
const responseTests = ["domain/telemetry/OtlpResponse.test.ts"]

export const telemetry: ReadonlyArray<ListedMutant> = [
  {
    file: response,
    from: "new Set([429, 502, 503, 504])",
    to: "new Set([429, 500, 502, 503, 504])",
    tests: responseTests
  },
  { file: response, from: "Math.min(spans, Number(", to: "(Number(", tests: responseTests },
  {
    file: response,
    from: "return response.body.length >= MAX_RESPONSE_BYTES ?",
    to: "return false ?",
    tests: [...responseTests, ...exportTests]
  },
  {
    file: "server/telemetry/Telemetry/sendSpans.ts",
    from: '"RefusedAddress",',
    to: "",
    tests: ["server/telemetry/Telemetry/sendSpans.test.ts"]
  },
  { file: channel, from: "WHERE e.status <> 'failed' AND", to: "WHERE", tests: exportTests },
  {
    file: channel,
    from: "dropped_spans = d.dropped_spans + s.rejected,",
    to: "",
    tests: exportTests
  },
  {
    file: channel,
    from: "CASE WHEN s.delivered THEN ${currentTime(sql, storeClock)} ELSE d.last_delivered_at END",
    to: "${currentTime(sql, storeClock)}",
    tests: exportTests
  },
  { file: retention, from: "WHERE l.status = 'failed' FOR UPDATE", to: "FOR UPDATE", tests: exportTests },
  {
    file: retention,
    from: "FOR UPDATE OF l SKIP LOCKED",
    to: "",
    tests: [...replayTests, ...exportTests]
  },
  {
    file: retention,
    from: "FOR UPDATE OF l SKIP LOCKED",
    to: "FOR UPDATE OF l",
    tests: [...replayTests, ...exportTests]
  },
  {
    file: retention,
    from: "AND b.batch_id < ${`evt_${uuidTimePrefix(cutoff)}`}",
    to: "",
    tests: exportTests
  },
  {
    file: deliveries,
    from: "AND delivery_id = ${delivery_id} FOR UPDATE",
    to: "AND delivery_id = ${delivery_id}",
    tests: replayTests
  },
  {
    file: deliveries,
    from: "queueLimit - spans.localCounts(org_id).waiting",
    to: "queueLimit",
    tests: exportTests
  },
  {
    file: deliveries,
    from: "AND waiting_spans + ${batch.spans}::int <= ${capacity}::int",
    to: "",
    tests: exportTests
  },
  {
    file: rows,
    from: "AND (tested_at > ${toDate(now)}::timestamptz - ${seconds}::float8 * interval '1 second') IS NOT TRUE",
    to: "",
    tests: ["server/telemetry/Telemetry/test.test.ts"]
  },
  {
    file: rows,
    from: "DELETE FROM telemetry_destinations WHERE org_id = ${org_id} AND",
    to: "DELETE FROM telemetry_destinations WHERE",
    tests: ["server/telemetry/Telemetry.test.ts"]
  },
  { file: store, from: "ORDER BY org_id FOR NO KEY UPDATE", to: "ORDER BY org_id", tests: exportTests },
  { file: store, from: "if (spans > free) {", to: "if (false) {", tests: exportTests },
  {
    file: store,
    from: "for (const [buffer, spans] of drops) {",
    to: "for (const [buffer, spans] of new Map<OrgBuffer, number>()) {",
    tests: exportTests
  },
  { file: spans, from: "buffer.drop(batch.buffer, batch.spans, now())", to: "", tests: outageTests },
  { file: spans, from: "buffer.restoreDrops(drops, now())", to: "", tests: outageTests },
  {
    file: spans,
    from: "while: (error) => SqlError.isSqlError(error) && isDatabaseUnavailable(error)",
    to: "while: () => false",
    tests: outageTests
  },
  {
    file: spans,
    from: "Effect.tapCause(() => Effect.sync(() => destinations.retryLookups(org_ids)))",
    to: "Effect.tapCause(() => Effect.void)",
    tests: outageTests
  },
  {
    file: buffer,
    from: "buffer.inMemory + buffer.inDatabase + count <= queueLimit &&",
    to: "buffer.inMemory + count <= queueLimit &&",
    tests: [...bufferTests, ...exportTests]
  },
  { file: buffer, from: "bytes < MAX_BUFFERED_BYTES &&", to: "", tests: bufferTests },
  { file: buffer, from: "inboxBudget.fits(buffer.org_id, characters)", to: "true", tests: bufferTests },
  {
    file: buffer,
    from: "!fits || open.spans === MAX_BATCH_SPANS",
    to: "!fits",
    tests: bufferTests
  },
  {
    file: buffer,
    from: "batch.buffer.inMemory -= batch.spans",
    to: "",
    tests: exportTests
  },
  {
    file: "server/telemetry/Spans/FairBudget.ts",
    from: "(used.get(org_id) ?? 0) + characters <= size / 2",
    to: "(used.get(org_id) ?? 0) + characters <= size",
    tests: bufferTests
  },
  {
    file: orgBuffer,
    from: "now - buffer.countedAt >= buffer.countTtlMillis",
    to: "true",
    tests: bufferTests
  },
  {
    file: orgBuffer,
    from: "Math.min(MAX_COUNT_TTL_MILLIS, 2 * buffer.countTtlMillis)",
    to: "2 * buffer.countTtlMillis",
    tests: bufferTests
  },
  {
    file: cache,
    from: 'state === undefined || state._tag === "Absent" || lookups.has(org_id)',
    to: 'state === undefined || state._tag === "Absent"',
    tests: cacheTests
  },
  {
    file: cache,
    from: 'if (same || state._tag === "Unknown") {',
    to: "if (true) {",
    tests: cacheTests
  },
  {
    file: cache,
    from: 'if (found?._tag === "Absent" && now < found.until) return undefined',
    to: 'if (found?._tag === "Absent") return undefined',
    tests: cacheTests
  },
  { file: cache, from: "if (budget.fits(org_id, one.characters)) {", to: "if (true) {", tests: cacheTests },
  {
    file: cache,
    from: "releaseBudget(org_id, state.waiting) if (destination === undefined)",
    to: "if (destination === undefined)",
    tests: cacheTests
  },
  {
    file: redactors,
    from: "if (isTransient(cause)) return Effect.failCause(cause)",
    to: "",
    tests: redactorTests
  },
  {
    file: redactors,
    from: "if (JSON.stringify(value).length > MAX_CONTENT_CHARACTERS) return TOO_LONG",
    to: "",
    tests: redactorTests
  },
  {
    file: redactors,
    from: 'redaction._tag === "Redaction" ? redaction.value : REDACTED',
    to: 'redaction._tag === "Redaction" ? redaction.value : value',
    tests: redactorTests,
    equivalent:
      "A value has at most 32 Ki characters of JSON, so fewer values than a search is limited to: redaction never fails here."
  },
  {
    file: orgBuffer,
    from: "(exported.caller === null || (exported.caller.flags & 1) === 1) &&",
    to: "",
    tests: joinedTests
  },
  {
    file: "domain/telemetry/SpanConventions.ts",
    from: 'mode === "join" && run.caller !== null',
    to: "false",
    tests: joinedTests
  },
  {
    file: buffer,
    from: 'if (separate !== null && score !== undefined) append(buffer, "scores", separate.frame, score, now)',
    to: "",
    tests: scoreTests
  },
  {
    file: orgBuffer,
    from: "count + (buffer.separate !== null && score !== undefined ? 1 : 0)",
    to: "count",
    tests: bufferTests
  },
  {
    file: "domain/telemetry/ScoresResponse.ts",
    from: "if (errors.some((error) => isTransient(error.status)))",
    to: "if (false)",
    tests: ["domain/telemetry/ScoresResponse.test.ts"]
  },
  {
    file: "server/telemetry/Telemetry.ts",
    from: "if (hasSeparateScores(scores) && scoresUrl(address, scores) === undefined) {",
    to: "if (false) {",
    tests: scoreTests
  }
]
