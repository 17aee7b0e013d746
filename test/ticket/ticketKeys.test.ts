import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import { remoteKeys } from "../../src/ticket/index.ts"
import { Countersign } from "../../src/testing/index.ts"
import { startScriptedServer } from "../support/scripted.ts"
import { send, service } from "../support/service.ts"

layer(service())("remoteKeys", (it) => {
  it.effect("fetches the public keys of a service, which need no API key", () =>
    Effect.gen(function* () {
      const { url } = yield* Countersign
      const { publicKeys } = yield* SecretBox
      const keys = yield* Effect.promise(() => remoteKeys(url)(publicKeys[0].kid))
      assert.deepStrictEqual(keys, { keys: publicKeys })
      const { headers, status } = yield* send("/.well-known/jwks.json")
      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("content-type"), "application/jwk-set+json")
      assert.strictEqual(headers.get("cache-control"), "public, max-age=600")
    })
  )

  it.effect("requests keys once for known keys, and for an unknown one at most every ten seconds", () =>
    Effect.gen(function* () {
      const set = { keys: [{ kty: "OKP", crv: "Ed25519", kid: "a", x: "x" }] }
      const server = yield* startScriptedServer([{ status: 200, body: set }])
      const keys = remoteKeys(server.url)
      yield* Effect.promise(() => Promise.all([keys("a"), keys("a")]))
      yield* Effect.promise(() => keys("a"))
      for (const kid of ["b", "c"]) assert.deepStrictEqual(yield* Effect.promise(() => keys(kid)), set)
      assert.strictEqual(server.seen.length, 1)
    })
  )

  it.effect("fails without keys, and does not follow redirects", () =>
    Effect.gen(function* () {
      for (const answer of [
        { status: 500 },
        { status: 302, headers: { location: "http://127.0.0.1:1/" } },
        { status: 200, body: { keys: [{ kty: 1 }] } },
        { status: 200, text: "no keys" }
      ]) {
        const server = yield* startScriptedServer([answer])
        const result = yield* Effect.exit(Effect.tryPromise(() => remoteKeys(server.url)("a")))
        assert.strictEqual(result._tag, "Failure")
      }
    })
  )
})
