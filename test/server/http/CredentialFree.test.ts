import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { ComparisonId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

/** In parts, so that no scanner reports this file. */
const token = ["ghp", "1Q2w3E4r5T6y7U8i9O0pAsDfGhJkLzXcVbNm"].join("_")

layer(service(), { excludeTestServices: true })("CredentialFree", (it) => {
  it.effect(
    "a credential in a name, reason, template, description or metadata is refused with its place",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const admin = yield* client({}, "credentials")
        const apiKey = Redacted.value(yield* key({ name: "other" }, "credentials"))
        const { endpoint, secret } = yield* admin.notificationEndpoints.create({
          payload: { url: "https://93.184.215.14/hook", events: ["approval.requested"] }
        })
        const rule = { effect: "allow" as const, reason: "ordinary" }
        const params = { id: endpoint.id }
        for (const credential of [apiKey, secret, token]) {
          const text = `see ${credential}`
          for (const [pointer, attempt] of [
            ["#/name", Effect.flip(admin.apiKeys.create({ payload: { name: text, preset: "hook" } }))],
            [
              "#/description",
              Effect.flip(admin.notificationEndpoints.update({ params, payload: { description: text } }))
            ],
            [
              "#/rules/1/reason",
              Effect.flip(
                admin.approvalRules.replace({ payload: { rules: [rule, { ...rule, reason: text }] } })
              )
            ],
            [
              "#/rules/0/summary_template",
              Effect.flip(
                admin.approvalRules.replace({
                  payload: { rules: [{ effect: "require_approval", summary_template: text }] }
                })
              )
            ],
            [
              "#/metadata",
              Effect.flip(admin.sessions.create({ payload: { metadata: { deep: [{ [text]: 1 }] } } }))
            ]
          ] as const) {
            const refused = yield* attempt
            assert.strictEqual(refused._tag, "INVALID_REQUEST", pointer)
            assert.deepStrictEqual(pointersOf(refused), [pointer])
            assert.notInclude(JSON.stringify(refused), credential)
          }
        }
      })
  )

  it.effect("a credential that was added since the last session is refused in the next", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "newest credential")
      const create = (note: string) => admin.sessions.create({ payload: { metadata: { note } } })
      // A secret of no recognizable kind, which only its place shows to be one.
      const value = "Aunt Agatha keeps bees"
      yield* create(value)
      yield* admin.telemetryDestinations.create({
        payload: { url: "https://93.184.215.14/v1/traces", headers: { "x-collector": value } }
      })
      assert.deepStrictEqual(pointersOf(yield* Effect.flip(create(value))), ["#/metadata"])
      yield* create("ordinary")
      assert.lengthOf((yield* admin.sessions.list()).sessions, 2)
    })
  )

  it.effect("a credential is refused however it is encoded", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "encoded credentials")
      const apiKey = Redacted.value(yield* key({ name: "other" }, "encoded credentials"))
      const { secret } = yield* admin.notificationEndpoints.create({
        payload: { url: "https://93.184.215.14/hook" }
      })
      for (const credential of [apiKey, secret, token]) {
        const bytes = Buffer.from(credential)
        const base64 = bytes.toString("base64")
        for (const encoded of [
          base64,
          bytes.toString("base64url"),
          Buffer.from(base64).toString("base64"),
          bytes.toString("hex"),
          encodeURIComponent(credential).replaceAll("_", "%5F"),
          Array.from(bytes, (byte) => `&#${byte};`).join(""),
          `${credential.slice(0, 12)}\u200b${credential.slice(12)}`,
          `${credential.slice(0, 12)}\n${credential.slice(12)}`
        ]) {
          const metadata = { note: `see ${encoded}` }
          const refused = yield* Effect.flip(admin.sessions.create({ payload: { metadata } }))
          assert.deepStrictEqual(pointersOf(refused), ["#/metadata"], encoded)
        }
      }
    })
  )

  it.effect(
    "a credential in the reason of a release or a canary, or in the name of a pattern, is refused",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "credentials of releases")
        const { id } = yield* admin.tasks.create({ payload: sortingTask })
        const params = { id }
        const comparison_id = ComparisonId.make(`cmp_${"0".repeat(32)}`)
        const candidate = { comparison_id, force: true, reason: token }
        const released = yield* Effect.flip(admin.releases.create({ params, payload: candidate }))
        assert.deepStrictEqual(pointersOf(released), ["#/reason"])
        const canary = { ...candidate, share: 0.1 }
        const started = yield* Effect.flip(admin.canaries.start({ params, payload: canary }))
        assert.deepStrictEqual(pointersOf(started), ["#/reason"])
        const payload = { patterns: [{ name: token, pattern: "x{8}" }] }
        const replaced = yield* Effect.flip(admin.redactionSettings.replace({ payload }))
        assert.deepStrictEqual(pointersOf(replaced), ["#/patterns/0/name"])
      })
  )

  it.effect("ordinary names and metadata are accepted, also if they speak of secrets or look random", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "ordinary")
      for (const name of ["password reset bot", "api key: production", "ada@example.com", "csk_… of Ada"]) {
        yield* admin.apiKeys.create({ payload: { name, preset: "runtime" } })
      }
      const metadata = {
        session_token: "3f9c1b7ae2d84c6f9a0b5d7e1c2f4a68",
        conversation: "d9b2d63d-a233-4123-847a-7b5a1b1f1a11"
      }
      assert.deepStrictEqual((yield* admin.sessions.create({ payload: { metadata } })).metadata, metadata)
    })
  )
})
