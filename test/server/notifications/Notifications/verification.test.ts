import { assert, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { createServer, type RequestListener } from "node:http"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { nodeHandler, type NotificationEvent } from "../../../../src/webhook/index.ts"
import { makeReceiver } from "../../../../src/cli/receiver.ts"
import { listenOnFreePort } from "../../../support/listenOnFreePort.ts"
import {
  allHaveStatus,
  awaitDeliveries,
  oneAttempt,
  requestApproval,
  seedEndpoint
} from "../../../support/notifications.ts"
import { send, service } from "../../../support/service.ts"

/** A server on loopback, until the scope closes. */
const listening = (server: ReturnType<typeof createServer>) =>
  Effect.acquireRelease(
    Effect.promise(() => listenOnFreePort(server)),
    () =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  )

/** An endpoint of a receiver that `make` creates from the signing secret, which it gets after the endpoint's creation. */
const endpointWith = Effect.fnUntraced(function* (
  admin: ClientCalls,
  make: (secret: string) => RequestListener
) {
  let listener: RequestListener = (_, response) => response.writeHead(401).end()
  const port = yield* listening(createServer((request, response) => listener(request, response)))
  const { endpoint, secret } = yield* admin.notificationEndpoints.create({
    payload: { url: `http://127.0.0.1:${port}/hook` }
  })
  return { params: { id: endpoint.id }, endpoint, secret, configure: () => (listener = make(secret)) }
})

/** The audit log's actions about an endpoint, oldest first. */
const actions = (admin: ClientCalls, target_id: string) =>
  Effect.map(admin.auditLog.list({ query: { target_id } }), ({ entries }) =>
    entries.map(({ action }) => action).toReversed()
  )

const required = { ...oneAttempt, COUNTERSIGN_NOTIFY_VERIFIED_ONLY: "true" }

layer(service({ environment: required }), { excludeTestServices: true })(
  "Notifications with required verification",
  (it) => {
    it.effect(
      "an endpoint gets nothing but challenges until it has answered one, and events from then on",
      () =>
        Effect.gen(function* () {
          const admin = yield* (yield* Countersign).client({}, "verified")
          const seen: Array<NotificationEvent> = []
          const types: Array<string> = []
          const { configure, endpoint, params } = yield* endpointWith(admin, (secret) => {
            const handle = nodeHandler({
              secret,
              seen: new Set<string>(),
              onEvent: (event) => seen.push(event)
            })
            return (request, response) => {
              types.push(String(request.headers["x-svc-event-type"]))
              void handle(request, response)
            }
          })
          assert.isTrue(endpoint.awaits_verification)
          assert.isNull(endpoint.verified_at)
          const verify = admin.notificationEndpoints.verify({ params })
          // The receiver does not have the secret yet.
          const failure = yield* Effect.flip(verify)
          assert.strictEqual(failure.code, "VERIFICATION_FAILED")
          assert.match("detail" in failure ? failure.detail : "", /HTTP 401\. Configure the receiver/)
          configure()

          yield* requestApproval(admin)
          const { id: tested } = yield* admin.notificationEndpoints.test({ params })
          const [refused, ...others] = yield* awaitDeliveries(admin, params.id, allHaveStatus(1, "failed"))
          assert.deepStrictEqual([refused?.id, refused?.last_error], [tested, "the endpoint is not verified"])
          assert.lengthOf(others, 0)
          assert.deepStrictEqual(types, [])

          const verified = yield* verify
          assert.isFalse(verified.awaits_verification)
          assert.isNotNull(verified.verified_at)
          assert.deepStrictEqual(types, ["verification"])
          assert.lengthOf(seen, 0)
          const approval_id = yield* requestApproval(admin)
          yield* awaitDeliveries(admin, params.id, (list) => list[0]?.status === "delivered")
          assert.deepStrictEqual(
            seen.map(({ approval, type }) => [type, approval?.approval_id]),
            [["approval.requested", approval_id]]
          )
          assert.deepStrictEqual(yield* actions(admin, params.id), [
            "endpoint.created",
            "endpoint.verification_failed",
            "endpoint.tested",
            "endpoint.verified"
          ])
        })
    )

    it.effect("a host that returns requests unchanged, or answers something else, is not verified", () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "echo")
        const respond = (body: (request: string) => string) =>
          endpointWith(admin, () => (request, response) => {
            const chunks: Array<Buffer> = []
            request.on("data", (chunk: Buffer) => chunks.push(chunk))
            request.on("end", () => response.end(body(Buffer.concat(chunks).toString())))
          })
        const outcome = Effect.fnUntraced(function* (body: (request: string) => string) {
          const { configure, params } = yield* respond(body)
          configure()
          return yield* Effect.option(admin.notificationEndpoints.verify({ params }))
        })
        const challengeIn = (request: string) => /"challenge":"([^"]+)"/.exec(request)?.[1] ?? ""
        for (const body of [
          (request: string) => request,
          () => "",
          () => `{"challenge":"guessed"}`,
          (request: string) => JSON.stringify({ challenge: challengeIn(request) }) + " ".repeat(8_192)
        ])
          assert.isTrue(Option.isNone(yield* outcome(body)))
        assert.isTrue(Option.isSome(yield* outcome(challengeIn)))
      })
    )

    it.effect("a disabled endpoint gets no challenge", () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "disabled")
        let requests = 0
        const { configure, params } = yield* endpointWith(admin, () => (_, response) => {
          requests++
          response.end()
        })
        configure()
        yield* admin.notificationEndpoints.update({ params, payload: { active: false } })
        const refused = yield* Effect.flip(admin.notificationEndpoints.verify({ params }))
        assert.strictEqual(refused.code, "ENDPOINT_DISABLED")
        assert.strictEqual(requests, 0)
        yield* admin.notificationEndpoints.update({ params, payload: { active: true } })
        const failed = yield* Effect.flip(admin.notificationEndpoints.verify({ params }))
        assert.strictEqual(failed.code, "VERIFICATION_FAILED")
        assert.strictEqual(requests, 1)
      })
    )

    it.effect("`countersign listen` answers challenges", () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "listen")
        const received: Array<string> = []
        let secret = ""
        const port = yield* listening(
          makeReceiver({
            secret: () => secret,
            onDelivery: ({ verification }) =>
              received.push(verification.ok ? verification.type : verification.reason)
          })
        )
        const created = yield* admin.notificationEndpoints.create({
          payload: { url: `http://127.0.0.1:${port}/` }
        })
        secret = created.secret
        yield* admin.notificationEndpoints.verify({ params: { id: created.endpoint.id } })
        assert.deepStrictEqual(received, ["verification"])
      })
    )
  }
)

layer(service({ environment: { COUNTERSIGN_NOTIFY_CHALLENGES_PER_MINUTE: "2" } }), {
  excludeTestServices: true
})("Notifications without required verification", (it) => {
  it.effect("unverified endpoints get events, and challenges have a limit per organization", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* seedEndpoint("optional")
      assert.isFalse(endpoint.awaits_verification)
      yield* admin.notificationEndpoints.test({ params })
      yield* awaitDeliveries(admin, params.id, allHaveStatus(1, "delivered"))
      const key = yield* (yield* Countersign).key({}, "optional")
      const verify = send(`/v1/notification-endpoints/${params.id}/verify`, { key, method: "POST" })
      assert.deepStrictEqual(
        (yield* Effect.replicateEffect(verify, 3)).map(({ body: { code } }) => code),
        ["VERIFICATION_FAILED", "VERIFICATION_FAILED", "RATE_LIMITED"]
      )
    })
  )
})

for (const by of ["HOST", "NETWORK"] as const) {
  layer(service({ environment: { [`COUNTERSIGN_NOTIFY_${by}_RATE_PER_SECOND`]: "1" } }), {
    excludeTestServices: true
  })(`Notifications with a rate per ${by.toLowerCase()} of receivers`, (it) => {
    it.effect("challenges beyond the rate of deliveries are refused, and nothing is sent", () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, by)
        let challenges = 0
        const endpoints = yield* Effect.replicateEffect(
          endpointWith(admin, () => (request, response) => {
            challenges++
            request.resume()
            response.writeHead(401).end()
          }),
          5
        )
        for (const { configure } of endpoints) configure()
        const failures = yield* Effect.forEach(
          endpoints,
          ({ params }) => Effect.flip(admin.notificationEndpoints.verify({ params })),
          { concurrency: 5 }
        )
        const codes = failures.map(({ code }) => code)
        assert.include(codes, "RATE_LIMITED")
        assert.strictEqual(codes.filter((code) => code === "VERIFICATION_FAILED").length, challenges)
      })
    )
  })
}
