import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createServer } from "node:http"
import { gunzipSync } from "node:zlib"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import type { TraceId } from "../../../../src/domain/Ids.ts"
import type { ScoreFormat } from "../../../../src/domain/telemetry/TelemetryDestination.ts"
import { Spans } from "../../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { listenOnFreePort } from "../../../support/listenOnFreePort.ts"
import { awaitBatches, shownDestination, TOKEN } from "../../../support/otlp/telemetry.ts"
import { service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

/** A request of scores. */
interface ScoreRequest {
  readonly path: string
  readonly authorization: string | undefined
  readonly body: unknown
}

/** A tool on loopback that accepts all spans and answers requests of scores in this order; the last answer is repeated. */
const startTool = (answers: ReadonlyArray<readonly [status: number, body: unknown]>) =>
  Effect.gen(function* () {
    const scores: Array<ScoreRequest> = []
    const traceTypes: Array<string | undefined> = []
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const path = request.url ?? ""
        if (path.endsWith("/v1/traces")) {
          traceTypes.push(request.headers["content-type"])
          response.writeHead(200, { "content-type": "application/json" }).end("{}")
          return
        }
        const bytes = Buffer.concat(chunks)
        const isGzipped = request.headers["content-encoding"] === "gzip"
        const [status, body] = answers[Math.min(scores.length, answers.length - 1)] ?? [500, {}]
        scores.push({
          path,
          authorization: request.headers.authorization,
          body: JSON.parse((isGzipped ? gunzipSync(bytes) : bytes).toString())
        })
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
      })
    })
    const port = yield* Effect.acquireRelease(
      Effect.promise(() => listenOnFreePort(server)),
      () =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    )
    return { url: `http://127.0.0.1:${port}`, scores, traceTypes }
  })

/** An admin whose feedback goes to a tool with these answers. */
const newScoredOrg = Effect.fnUntraced(function* (
  organization: string,
  scores: ScoreFormat,
  path: string,
  answers: ReadonlyArray<readonly [status: number, body: unknown]>
) {
  const admin = yield* Effect.flatMap(Countersign, (countersign) => countersign.client({}, organization))
  const tool = yield* startTool(answers)
  const { id } = yield* admin.telemetryDestinations.create({
    payload: { url: `${tool.url}${path}`, headers: { authorization: `Bearer ${TOKEN}` }, scores }
  })
  return { admin, tool, id }
})

/** Logs a run with feedback, and stores its spans. Returns the ids of both. */
const scoredRun = Effect.fnUntraced(function* (admin: ClientCalls) {
  const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
  const run = yield* admin.tasks.run({
    params: { id: task_id },
    payload: { input: { text: "a secret" }, answer: { category: "other" } }
  })
  const feedback = yield* admin.feedback.create({ payload: { inference_log_id: run.trace_id, score: 1 } })
  yield* Effect.flatMap(Spans, (spans) => spans.flush)
  const ids: { readonly trace_id: TraceId; readonly feedback_id: string; readonly author: string } = {
    trace_id: run.trace_id,
    feedback_id: feedback.id,
    author: feedback.created_by.id
  }
  return ids
})

layer(service({ environment: { COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300" } }), {
  excludeTestServices: true
})("Telemetry › scores", (it) => {
  it.effect("Langfuse gets the score of a run, and a rejected batch is counted and replayed", () =>
    Effect.gen(function* () {
      const { admin, id, tool } = yield* newScoredOrg("langfuse", "langfuse", "/api/public/otel/v1/traces", [
        [401, { message: TOKEN }],
        [207, { successes: [], errors: [] }]
      ])
      const { author, feedback_id, trace_id } = yield* scoredRun(admin)
      const failed = yield* awaitBatches(admin, id, (list) =>
        list.some(({ signal, status }) => signal === "scores" && status === "failed")
      )
      const scores = failed.find(({ signal }) => signal === "scores") ?? assert.fail("a batch of scores")
      assert.deepInclude(scores, { span_count: 1, attempts: 1, http_status: 401 })
      assert.match(scores.last_error ?? "", /^HTTP 401: check the authentication headers/)
      assert.deepInclude(
        failed.find(({ signal }) => signal === "spans"),
        { span_count: 2 }
      )
      yield* admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: scores.id } })
      yield* awaitBatches(admin, id, (list) => list.every(({ status }) => status === "delivered"))
      const { dropped_spans, pending_spans } = yield* shownDestination(admin)
      assert.deepStrictEqual([pending_spans, dropped_spans], [0, 0])
      assert.lengthOf(tool.scores, 2)
      const [first, second] = tool.scores
      assert.deepStrictEqual(first, second)
      assert.deepInclude(second, { path: "/api/public/ingestion", authorization: `Bearer ${TOKEN}` })
      assert.nestedPropertyVal(second, "body.batch[0].type", "score-create")
      assert.nestedPropertyVal(second, "body.batch[0].id", feedback_id)
      assert.nestedPropertyVal(second, "body.batch[0].body.id", `${trace_id}.${author}`)
      assert.nestedPropertyVal(second, "body.batch[0].body.traceId", trace_id)
      assert.nestedPropertyVal(second, "body.batch[0].body.value", 1)
    })
  )

  it.effect(
    "a later opinion has the score's id of the earlier one, and so has a withdrawal, which has no value",
    () =>
      Effect.gen(function* () {
        const { admin, id, tool } = yield* newScoredOrg(
          "opinions",
          "langfuse",
          "/api/public/otel/v1/traces",
          [[207, { successes: [], errors: [] }]]
        )
        const { trace_id } = yield* scoredRun(admin)
        const sent = Effect.gen(function* () {
          yield* Effect.flatMap(Spans, (spans) => spans.flush)
          yield* awaitBatches(admin, id, (list) => list.every(({ status }) => status === "delivered"))
          return tool.scores.length
        })
        // One after the other: batches that wait at the same time are sent at the same time.
        assert.strictEqual(yield* sent, 1)
        const later = yield* admin.feedback.create({ payload: { inference_log_id: trace_id, score: -1 } })
        assert.strictEqual(yield* sent, 2)
        yield* admin.feedback.withdraw({ params: { id: later.id } })
        // Nothing is sent of what counts no more.
        yield* admin.feedback.withdraw({ params: { id: later.id } })
        assert.strictEqual(yield* sent, 3)
        const [first, second, withdrawn] = tool.scores.map(({ body }) => JSON.stringify(body))
        const scoreId = `"id":"${trace_id}.${later.created_by.id}"`
        for (const body of [first, second, withdrawn]) assert.include(body, scoreId)
        assert.include(second, '"value":-1')
        assert.include(withdrawn, '"value":"withdrawn","dataType":"CATEGORICAL"')
      })
  )

  it.effect("scores that a tool rejects are dropped spans, and cannot be replayed", () =>
    Effect.gen(function* () {
      const { admin, id } = yield* newScoredOrg("rejected", "langfuse", "/api/public/otel/v1/traces", [
        [207, { successes: [], errors: [{ id: "a", status: 400, message: TOKEN }] }]
      ])
      yield* scoredRun(admin)
      const list = yield* awaitBatches(admin, id, (batches) =>
        batches.some(({ status }) => status === "partial")
      )
      const partial = list.find(({ status }) => status === "partial") ?? assert.fail("a partial batch")
      assert.deepInclude(partial, {
        signal: "scores",
        rejected_spans: 1,
        last_error: "the tool rejected 1 of 1 scores"
      })
      assert.strictEqual((yield* shownDestination(admin)).dropped_spans, 1)
      const replay = yield* Effect.flip(
        admin.telemetryDestinations.replayDelivery({ params: { id, delivery_id: partial.id } })
      )
      assert.strictEqual(replay._tag, "NOT_REPLAYABLE")
    })
  )

  it.effect("Phoenix gets annotations and a collector gets log records, each in batches", () =>
    Effect.gen(function* () {
      const phoenix = yield* newScoredOrg("phoenix", "phoenix", "/s/team/v1/traces", [[200, { data: [] }]])
      const log = yield* newScoredOrg("log", "log", "", [[200, {}]])
      for (const { admin, id } of [phoenix, log]) {
        yield* scoredRun(admin)
        yield* awaitBatches(
          admin,
          id,
          (list) => list.length === 2 && list.every(({ status }) => status === "delivered")
        )
      }
      assert.deepStrictEqual(
        [...phoenix.tool.scores, ...log.tool.scores].map(({ path }) => path),
        ["/s/team/v1/span_annotations", "/v1/logs"]
      )
      // Phoenix takes spans in Protobuf only.
      yield* phoenix.admin.telemetryDestinations.test({ params: { id: phoenix.id } })
      assert.deepStrictEqual(phoenix.tool.traceTypes, ["application/x-protobuf", "application/x-protobuf"])
      assert.deepStrictEqual(log.tool.traceTypes, ["application/json"])
      assert.nestedPropertyVal(phoenix.tool.scores[0], "body.data[0].result.label", "correct")
      assert.nestedPropertyVal(
        log.tool.scores[0],
        "body.resourceLogs[0].scopeLogs[0].logRecords[0].eventName",
        "gen_ai.evaluation.result"
      )
    })
  )

  it.effect("a destination for scores needs the tool's address for traces", () =>
    Effect.gen(function* () {
      const admin = yield* Effect.flatMap(Countersign, (countersign) => countersign.client({}, "misplaced"))
      const refused = yield* Effect.flip(
        admin.telemetryDestinations.create({
          payload: { url: "http://127.0.0.1:9/api/public/otel", scores: "langfuse" }
        })
      )
      assert.strictEqual(refused._tag, "INVALID_URL")
      assert.include(JSON.stringify(refused), "/api/public/otel/v1/traces")
    })
  )
})
