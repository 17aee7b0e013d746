import { assert, layer } from "@effect/vitest"
import { Array as Arr, Context, DateTime, Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId, TaskId } from "../../../src/domain/Ids.ts"
import { redactText } from "../../../src/domain/redaction/Redaction.ts"
import { KnownSecrets } from "../../../src/server/secrets/KnownSecrets.ts"
import { generateMasterKey, SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import { atomic } from "../../../src/server/store/transaction.ts"
import { upsertProviderKey } from "../../../src/server/tasks/Providers/providerKeys.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** The organizations whose secrets were unsealed, and an effect that runs before each. */
class Unsealed extends Context.Service<
  Unsealed,
  { readonly organizations: Array<string>; before: Effect.Effect<void> }
>()("countersign/test/Unsealed") {
  static readonly layer = Layer.sync(Unsealed, () => ({ organizations: [], before: Effect.void }))
}

const observedSecretBox = Layer.effect(
  SecretBox,
  Effect.gen(function* () {
    const box = yield* SecretBox
    const unsealed = yield* Unsealed
    return SecretBox.of({
      ...box,
      unseal: (place, sealed) =>
        Effect.suspend(() => {
          unsealed.organizations.push(place.org_id)
          return Effect.andThen(unsealed.before, box.unseal(place, sealed))
        })
    })
  })
).pipe(
  Layer.provide(
    Layer.unwrap(Effect.map(generateMasterKey, (key) => SecretBox.layer({ masterKeys: Arr.of(key) })))
  )
)

const live = KnownSecrets.layer.pipe(
  Layer.provideMerge(observedSecretBox),
  Layer.provideMerge(Unsealed.layer),
  Layer.provideMerge(TestDatabase.layerSql)
)

/** More values than the cache has room for. */
const TOO_MANY = 20_001

const secretOf = (n: number) => `a-secret-of-a-model-${n}`

/** Creates an organization with this number of secrets, in one row. */
const createSecrets = Effect.fnUntraced(function* (count: number) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const org_id = yield* OrgId.generate
  const headers = Object.fromEntries(
    Arr.makeBy(count, (n) => [`x-header-${n}`, Redacted.make(secretOf(n))] as const)
  )
  const task_id = yield* TaskId.generate
  const now = yield* DateTime.now
  yield* atomic(sql)(upsertProviderKey(sql, box, org_id, task_id, "https://model.example", { headers }, now))
  return org_id
})

layer(live, { excludeTestServices: true })("KnownSecrets", (it) => {
  it.effect(
    "an organization with more secrets than the cache has room for does not evict those of others",
    () =>
      Effect.gen(function* () {
        const secrets = yield* KnownSecrets
        const { organizations } = yield* Unsealed
        const [small, large] = [yield* createSecrets(1), yield* createSecrets(TOO_MANY)]
        yield* secrets.forOrg(small)
        const known = yield* secrets.forOrg(large)
        assert.notInclude(redactText(`It is ${secretOf(TOO_MANY - 1)}.`, known), secretOf(TOO_MANY - 1))
        yield* secrets.forOrg(small)
        assert.deepStrictEqual(organizations, [small, large])
      })
  )

  it.effect("concurrent calls of an organization share one read", () =>
    Effect.gen(function* () {
      const secrets = yield* KnownSecrets
      const { organizations } = yield* Unsealed
      const org_id = yield* createSecrets(TOO_MANY)
      const version = yield* secrets.version(org_id)
      const calls = Arr.makeBy(10, () => secrets.forVersion(org_id, version))
      const known = yield* Effect.all(calls, { concurrency: "unbounded" })
      assert.strictEqual(new Set(known).size, 1)
      assert.lengthOf(
        organizations.filter((one) => one === org_id),
        1
      )
    })
  )

  it.effect("a read that is interrupted, or waits, stops no other call", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const secrets = yield* KnownSecrets
      const unsealed = yield* Unsealed
      const org_id = yield* createSecrets(1)
      const version = yield* secrets.version(org_id)
      const started = yield* Deferred.make<void>()
      unsealed.before = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      const first = yield* Effect.forkChild(secrets.forVersion(org_id, version))
      yield* Deferred.await(started)
      unsealed.before = Effect.void
      const second = yield* Effect.forkChild(secrets.forVersion(org_id, "another"), {
        startImmediately: true
      })
      const third = yield* Effect.forkChild(secrets.forVersion(org_id, version), { startImmediately: true })
      const inTransaction = yield* atomic(sql)(secrets.forVersion(org_id, "a third"))
      assert.lengthOf(
        unsealed.organizations.filter((one) => one === org_id),
        2
      )
      yield* Fiber.interrupt(first)
      for (const known of [inTransaction, yield* Fiber.join(second), yield* Fiber.join(third)]) {
        assert.strictEqual(known.size, inTransaction.size)
      }
    })
  )
})
