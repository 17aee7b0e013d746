import { Effect, Redacted } from "effect"
import { apiKeyDigest, generateApiKeyFrom, parseApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import { KeyId, OrgId } from "../../src/domain/Ids.ts"
import { checkCollectorHeaders } from "../../src/domain/telemetry/CollectorHeaders.ts"
import { rateLimit, takeToken } from "../../src/domain/identity/RateLimit.ts"
import { makeVerifiedKeyCache } from "../../src/server/identity/ApiKeys/VerifiedKeyCache.ts"
import { RateLimits } from "../../src/server/http/RateLimits.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import * as KeyRing from "../../src/server/secrets/SecretBox/KeyRing.ts"
import { randomBytes } from "node:crypto"
import { limit, line, machine } from "./measure.ts"

/**
 * What guarding a request costs, in microseconds of this process: a key that is known, one that is looked up (without the store), the rate,
 * sealing and opening. `-- egress` has the figures of the address check.
 */
const ROUNDS = 7
const CALLS = 20_000

const measure = (what: string, call: () => void): ReadonlyArray<number> => {
  const round = (): number => {
    const before = process.cpuUsage()
    for (let count = 0; count < CALLS; count++) call()
    const { system, user } = process.cpuUsage(before)
    return (user + system) / CALLS
  }
  round()
  const values = Array.from({ length: ROUNDS }, round)
  console.log(line(what, values, "µs"))
  return values
}

const keys = Array.from({ length: 1_000 }, () =>
  Redacted.value(generateApiKeyFrom((size) => randomBytes(size)).key)
)
const believed = makeVerifiedKeyCache()
for (const key of keys) {
  believed.remember(
    key,
    {
      principal: {
        org_id: OrgId.make(`org_${"0".repeat(32)}`),
        actor: { id: KeyId.make(`key_${"0".repeat(32)}`), name: "bench" },
        scopes: new Set()
      },
      expires_at: null,
      revoked_at: null
    },
    0
  )
}
/** A header's text as it comes from the socket: new every time, so that its hash is computed every time. */
const fresh = (key: string): string => Buffer.from(key, "latin1").toString("latin1")

const program = Effect.gen(function* () {
  console.log(machine())
  let turn = 0
  const next = () => keys[turn++ % keys.length] ?? ""
  measure("a key's text made anew (in the two below)", () => void fresh(next()))
  const hit = measure("a key in use, found by its text", () => void believed.get(fresh(next()), 1))
  measure("a key looked up: form, checksum, digest", () => {
    const parsed = parseApiKey(fresh(next()))
    if (parsed._tag === "Success") apiKeyDigest(parsed.success.key)
  })

  const rate = rateLimit(1e6)
  let full = 0
  let now = 0
  measure("a request taken from a bucket", () => void (full = takeToken(rate, full, (now += 1)).fullAt))
  const limits = yield* Effect.provide(RateLimits, RateLimits.layer({ perSecond: 1_000_000 }))
  const id = yield* KeyId.generate
  measure("the same as the service does, clock and all", () => void Effect.runSync(limits.admitRequest(id)))

  const box = yield* Effect.provide(
    SecretBox,
    SecretBox.layer({ masterKeys: KeyRing.split(Redacted.make(randomBytes(32).toString("base64"))) })
  )
  const place = { org_id: "org", table: "t", row_id: "r", column: "c" }
  const secret = Redacted.make("whsec_" + "x".repeat(44))
  const sealed = yield* box.seal(place, secret)
  measure("a secret sealed", () => void Effect.runSync(box.seal(place, secret)))
  measure("a secret opened", () => void Effect.runSync(box.unseal(place, sealed)))
  const headers = Array.from({ length: 10 }, (_, index) => [`x-header-${index}`, "value"] as const)
  measure("ten headers of a collector judged", () => void checkCollectorHeaders(headers))
  console.log(limit("The key check on a cache hit", hit, 5, "µs"))
})

await Effect.runPromise(program)
