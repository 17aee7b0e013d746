import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { VerifiedCredentials } from "../../../src/server/admission/VerifiedCredentials.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("VerifiedCredentials", (it) => {
  it.effect(
    "a key that authenticates is known by its organization until it is refused; an unknown key never",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const credentials = yield* VerifiedCredentials
        const admin = yield* countersign.client({ name: "admin" })
        const key = Redacted.value(yield* countersign.key({ name: "revoked later" }))
        const organizationOf = (text: string) => credentials.organizationOf(`Bearer ${text}`)
        assert.isUndefined(organizationOf(key))
        assert.strictEqual((yield* send("/v1/tasks", { key })).status, 200)
        assert.match(organizationOf(key) ?? "", /^org_/)
        const { keys } = yield* admin.apiKeys.list({})
        const [revoked] = keys.filter(({ name }) => name === "revoked later")
        assert(revoked !== undefined)
        yield* admin.apiKeys.revoke({ params: { id: revoked.id }, query: {} })
        assert.strictEqual((yield* send("/v1/tasks", { key })).status, 401)
        assert.isUndefined(organizationOf(key))
        const invented = `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`
        assert.strictEqual((yield* send("/v1/tasks", { key: invented })).status, 401)
        assert.isUndefined(organizationOf(invented))
      })
  )
})
