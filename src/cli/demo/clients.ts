import { Context, Effect, Layer, Redacted } from "effect"
import type { EffectCalls } from "../../client/Call.ts"
import { Client } from "../../client/Client.ts"
import type { Preset } from "../../domain/identity/Scope.ts"
import { during } from "./DemoFailed.ts"
import type { DemoService } from "./service.ts"

/** Returns a client with this key. */
export const clientFor = (service: DemoService, key: Redacted.Redacted) =>
  Effect.map(Layer.build(Client.layer({ url: service.url, key })), Context.get(Client))

/** Returns a client with a new key, which is revoked at the end. */
export const createClient = Effect.fnUntraced(function* (
  service: DemoService,
  admin: EffectCalls,
  preset: Preset,
  name: string
) {
  const { secret } = yield* Effect.acquireRelease(
    admin.apiKeys.create({ payload: { name, preset } }).pipe(during(`creating the key of the ${name}`)),
    ({ key }) => Effect.ignore(admin.apiKeys.revoke({ params: { id: key.id } }))
  )
  return yield* clientFor(service, Redacted.make(secret, { label: "ApiKey" }))
})
