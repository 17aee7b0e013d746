import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Redacted, Scope } from "effect"
import { createServer, request, type IncomingMessage, type RequestOptions } from "node:http"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { ACME, DOMAIN, type Front, NEIGHBOUR } from "../../support/fronts/Front.ts"
import { fronts } from "../../support/fronts/fronts.ts"
import { startCell } from "../../support/fronts/startCell.ts"
import { listenOnFreePort } from "../../support/listenOnFreePort.ts"
import { cloneDatabase } from "../../support/postgres.ts"

type FrontRequest = Omit<RequestOptions, "headers"> & {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Opens a request to a host name, over a connection to the front. Its response is read by the caller. */
const open = (front: Front, host: string, options: FrontRequest = {}) =>
  Effect.callback<IncomingMessage>((resume) => {
    const { body, headers, ...more } = options
    const sent = request(
      { host: "127.0.0.1", port: front.port, agent: false, ...more, headers: { host, ...headers } },
      (response) => resume(Effect.succeed(response))
    )
    sent.on("error", (error) => resume(Effect.die(error)))
    sent.end(body)
    return Effect.sync(() => sent.destroy())
  })

/** A request and the whole of its response. */
const exchange = (...args: Parameters<typeof open>) =>
  Effect.flatMap(open(...args), (response) =>
    Effect.promise(async () => {
      const parts: Array<Buffer> = []
      for await (const part of response) parts.push(Buffer.from(part))
      return { status: response.statusCode, headers: response.headers, text: Buffer.concat(parts).toString() }
    })
  )

const bearer = (key: Redacted.Redacted) => ({ authorization: `Bearer ${Redacted.value(key)}` })
const json = { "content-type": "application/json" }

/** A JSON text of an exact size, of a step. */
const stepOfSize = (bytes: number): string => {
  const step = (note: string) =>
    JSON.stringify({ step_id: "large", tool: "read", action_class: "read", arguments: { note } })
  return step("x".repeat(bytes - step("").length))
}

describe.for(fronts)("a front of cells, $name", ({ missing, start, unreached }) => {
  const live = it.live.skipIf(missing !== undefined)

  live("sends requests to the cell of their host name, in any case and with a port, and refuses others", () =>
    Effect.gen(function* () {
      const one = yield* startCell()
      const two = yield* startCell()
      const front = yield* start({ cells: { cell1: one.countersign.url, cell2: two.countersign.url } })
      const key1 = yield* one.countersign.key()
      const key2 = yield* two.countersign.key()
      const statuses = (host: string) =>
        Effect.forEach([key1, key2], (key) =>
          Effect.map(
            exchange(front, host, { path: "/v1/tasks", headers: bearer(key) }),
            ({ status }) => status
          )
        )
      assert.deepStrictEqual(yield* statuses(ACME), [200, 401])
      yield* front.routeAcme("cell2")
      yield* eventually(statuses(ACME), ([first]) => first === 401)
      for (const host of [ACME, ACME.toUpperCase(), `${ACME}:8443`])
        assert.deepStrictEqual(yield* statuses(host), [401, 200], host)
      for (const host of [NEIGHBOUR, `${NEIGHBOUR}:8443`])
        assert.deepStrictEqual(yield* statuses(host), [200, 401], host)
      for (const host of ["127.0.0.1", DOMAIN, `${DOMAIN}.invalid`, `not${DOMAIN}`, ""])
        assert.deepStrictEqual(yield* statuses(host), [421, 421], host)
      yield* front.routeAcme("cell1")
      yield* eventually(statuses(ACME), ([first]) => first === 200)
    }).pipe(Effect.scoped)
  )

  live("tells the cell the client's address, and nothing that the client says of it", () =>
    Effect.gen(function* () {
      // 127.0.0.2 is in a trusted network too: the service would take an address that comes before it in the header.
      const one = yield* startCell({ COUNTERSIGN_TRUSTED_PROXIES: "127.0.0.0/30" })
      const front = yield* start({ cells: { cell1: one.countersign.url, cell2: one.countersign.url } })
      const far = yield* one.countersign.key({ name: "far", allowed_networks: ["203.0.113.0/24"] })
      const near = yield* one.countersign.key({ name: "near", allowed_networks: ["127.0.0.9/32"] })
      const status = (
        key: Redacted.Redacted,
        localAddress: string,
        headers: Readonly<Record<string, string>> = {}
      ) =>
        Effect.map(
          exchange(front, NEIGHBOUR, {
            path: "/v1/tasks",
            localAddress,
            headers: { ...bearer(key), ...headers }
          }),
          (response) => response.status
        )
      const claimed = ["203.0.113.7", "203.0.113.7, 203.0.113.8"]
      for (const localAddress of ["127.0.0.2", "127.0.0.9"]) {
        for (const address of claimed) {
          const headers = {
            "x-forwarded-for": address,
            forwarded: `for=${address}`,
            "x-real-ip": address,
            "x-envoy-external-address": address
          }
          assert.strictEqual(yield* status(far, localAddress, headers), 403, `${localAddress} ${address}`)
        }
      }
      assert.strictEqual(yield* status(near, "127.0.0.2"), 403)
      assert.strictEqual(yield* status(near, "127.0.0.9"), 200)
      assert.strictEqual(yield* status(near, "127.0.0.9", { "x-forwarded-for": "203.0.113.7" }), 200)
    }).pipe(Effect.scoped)
  )

  live("passes event streams as they come, bodies of 4 MiB, and the answers of the service unchanged", () =>
    Effect.gen(function* () {
      const one = yield* startCell()
      const front = yield* start({ cells: { cell1: one.countersign.url, cell2: one.countersign.url } })
      const key = yield* one.countersign.key()
      const { approval_rules, sessions } = yield* one.countersign.clientWith(key)
      yield* approval_rules.replace({ payload: { rules: [{ effect: "allow", tool: "read" }] } })
      const { session_id } = yield* sessions.create({ payload: {} })
      const stream = yield* open(front, NEIGHBOUR, {
        path: `/v1/agent-sessions/${session_id}/events/stream`,
        headers: { ...bearer(key), accept: "text/event-stream" }
      })
      assert.strictEqual(stream.statusCode, 200)
      let received = ""
      stream.setEncoding("utf8").on("data", (text: string) => (received += text))

      const post = (body: string) =>
        exchange(front, NEIGHBOUR, {
          method: "POST",
          path: `/v1/agent-sessions/${session_id}/steps`,
          headers: { ...bearer(key), ...json },
          body
        })
      assert.strictEqual((yield* post(stepOfSize(4 * 1024 * 1024))).status, 200)
      assert.strictEqual((yield* post(stepOfSize(4 * 1024 * 1024 + 1))).status, 413)
      // It is small, and the stream goes on after it: a front that waits for more would keep it.
      yield* eventually(
        Effect.sync(() => received),
        (text) => text.includes("large")
      )
      assert.isFalse(stream.complete)
      stream.destroy()

      const refused = yield* exchange(front, NEIGHBOUR, { path: "/v1/tasks" })
      assert.strictEqual(refused.status, 401)
      assert.match(refused.headers["content-type"] ?? "", /^application\/problem\+json/)
      assert.match(refused.text, /"request_id":/)
      for (const name of Object.keys(refused.headers)) assert.notMatch(name, /^x-envoy/)
    }).pipe(Effect.scoped)
  )

  live("answers 503 with Retry-After while a cell is down, and the other cell serves on", () =>
    Effect.gen(function* () {
      const one = yield* startCell()
      const scope = yield* Scope.make()
      const second = Countersign.layer({ databaseUrl: yield* cloneDatabase })
      const two = Context.get(yield* Layer.buildWithScope(Layer.fresh(second), scope), Countersign)
      const front = yield* start({ cells: { cell1: one.countersign.url, cell2: two.url } })
      yield* front.routeAcme("cell2")
      const read = (host: string) => exchange(front, host, { path: "/readyz" })
      const key = yield* two.key()
      const tasks = exchange(front, ACME, { path: "/v1/tasks", headers: bearer(key) })
      yield* eventually(tasks, ({ status }) => status === 200)
      yield* Scope.close(scope, Exit.void)
      const downs = Effect.gen(function* () {
        const { headers, status, text } = yield* read(ACME)
        assert.strictEqual(status, 503)
        assert.strictEqual(headers["retry-after"], "5")
        assert.strictEqual(headers["content-type"], "application/problem+json")
        assert.deepInclude(JSON.parse(text), { code: "UNAVAILABLE", status: 503 })
        assert.strictEqual((yield* read(NEIGHBOUR)).status, 200)
        return front.log()
      })
      // First the connection is refused; then the health checks of the cell have failed, and no connection is tried.
      yield* eventually(downs, (log) => unreached.test(log))
      // The links of emails have their secret in the query.
      yield* exchange(front, NEIGHBOUR, { path: "/readyz?token=secret-of-a-link" })
      const log = yield* eventually(
        Effect.sync(() => front.log()),
        (text) => text.split("/readyz").length > 3
      )
      assert.notInclude(log, "secret-of-a-link")
    }).pipe(Effect.scoped)
  )

  live(
    "answers 502 if a replica breaks off a request that it may have processed, and does not repeat it",
    () =>
      Effect.gen(function* () {
        const requests: Array<string | undefined> = []
        const replica = createServer((received, response) => {
          if (received.url === "/readyz") return void response.end()
          requests.push(received.url)
          received.socket.destroy()
        })
        const port = yield* Effect.acquireRelease(
          Effect.promise(() => listenOnFreePort(replica)),
          () => Effect.sync(() => replica.close())
        )
        const url = `http://127.0.0.1:${port}`
        const front = yield* start({ cells: { cell1: url, cell2: url } })
        for (const method of ["POST", "GET"]) {
          // Such headers ask Envoy for retries, if it takes the client for internal.
          const headers = { "x-envoy-retry-on": "5xx,reset", "x-envoy-max-retries": "3" }
          const { headers: answered, status } = yield* exchange(front, NEIGHBOUR, {
            method,
            path: `/${method}`,
            headers
          })
          assert.strictEqual(status, 502)
          assert.notMatch(answered["content-type"] ?? "", /problem/)
          assert.isUndefined(answered["retry-after"])
        }
        assert.deepStrictEqual(requests, ["/POST", "/GET"])
      }).pipe(Effect.scoped)
  )
})
