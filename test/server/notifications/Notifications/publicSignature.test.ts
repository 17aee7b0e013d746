import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { createPublicKey, verify } from "node:crypto"
import { oneAttempt, matchingSecrets, seedEndpoint } from "../../../support/notifications.ts"
import type { SeenRequest } from "../../../support/scripted.ts"
import { service, send } from "../../../support/service.ts"

const KeySet = Schema.Struct({
  keys: Schema.Array(Schema.Struct({ kty: Schema.String, crv: Schema.String, x: Schema.String }))
})

/** Whether a published key of the service made the `v1a` signature of a request; undefined if it has none. */
const isSignedPublicly = Effect.fnUntraced(function* (seen: SeenRequest | undefined) {
  const { body, headers } = seen ?? assert.fail("a request")
  const signature = /(?:^| )v1a,(\S+)/.exec(String(headers["webhook-signature"]))?.[1]
  if (signature === undefined) return undefined
  const { keys } = Schema.decodeUnknownSync(KeySet)((yield* send("/.well-known/jwks.json")).body)
  const content = Buffer.from([headers["webhook-id"], headers["webhook-timestamp"], body].join("."))
  return keys.some((key) =>
    verify(null, content, createPublicKey({ key, format: "jwk" }), Buffer.from(signature, "base64"))
  )
})

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("public signatures", (it) => {
  it.effect("an endpoint that asks for one gets a signature that the service's public keys verify", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* seedEndpoint("signed publicly")
      const deliver = Effect.suspend(() => {
        const arrived = receiver.arrived(receiver.seen.length + 1)
        return Effect.andThen(
          admin.notificationEndpoints.test({ params }),
          Effect.promise(() => arrived)
        )
      })
      assert.isFalse(endpoint.public_signature)
      yield* deliver
      assert.isUndefined(yield* isSignedPublicly(receiver.seen.at(-1)))
      const changed = yield* admin.notificationEndpoints.update({
        params,
        payload: { public_signature: true }
      })
      assert.isTrue(changed.public_signature)
      yield* deliver
      assert.isTrue(yield* isSignedPublicly(receiver.seen.at(-1)))
      // The published libraries, which know no `v1a`, verify the others.
      assert.deepStrictEqual(yield* matchingSecrets(receiver.seen.at(-1), [secret]), [0])
      yield* admin.notificationEndpoints.update({ params, payload: { public_signature: false } })
      yield* deliver
      assert.isUndefined(yield* isSignedPublicly(receiver.seen.at(-1)))
    })
  )

  it.effect("an endpoint can ask for it when it is created, and its challenge has it, too", () =>
    Effect.gen(function* () {
      const { admin, receiver } = yield* seedEndpoint("signed from the start")
      const { endpoint } = yield* admin.notificationEndpoints.create({
        payload: { url: `${receiver.url}/other`, public_signature: true }
      })
      assert.isTrue(endpoint.public_signature)
      yield* Effect.exit(admin.notificationEndpoints.verify({ params: { id: endpoint.id } }))
      assert.isTrue(yield* isSignedPublicly(receiver.seen.at(-1)))
    })
  )
})
