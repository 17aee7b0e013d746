import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { NetAddress } from "effect/net"
import type { EndpointId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { nameServer } from "../../../support/dns.ts"
import { allHaveStatus, awaitDeliveries, seedEndpoint } from "../../../support/notifications.ts"
import { send, service } from "../../../support/service.ts"

const limited = {
  COUNTERSIGN_NOTIFY_TESTS_PER_MINUTE: "2",
  COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND: "4"
}

layer(service({ environment: limited }), { excludeTestServices: true })("Notifications with limits", (it) => {
  it.effect("an endpoint is sent so many test events per minute, and other endpoints as many", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { params } = yield* seedEndpoint("tests")
      const other = yield* seedEndpoint("tests")
      const key = yield* countersign.key({}, "tests")
      const test = (id: string) =>
        send(`/v1/notification-endpoints/${id}/test`, { key, method: "POST", body: "{}" })
      const answers = yield* Effect.replicateEffect(test(params.id), 3)
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [202, 202, 429]
      )
      assert.strictEqual(answers[2]?.body["code"], "RATE_LIMITED")
      assert.match(String(answers[2]?.body["detail"]), /2 test events per minute/)
      assert.isAtMost(Number(answers[2]?.headers.get("retry-after")), 30)
      assert.deepStrictEqual(
        answers.map(({ headers }) => [headers.get("ratelimit-policy"), headers.get("ratelimit")]),
        [1, 0, 0].map((left) => ['"endpoint_tests";q=2;w=60', `"endpoint_tests";r=${left};t=60`])
      )
      assert.strictEqual((yield* test(other.params.id)).status, 202)
    })
  )

  it.effect("endpoints of one host share its rate: deliveries beyond it wait and all arrive", () =>
    Effect.gen(function* () {
      const { admin, params, receiver } = yield* seedEndpoint("amplified")
      const endpoints = [params.id]
      for (let more = 0; more < 5; more++) {
        const { endpoint } = yield* admin.notificationEndpoints.create({
          payload: { url: `${receiver.url}/${more}` }
        })
        endpoints.push(endpoint.id)
      }
      const began = performance.now()
      for (const id of endpoints) yield* admin.notificationEndpoints.test({ params: { id } })
      for (const id of endpoints) yield* admin.notificationEndpoints.test({ params: { id } })
      for (const id of endpoints) yield* awaitDeliveries(admin, id, allHaveStatus(2, "delivered"))
      assert.lengthOf(receiver.seen, 12)
      // Four at once, then four a second.
      assert.isAtLeast(performance.now() - began, 2_000 - 10)
    })
  )
})

/** Every name has the address of the receivers, as with a wildcard in a zone of an attacker. */
const wildcard = Layer.unwrap(
  Effect.map(
    nameServer(() => ["127.0.0.1"]),
    ({ address }) =>
      service({
        environment: {
          COUNTERSIGN_DNS_SERVERS: NetAddress.formatInet(address),
          COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND: "4"
        }
      })
  )
)

layer(wildcard, { excludeTestServices: true })("Notifications to many names of one address", (it) => {
  it.effect("endpoints share the rate of their network, over all organizations", () =>
    Effect.gen(function* () {
      const { admin, receiver } = yield* seedEndpoint("wildcard")
      const { port } = new URL(receiver.url)
      const other = yield* (yield* Countersign).client({}, "another")
      const endpoints: Array<{ readonly client: typeof admin; readonly id: EndpointId }> = []
      for (const [index, client] of [admin, admin, other, other].entries()) {
        const { endpoint } = yield* client.notificationEndpoints.create({
          payload: { url: `http://n${index}.attacker.net:${port}/` }
        })
        endpoints.push({ client, id: endpoint.id })
      }
      const began = performance.now()
      for (let count = 0; count < 3; count++)
        for (const { client, id } of endpoints) yield* client.notificationEndpoints.test({ params: { id } })
      for (const { client, id } of endpoints) {
        const deliveries = yield* awaitDeliveries(client, id, allHaveStatus(3, "delivered"))
        assert.deepStrictEqual(new Set(deliveries.map(({ attempts }) => attempts)), new Set([1]))
      }
      assert.lengthOf(receiver.seen, 12)
      // Four at once, then four a second.
      assert.isAtLeast(performance.now() - began, 2_000 - 10)
    })
  )
})
