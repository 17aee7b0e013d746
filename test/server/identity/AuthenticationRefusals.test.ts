import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { AuthenticationRefusals } from "../../../src/server/identity/AuthenticationRefusals.ts"
import { KeyId, OrgId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

const makeLog = () => {
  const lines: Array<ReadonlyArray<unknown>> = []
  const logger = Logger.make(({ message }) => {
    if (Array.isArray(message) && message[0] === "Refused authentication") lines.push(message)
  })
  return { lines, layer: Logger.layer([logger]) }
}

const log = makeLog()
const metrics = { environment: { COUNTERSIGN_METRICS_TOKEN: "a-token-for-the-metrics" } }

layer(service(metrics).pipe(Layer.provideMerge(log.layer)), { excludeTestServices: true })(
  "AuthenticationRefusals",
  (it) => {
    it.effect("refused requests are counted and logged once per reason and address, without the key", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const admin = yield* countersign.client({ preset: "admin" }, "refusals")
        const { key, secret } = yield* admin.apiKeys.create({ payload: { name: "old", preset: "runtime" } })
        yield* admin.apiKeys.revoke({ params: { id: key.id } })
        for (const text of [secret, secret, `${secret.slice(0, -1)}!`, undefined]) {
          const { status } = yield* send("/v1/tasks", text === undefined ? {} : { key: text })
          assert.strictEqual(status, 401)
        }
        yield* send("/console/api/v1/tasks", { headers: { cookie: "__Host-countersign=nonsense" } })
        const runtime = yield* countersign.key({ preset: "runtime" }, "refusals")
        for (const method of ["GET", "POST"]) {
          const { status } = yield* send("/v1/api-keys", {
            key: runtime,
            method,
            ...(method === "POST" ? { body: "{}" } : {})
          })
          assert.strictEqual(status, 403)
        }
        const metrics = yield* send("/metrics", { key: "a-token-for-the-metrics" })
        for (const [reason, count] of [
          ["revoked", 2],
          ["malformed", 2],
          ["session", 1],
          ["forbidden", 2],
          ["address", 0]
        ]) {
          assert.include(
            String(metrics.body["text"]),
            `countersign_authentication_refusals_total{reason="${reason}"} ${count}`
          )
        }
      })
    )
  }
)

it.effect("an attack from many addresses is a bounded number of lines, with every request counted", () => {
  const { layer, lines } = makeLog()
  return Effect.gen(function* () {
    const { record, report } = yield* AuthenticationRefusals
    for (let index = 0; index < 2_000; index++) {
      record({ reason: "unknown", address: `10.0.${index >> 8}.${index & 255}` })
    }
    for (let host = 0; host < 5; host++) record({ reason: "checksum", address: `2001:db8::${host}` })
    assert.strictEqual(yield* report, 102)
    const counts = lines.map(([, line]) => Object(line))
    assert.strictEqual(
      counts.reduce((sum, { count }) => sum + count, 0),
      2_005
    )
    assert.deepInclude(counts, { reason: "unknown", address: "others", count: 1_900 })
    assert.strictEqual(yield* report, 0)
    const key = { org_id: OrgId.make(`org_${"0".repeat(32)}`), key_id: KeyId.make(`key_${"1".repeat(32)}`) }
    record({ reason: "expired", address: "2001:db8::1", key })
    record({ reason: "expired", address: "2001:db8::2", key })
    yield* report
    assert.deepStrictEqual(lines.at(-1)?.[1], {
      reason: "expired",
      address: "2001:db8::/64",
      count: 2,
      ...key
    })
  }).pipe(Effect.provide(Layer.provideMerge(AuthenticationRefusals.layer, layer)))
})
