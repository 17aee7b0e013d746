import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Redacted, Scope } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { NetAddress } from "effect/net"
import { SqlClient } from "effect/sql"
import { EventSource } from "eventsource"
import { connect, type Socket } from "node:net"
import { type OrgId, SessionId } from "../../../../src/domain/Ids.ts"
import { layerListen } from "../../../../src/server/http/listen.ts"
import { Revocations } from "../../../../src/server/identity/Revocations.ts"
import { SessionEvents } from "../../../../src/server/approvals/SessionEvents.ts"
import { SessionFacts } from "../../../../src/server/approvals/SessionFacts.ts"
import { SessionSignals } from "../../../../src/server/approvals/SessionSignals.ts"
import { SessionStream, type SessionStreamOptions } from "../../../../src/server/approvals/SessionStream.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { breakingProxy } from "../../../support/breakingProxy.ts"
import { eventually } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { send, service } from "../../../support/service.ts"
import {
  as,
  closeSession,
  seedSession,
  expectStream,
  seedReader,
  recordOutcomes
} from "../../../support/sessions.ts"
import { layerNoLimits } from "../../../support/layerNoLimits.ts"

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

const portOf = ({ address }: HttpServer.HttpServer["Service"]) =>
  NetAddress.isInetAddress(address) ? address.port : 0

/** Creates a key and a session of its organization. */
const createFollower = Effect.gen(function* () {
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const key = Redacted.value(yield* countersign.key({ preset: "runtime" }))
  const client = yield* countersign.clientWith(Redacted.make(key))
  const { session_id } = yield* client.sessions.create({})
  const [row] = yield* sql<{ org_id: OrgId }>`
    SELECT org_id FROM agent_sessions WHERE session_id = ${session_id}
  `
  if (row === undefined) throw new Error("the session must be in the database")
  return {
    key,
    session: { org_id: row.org_id, session_id },
    path: `/v1/agent-sessions/${session_id}/events/stream`
  }
})

layer(service(), { excludeTestServices: true })("GET /v1/agent-sessions/:id/events/stream", (it) => {
  it.effect(
    "the response is an event stream that is neither cached, compressed nor buffered, in blocks that each have an event",
    () =>
      Effect.gen(function* () {
        const { key, path, session } = yield* createFollower
        yield* recordOutcomes(session, 2)
        yield* closeSession(session)
        const { body, headers, status } = yield* send(path, { key })
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("content-type"), "text/event-stream")
        assert.strictEqual(headers.get("cache-control"), "no-store, no-transform")
        assert.strictEqual(headers.get("x-accel-buffering"), "no")
        assert.match(headers.get("x-request-id") ?? "", /^req_/)
        const [first, second, last, rest] = String(body["text"]).split("\n\n")
        assert.match(
          first ?? "",
          /^retry: 3000\nid: 1\nevent: tool:outcome\ndata: \{"id":1,"type":"tool:outcome",[^\n]*\}$/
        )
        assert.match(second ?? "", /^id: 2\n/)
        assert.match(last ?? "", /^id: 3\nevent: session:closed\ndata: [^\n]*"step_id":null[^\n]*$/)
        assert.strictEqual(rest, "")
      })
  )

  it.effect(
    "Last-Event-ID takes precedence over `after`, and 204 follows the last event of a closed session",
    () =>
      Effect.gen(function* () {
        const { key, path, session } = yield* createFollower
        yield* recordOutcomes(session, 5)
        yield* closeSession(session)
        const ids = ({ body }: { readonly body: Record<string, unknown> }) =>
          [...String(body["text"]).matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
        assert.deepStrictEqual(ids(yield* send(`${path}?after=4`, { key })), [5, 6])
        const both = yield* send(`${path}?after=1`, { key, headers: { "last-event-id": "5" } })
        assert.deepStrictEqual(ids(both), [6])
        assert.deepStrictEqual(ids(yield* send(`${path}?after=0`, { key })), range(1, 6))
        assert.strictEqual((yield* send(`${path}?after=6`, { key })).status, 204)
      })
  )

  it.effect(
    "an invalid or expired cursor, an unknown session, a missing key and a missing scope are refused",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const { key, path, session } = yield* createFollower
        yield* recordOutcomes(session, 5)
        for (const cursor of [
          "x",
          "-1",
          "01",
          "1.0",
          "1e0",
          "",
          " 1",
          "6",
          "9007199254740993",
          "99999999999999999999"
        ]) {
          const query = yield* send(`${path}?after=${encodeURIComponent(cursor)}`, { key })
          assert.deepStrictEqual([cursor, query.status, query.body["code"]], [cursor, 400, "INVALID_REQUEST"])
        }
        const header = yield* send(path, { key, headers: { "last-event-id": "five" } })
        assert.strictEqual(header.body["code"], "INVALID_REQUEST")
        assert.strictEqual(header.headers.get("content-type"), "application/problem+json")
        const missing = yield* SessionId.generate
        for (const id of [missing, "nothing"]) {
          const { body, status } = yield* send(`/v1/agent-sessions/${id}/events/stream`, { key })
          assert.deepStrictEqual([status, body["code"]], [404, "NOT_FOUND"])
        }
        const foreign = yield* countersign.key({}, "elsewhere")
        assert.strictEqual((yield* send(path, { key: foreign })).status, 404)
        assert.strictEqual((yield* send(path)).status, 401)
        const blind = yield* countersign.key({ scopes: ["feedback.read"] })
        assert.strictEqual((yield* send(path, { key: blind })).body["required_scope"], "sessions.read")
        yield* sql`DELETE FROM session_events WHERE session_id = ${session.session_id} AND number <= 2`
        const gone = yield* send(`${path}?after=1`, { key })
        assert.deepStrictEqual(
          [gone.status, gone.body["code"], gone.body["first_kept"]],
          [410, "CURSOR_EXPIRED", 3]
        )
      })
  )

  it.effect(
    "an EventSource gets every event across a broken connection and stops at the end of the session",
    () =>
      Effect.gen(function* () {
        const { key, path, session } = yield* createFollower
        const proxy = yield* breakingProxy({
          port: portOf(yield* HttpServer.HttpServer),
          breaks: 1,
          bytes: 4_000,
          seed: 3
        })
        const seen: Array<number> = []
        const over = yield* Deferred.make<void>()
        const source = new EventSource(proxy.url + path, {
          fetch: (url, init) =>
            fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } })
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => source.close()))
        for (const type of ["tool:outcome", "session:closed"]) {
          source.addEventListener(type, ({ data, lastEventId }) => {
            assert.propertyVal(JSON.parse(String(data)), "id", Number(lastEventId))
            seen.push(Number(lastEventId))
          })
        }
        // At the end of the stream the EventSource reconnects, and 204 stops it, as the specification says.
        source.addEventListener("error", () => {
          if (source.readyState === EventSource.CLOSED) Deferred.doneUnsafe(over, Effect.void)
        })
        yield* recordOutcomes(session, 30)
        yield* closeSession(session)
        yield* Deferred.await(over)
        assert.deepStrictEqual(seen, range(1, 31))
        assert.strictEqual(proxy.breaks(), 1)
      }).pipe(Effect.scoped)
  )

  it.effect("the stream of a key that is revoked ends, and is refused when it is opened again", () =>
    Effect.gen(function* () {
      const { client, url } = yield* Countersign
      const admin = yield* client()
      const { key, path } = yield* createFollower
      const answer = yield* Effect.promise(() =>
        fetch(url + path, { headers: { authorization: `Bearer ${key}` } })
      )
      const reader = answer.body?.getReader()
      yield* Effect.promise(async () => reader?.read())
      const [newest] = (yield* admin.apiKeys.list({})).keys
      if (newest === undefined) throw new Error("the key must be listed")
      yield* admin.apiKeys.revoke({ params: { id: newest.id } })
      // Not an error: the client reconnects.
      assert.deepStrictEqual(yield* Effect.promise(async () => reader?.read()), {
        done: true,
        value: undefined
      })
      assert.strictEqual((yield* send(path, { key })).status, 401)
    })
  )

  it.effect("a client that disconnects is removed", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const { url } = yield* Countersign
      const { key, path } = yield* createFollower
      const before = yield* streams.size
      const controller = new AbortController()
      const answer = yield* Effect.promise(() =>
        fetch(url + path, { headers: { authorization: `Bearer ${key}` }, signal: controller.signal })
      )
      yield* Effect.promise(async () => answer.body?.getReader().read())
      assert.strictEqual(yield* streams.size, before + 1)
      controller.abort()
      yield* Effect.repeat(streams.size, { until: (size) => size === before })
    })
  )
})

/** Serves the streams of one organization's sessions over a real socket, without the rest of the service. */
const serveStreams = (options: SessionStreamOptions) =>
  Effect.gen(function* () {
    const principal = yield* seedReader
    const scope = yield* Scope.make()
    const route = HttpRouter.use((router) =>
      Effect.gen(function* () {
        const streams = yield* SessionStream
        yield* router.add("GET", "/:id", (request) =>
          as(principal)(streams.open(SessionId.make(request.url.slice(1)), undefined)).pipe(
            Effect.map((stream) =>
              HttpServerResponse.stream(expectStream(stream), { contentType: "text/event-stream" })
            ),
            Effect.orDie
          )
        )
      })
    )
    const built = yield* SessionStream.layerEndOnShutdown.pipe(
      Layer.provideMerge(HttpRouter.serve(route, { disableLogger: true, disableListenLog: true })),
      Layer.provideMerge(SessionStream.layer(options)),
      Layer.provideMerge(Layer.mergeAll(SessionEvents.layer, Revocations.layer())),
      Layer.provideMerge(SessionSignals.layer),
      Layer.provide([SessionFacts.layer, StoreClock.layer]),
      Layer.provideMerge(layerListen({ host: "127.0.0.1", port: 0, drain: "1 hour" })),
      Layer.provide(layerNoLimits),
      Layer.buildWithScope(scope)
    )
    return {
      principal,
      // The event log of these streams, so that events signal them.
      record: (...args: Parameters<typeof recordOutcomes>) =>
        Effect.provideContext(recordOutcomes(...args), Context.pick(SessionEvents)(built)),
      port: portOf(Context.get(built, HttpServer.HttpServer)),
      streams: Context.get(built, SessionStream),
      stop: Scope.close(scope, Exit.void)
    }
  })

/** Requests a session's stream without reading the response. */
const openSocket = (port: number, id: SessionId): Effect.Effect<Socket, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.write(`GET /${id} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
        resume(Effect.succeed(socket))
      })
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

layer(TestDatabase.layerSql, { excludeTestServices: true })("SessionStream › over a socket", (it) => {
  it.effect("a client that does not read is cut, and other clients are not", () =>
    Effect.gen(function* () {
      const { port, principal, record, stop, streams } = yield* serveStreams({
        // Longer than this process, which is the quick client too, pauses on a busy machine.
        sendTimeout: "3 seconds",
        sweep: "20 millis"
      })
      const session = yield* seedSession(principal)
      yield* record(session, 1)
      const idle = yield* openSocket(port, session.session_id)
      idle.pause()
      const closed = yield* Deferred.make<void>()
      idle.on("close", () => Deferred.doneUnsafe(closed, Effect.void)).on("error", () => {})
      let bytes = 0
      const reading = yield* openSocket(port, session.session_id)
      reading.on("data", (data: Buffer) => void (bytes += data.length))
      yield* Effect.repeat(streams.size, { until: (size) => size === 2 })
      // More than the sockets' buffers hold: about 30 MB.
      yield* Effect.forEach(range(1, 100), () => record(session, 1_000), { discard: true })
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, streams.size), { until: (size) => size === 1 })
      yield* eventually(
        Effect.sync(() => bytes),
        (read) => read > 20_000_000
      )
      assert.isFalse(reading.destroyed)
      idle.resume()
      yield* Deferred.await(closed)
      yield* stop
    }).pipe(Effect.scoped)
  )

  it.effect("a shutdown does not wait for open streams, however long the drain is", () =>
    Effect.gen(function* () {
      const { port, principal, stop, streams } = yield* serveStreams({})
      const session = yield* seedSession(principal)
      const sockets = yield* Effect.forEach(range(1, 20), () => openSocket(port, session.session_id))
      const texts = yield* Effect.forEach(sockets, (socket) => {
        let text = ""
        socket.on("data", (data: Buffer) => void (text += data.toString("latin1")))
        return Effect.forkChild(
          Effect.callback<string>((resume) => {
            socket.once("close", () => resume(Effect.succeed(text)))
          }),
          { startImmediately: true }
        )
      })
      yield* Effect.repeat(streams.size, { until: (size) => size === 20 })
      yield* stop
      // The last chunk has length zero: an orderly end, after which clients reconnect to another replica. It is on its way after the stop.
      for (const text of yield* Fiber.joinAll(texts)) assert.match(text, /retry: 3000\n\r\n0\r\n\r\n$/)
    }).pipe(Effect.scoped)
  )
})
