import { Effect, Layer, Redacted } from "effect"
import { apiKeyDigest, generateApiKeyFrom, parseApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import { KeyId, OrgId } from "../../src/domain/Ids.ts"
import { checkCollectorHeaders } from "../../src/domain/telemetry/CollectorHeaders.ts"
import { rateLimit, takeToken } from "../../src/domain/identity/RateLimit.ts"
import { makeVerifiedKeyCache } from "../../src/server/identity/ApiKeys/VerifiedKeyCache.ts"
import { RateLimits } from "../../src/server/admission/RateLimits.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import * as KeyRing from "../../src/server/secrets/KeyRing.ts"
import { randomBytes } from "node:crypto"
import { line, machine } from "./measure.ts"
import { LimitUse } from "../../src/server/observability/LimitUse.ts"

/**
 * Processor time of the checks around a request, in microseconds: API key verification with and without a cache hit (no database), rate
 * limiting, sealing and unsealing. The address check is in `egress`.
 */
const ROUNDS = 7
const CALLS = 20_000

const measure = (call: () => void): ReadonlyArray<number> => {
  const round = (): number => {
    const before = process.cpuUsage()
    for (let count = 0; count < CALLS; count++) call()
    const { system, user } = process.cpuUsage(before)
    return (user + system) / CALLS
  }
  round()
  return Array.from({ length: ROUNDS }, round)
}
const show = (what: string, call: () => void): void => console.log(line(what, measure(call), "µs"))

const keys = Array.from({ length: 1_000 }, () =>
  Redacted.value(generateApiKeyFrom((size) => randomBytes(size)).key)
)
const cache = makeVerifiedKeyCache()
for (const key of keys) {
  cache.set(
    key,
    {
      principal: {
        org_id: OrgId.make(`org_${"0".repeat(32)}`),
        actor: { id: KeyId.make(`key_${"0".repeat(32)}`), name: "bench" },
        scopes: new Set(),
        groups: [],
        keyMakers: [],
        makers: []
      },
      expires_at: null,
      revoked_at: null,
      networks: null
    },
    0
  )
}
/** A new string each time, as a header read from a socket is: its hash is not cached by the engine. */
const fresh = (key: string): string => Buffer.from(key, "latin1").toString("latin1")

const program = Effect.gen(function* () {
  console.log(machine())
  let calls = 0
  const next = () => keys[calls++ % keys.length] ?? ""
  show("copy of the key's text (part of the next two)", () => void fresh(next()))
  const hit = measure(() => void cache.get(fresh(next()), 1))
  console.log(line("API key, cache hit", hit, "µs"))
  show("API key, cache miss: form, checksum, digest", () => {
    const parsed = parseApiKey(fresh(next()))
    if (parsed._tag === "Success") apiKeyDigest(parsed.success.key)
  })

  const rate = rateLimit(1e6)
  let full = 0
  let now = 0
  show("token bucket, pure function", () => void (full = takeToken(rate, full, (now += 1)).fullAt))
  const limits = yield* Effect.provide(
    RateLimits,
    RateLimits.layer({ perKey: 1_000_000, perOrganization: 1_000_000, endUserFeedback: 0 }).pipe(
      Layer.provide(LimitUse.layerNone)
    )
  )
  const requester = { org_id: yield* OrgId.generate, actor: { id: yield* KeyId.generate } }
  show("token buckets of key and organization", () => void Effect.runSync(limits.admitRequest(requester)))

  const box = yield* Effect.provide(
    SecretBox,
    SecretBox.layer({ masterKeys: KeyRing.split(Redacted.make(randomBytes(32).toString("base64"))) })
  )
  const place = { org_id: "org", table: "t", row_id: "r", column: "c" }
  const secret = Redacted.make("whsec_" + "x".repeat(44))
  const sealed = yield* box.seal(place, secret)
  show("seal a secret", () => void Effect.runSync(box.seal(place, secret)))
  show("unseal a secret", () => void Effect.runSync(box.unseal(place, sealed)))
  const headers = Array.from({ length: 10 }, (_, index) => [`x-header-${index}`, "value"] as const)
  show("check ten collector headers", () => void checkCollectorHeaders(headers))
})

await Effect.runPromise(program)
