import { assert, layer } from "@effect/vitest"
import { Array as Arr, DateTime, Deferred, Effect, Fiber, Option, Redacted, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { base62Checksum, generateApiKey } from "../../../src/domain/identity/ApiKeyFormat.ts"
import { presetScopes } from "../../../src/domain/identity/Scope.ts"
import { ApiKeys, type CreatedKey, MAX_GENERATIONS } from "../../../src/server/identity/ApiKeys.ts"
import { Revocations } from "../../../src/server/identity/Revocations.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { pointersOf, send, service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true })("ApiKeys", (it) => {
  it.effect("a key is shown once, listed without its secret, and stored as a digest", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "shown once")
      const { key, secret } = yield* admin.apiKeys.create({
        payload: { name: "integration", preset: "integration", email: "a@example.com" }
      })
      assert.match(secret, /^csk_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/)
      assert.deepStrictEqual(key.scopes, ["feedback.write", "feedback.read"])
      assert.isTrue(secret.startsWith(key.hint))
      const { keys } = yield* admin.apiKeys.list({})
      assert.deepStrictEqual(keys[0], key)
      assert.notInclude(JSON.stringify(keys), secret)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`SELECT to_json(api_keys)::text AS row FROM api_keys`
      assert.notInclude(JSON.stringify(rows), secret.slice(21))
    })
  )

  it.effect("one key is read by its ID, also a revoked one, but not one of another organization", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "one key")
      const stranger = yield* client({}, "another one")
      const { key } = yield* admin.apiKeys.create({ payload: { name: "read", preset: "runtime" } })
      assert.deepStrictEqual(yield* admin.apiKeys.get({ params: { id: key.id } }), key)
      yield* admin.apiKeys.revoke({ params: { id: key.id } })
      assert.isNotNull((yield* admin.apiKeys.get({ params: { id: key.id } })).revoked_at)
      const refused = yield* Effect.flip(stranger.apiKeys.get({ params: { id: key.id } }))
      assert.strictEqual(refused._tag, "NOT_FOUND")
      const runtime = yield* client({ preset: "runtime" }, "one key")
      const forbidden = yield* Effect.flip(runtime.apiKeys.get({ params: { id: key.id } }))
      assert.strictEqual(forbidden._tag, "INSUFFICIENT_SCOPE")
    })
  )

  it.effect("the public part of a key, which is shown in lists, authenticates nobody", () =>
    Effect.gen(function* () {
      const { apiKeys } = yield* (yield* Countersign).client({}, "public part")
      const { secret } = yield* apiKeys.create({ payload: { name: "own", preset: "admin" } })
      assert.strictEqual((yield* send("/v1/tasks", { key: secret })).status, 200)
      const guessed = `${secret.slice(0, 21)}${"0".repeat(43)}`
      const refused = yield* send("/v1/tasks", { key: `${guessed}${base62Checksum(guessed)}` })
      assert.deepStrictEqual([refused.status, refused.body["detail"]], [401, "Unknown API key."])
    })
  )

  it.effect("a key cannot grant a scope that it does not have", () =>
    Effect.gen(function* () {
      const narrow = yield* (yield* Countersign).client({
        name: "narrow",
        scopes: ["keys.write", "tasks.read"]
      })
      for (const scopes of [
        ["tasks.write"],
        ["tasks.read", "tasks.write"],
        ["tasks.write", "tasks.read"]
      ] as const) {
        const refused = yield* Effect.flip(narrow.apiKeys.create({ payload: { name: "wider", scopes } }))
        assert.strictEqual(refused._tag, "INSUFFICIENT_SCOPE")
        if (refused._tag === "INSUFFICIENT_SCOPE") assert.strictEqual(refused.required_scope, "tasks.write")
        assert.deepStrictEqual(pointersOf(refused), ["#/scopes"])
      }
      const admin = yield* Effect.flip(narrow.apiKeys.create({ payload: { name: "admin", preset: "admin" } }))
      assert.deepStrictEqual(pointersOf(admin), ["#/preset"])
      const made = yield* narrow.apiKeys.create({ payload: { name: "same", scopes: ["tasks.read"] } })
      assert.deepStrictEqual(made.key.scopes, ["tasks.read"])
    })
  )

  it.effect("a key gives only groups that it has, unless it may replace the rules", () =>
    Effect.gen(function* () {
      const { client, clientWith } = yield* Countersign
      const admin = yield* client({ name: "owner" }, "groups")
      const made = yield* admin.apiKeys.create({
        payload: {
          name: "people",
          scopes: ["keys.write", "approvals.decide"],
          groups: ["finance", "finance", "legal"]
        }
      })
      assert.deepStrictEqual(made.key.groups, ["finance", "legal"])
      assert.deepStrictEqual((yield* admin.apiKeys.list({})).keys[0]?.groups, ["finance", "legal"])
      const people = yield* clientWith(Redacted.make(made.secret))
      const make = (name: string, ...groups: ReadonlyArray<string>) =>
        people.apiKeys.create({ payload: { name, scopes: ["approvals.decide"], groups } })
      const refused = yield* Effect.flip(make("wider", "finance", "security"))
      assert.strictEqual(refused._tag, "INSUFFICIENT_SCOPE")
      assert.deepStrictEqual(pointersOf(refused), ["#/groups/1"])
      assert.deepStrictEqual((yield* make("same", "legal")).key.groups, ["legal"])
      // Without groups of its own: a key does not inherit those of its maker.
      assert.deepStrictEqual((yield* make("none")).key.groups, [])
      const sql = yield* SqlClient.SqlClient
      const [entry] = yield* sql<{ readonly detail: { readonly groups: ReadonlyArray<string> } }>`
        SELECT detail FROM audit_log WHERE action = 'key.created' AND target_id = ${made.key.id}
      `
      assert.deepStrictEqual(entry?.detail.groups, ["finance", "legal"])
      const key = yield* (yield* Countersign).key({}, "groups")
      for (const groups of [
        ["Finance"],
        ["-a"],
        ["a".repeat(64)],
        Array.from({ length: 11 }, (_, n) => `g${n}`)
      ]) {
        const body = JSON.stringify({ name: "bad", preset: "reviewer", groups })
        assert.strictEqual((yield* send("/v1/api-keys", { method: "POST", key, body })).status, 400)
      }
    })
  )

  it.effect("a key with a preset follows the preset, other keys have the scopes that were named", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({ name: "Ann" }, "presets")
      const make = (payload: Parameters<typeof admin.apiKeys.create>[0]["payload"]) =>
        Effect.map(admin.apiKeys.create({ payload }), ({ key }) => key)
      // Generated clients send an empty list where the caller names no scopes.
      const preset = yield* make({
        name: "preset",
        preset: "reviewer",
        scopes: [],
        email: null,
        expires_at: null
      })
      const narrowed = yield* make({ name: "narrowed", preset: "reviewer", scopes: ["tasks.read"] })
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`
        SELECT scopes, created_by_name FROM api_keys WHERE key_id IN (${preset.id}, ${narrowed.id}) ORDER BY key_id
      `
      assert.deepStrictEqual(rows, [
        { scopes: null, created_by_name: "Ann" },
        { scopes: ["tasks.read"], created_by_name: "Ann" }
      ])
      assert.include(preset.scopes, "approvals.decide")
      const { keys } = yield* admin.apiKeys.list({})
      assert.deepStrictEqual(keys.slice(0, 2), [narrowed, preset])
      assert.strictEqual(keys[0]?.created_by?.name, "Ann")
      assert.isNull(keys[2]?.created_by)
    })
  )

  it.effect("a new key needs a preset or a scope, and an expiry in the future", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      for (const [body, pointer] of [
        [{ name: "x" }, "#/scopes"],
        [{ name: "x", scopes: [] }, "#/scopes"],
        [{ name: "x", preset: "runtime", scopes: ["keys.write"] }, "#/scopes"],
        [{ name: "x", preset: "runtime", expires_at: "2020-01-01T00:00:00Z" }, "#/expires_at"],
        [{ name: "x", preset: "runtime", expires_at: "2099" }, "#/expires_at"],
        [{ name: "x", preset: "runtime", expires_at: "+275760-01-01T00:00:00Z" }, "#/expires_at"],
        [{ name: "x", preset: "runtime", email: "no address" }, "#/email"],
        [{ name: "", preset: "runtime" }, "#/name"],
        [{ name: "ad\u200bmin", preset: "runtime" }, "#/name"],
        [{ name: "\u202enimda", preset: "runtime" }, "#/name"],
        [{ name: "  ", preset: "runtime" }, "#/name"],
        [{ name: "x", preset: "owner" }, "#/preset"]
      ] as const) {
        const answer = yield* send("/v1/api-keys", { method: "POST", key, body: JSON.stringify(body) })
        assert.strictEqual(answer.status, 400)
        assert.strictEqual(answer.errors[0]?.pointer, pointer)
      }
    })
  )

  it.effect("an expired key is refused, and the problem says that it has expired", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "expired")
      const { key, secret } = yield* admin.apiKeys.create({
        payload: { name: "temporary", preset: "admin" }
      })
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = ${key.id}`
      const { body, status } = yield* send("/v1/api-keys", { key: secret })
      assert.deepStrictEqual([status, body["detail"]], [401, "This API key has expired."])
    })
  )

  it.effect("of concurrent revocations the last usable admin key of an organization is refused", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "last admin")
      const other = yield* countersign.client({}, "last admin")
      const { keys } = yield* admin.apiKeys.list({})
      assert.lengthOf(keys, 2)
      const sql = yield* SqlClient.SqlClient
      // Another transaction blocks both, so that neither is authenticated after the other has revoked its key.
      const locked = yield* Deferred.make<void>()
      const released = yield* Deferred.make<void>()
      const lock = yield* sql`SELECT 1 FROM organizations WHERE name = 'last admin' FOR UPDATE`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(released)),
        transaction,
        Effect.forkChild
      )
      yield* Deferred.await(locked)
      const revocations = yield* Effect.forEach(
        keys,
        ({ id }) => Effect.result(other.apiKeys.revoke({ params: { id } })),
        { concurrency: "unbounded" }
      ).pipe(Effect.forkChild)
      yield* waitForBlockedStatements(2)
      yield* Deferred.succeed(released, undefined)
      yield* Fiber.join(lock)
      const outcomes = yield* Fiber.join(revocations)
      const failures = outcomes.filter(({ _tag }) => _tag === "Failure")
      assert.lengthOf(failures, 1)
      assert.propertyVal(failures[0]?._tag === "Failure" ? failures[0].failure : {}, "_tag", "LAST_ADMIN_KEY")
    })
  )

  it.effect("a key that lost rights while it created another one gives none of them", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "reduced maker")
      const sql = yield* SqlClient.SqlClient
      const makeWhile = Effect.fnUntraced(function* (name: string, reduced: ReadonlyArray<string>) {
        const { key, secret } = yield* admin.apiKeys.create({ payload: { name, preset: "admin" } })
        const { apiKeys } = yield* countersign.clientWith(Redacted.make(secret))
        // The request is authorized and then waits: what holds the lock takes the rights.
        const making = yield* Effect.gen(function* () {
          yield* sql`SELECT 1 FROM organizations WHERE name = 'reduced maker' FOR UPDATE`
          const making = yield* apiKeys
            .create({ payload: { name: `made by ${name}`, preset: "reviewer", groups: ["legal"] } })
            .pipe(Effect.result, Effect.forkDetach)
          yield* waitForBlockedStatements(1)
          yield* sql`UPDATE api_keys SET scopes = ${reduced}::text[] WHERE key_id = ${key.id}`
          return making
        }).pipe(transaction)
        const made = yield* Fiber.join(making)
        return made._tag === "Failure" && made.failure._tag === "INSUFFICIENT_SCOPE"
          ? made.failure.required_scope
          : made._tag
      })
      const reviewer = presetScopes("reviewer")
      assert.strictEqual(yield* makeWhile("demoted", reviewer), "keys.write")
      assert.strictEqual(yield* makeWhile("keys only", ["keys.write"]), "feedback.read")
      assert.strictEqual(yield* makeWhile("without rules", ["keys.write", ...reviewer]), "rules.write")
    })
  )

  it.effect("a key that a temporary key creates expires with it, or earlier", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "temporary")
      const expires_at = DateTime.makeUnsafe("2099-01-01T00:00:00Z")
      const temporary = yield* admin.apiKeys.create({
        payload: { name: "temporary", preset: "admin", expires_at }
      })
      const { apiKeys } = yield* countersign.clientWith(Redacted.make(temporary.secret))
      const later = yield* Effect.flip(
        apiKeys.create({
          payload: { name: "later", preset: "admin", expires_at: DateTime.add(expires_at, { seconds: 1 }) }
        })
      )
      assert.deepStrictEqual(pointersOf(later), ["#/expires_at"])
      const sooner = DateTime.subtract(expires_at, { hours: 1 })
      const made = yield* Effect.forEach(
        [{}, { expires_at: null }, { expires_at }, { expires_at: sooner }],
        (expiry, index) => apiKeys.create({ payload: { name: `made ${index}`, preset: "admin", ...expiry } })
      )
      assert.deepStrictEqual(
        made.map(({ key }) => key.expires_at && DateTime.formatIso(key.expires_at)),
        [expires_at, expires_at, expires_at, sooner].map(DateTime.formatIso)
      )
    })
  )

  it.effect(
    "revoking a key revokes the keys that it created, or keeps them if asked, each with an audit entry",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const admin = yield* countersign.client({}, "line")
        const make = (maker: typeof admin, name: string) =>
          maker.apiKeys.create({ payload: { name, preset: "admin" } })
        const first = yield* make(admin, "first")
        const second = yield* make(yield* countersign.clientWith(Redacted.make(first.secret)), "second")
        const third = yield* make(yield* countersign.clientWith(Redacted.make(second.secret)), "third")
        const bystander = yield* make(admin, "bystander")
        // Used before, so that the revocation also has to reach the cache of verified keys.
        for (const { secret } of [third, bystander]) {
          assert.strictEqual((yield* send("/v1/api-keys", { key: secret })).status, 200)
        }
        yield* admin.apiKeys.revoke({ params: { id: first.key.id }, query: { made_keys: "keep" } })
        assert.strictEqual((yield* send("/v1/api-keys", { key: second.secret })).status, 200)
        // Again, without keeping them: revoking a revoked key still revokes the keys that it created.
        yield* admin.apiKeys.revoke({ params: { id: first.key.id } })
        for (const { secret } of [first, second, third]) {
          assert.strictEqual((yield* send("/v1/api-keys", { key: secret })).status, 401)
        }
        assert.strictEqual((yield* send("/v1/api-keys", { key: bystander.secret })).status, 200)
        const { entries } = yield* admin.auditLog.list({ query: { action: "key.revoked" } })
        assert.deepStrictEqual(entries.map(({ detail, target_id }) => [target_id, detail]).toReversed(), [
          [first.key.id, {}],
          [second.key.id, { revoked_with: first.key.id }],
          [third.key.id, { revoked_with: first.key.id }]
        ])
      })
  )

  it.effect("the key that created all other admin keys is revoked only if they are kept", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "replaced")
      const [first] = (yield* admin.apiKeys.list({})).keys
      if (first === undefined) return assert.fail("the admin's own key")
      const { secret } = yield* admin.apiKeys.create({ payload: { name: "next", preset: "admin" } })
      const next = yield* countersign.clientWith(Redacted.make(secret))
      const params = { id: first.id }
      const refused = yield* Effect.flip(next.apiKeys.revoke({ params }))
      assert.strictEqual(refused._tag, "LAST_ADMIN_KEY")
      yield* next.apiKeys.revoke({ params, query: { made_keys: "keep" } })
      assert.lengthOf((yield* next.apiKeys.list({})).keys, 2)
    })
  )

  it.effect("a key that is being revoked leaves no key behind that it creates at that moment", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "race")
      const maker = yield* admin.apiKeys.create({ payload: { name: "maker", preset: "admin" } })
      const { apiKeys } = yield* countersign.clientWith(Redacted.make(maker.secret))
      yield* Effect.all(
        [
          ...Arr.makeBy(8, (index) =>
            Effect.result(apiKeys.create({ payload: { name: `made ${index}`, preset: "runtime" } }))
          ),
          admin.apiKeys.revoke({ params: { id: maker.key.id } })
        ],
        { concurrency: "unbounded" }
      )
      const { keys } = yield* admin.apiKeys.list({})
      const usable = keys.filter(({ revoked_at }) => revoked_at === null)
      assert.lengthOf(usable, 1)
    })
  )

  it.effect("two usable keys cannot have one name, apart from letter case", () =>
    Effect.gen(function* () {
      const { apiKeys } = yield* (yield* Countersign).client({}, "names")
      const create = (name: string) => apiKeys.create({ payload: { name, preset: "reviewer" } })
      const ada = yield* create("Ada")
      const refused = yield* Effect.flip(create("ADA"))
      assert.strictEqual(refused._tag, "NAME_IN_USE")
      yield* apiKeys.revoke({ params: { id: ada.key.id } })
      yield* create("Ada")
    })
  )

  it.effect("keys that create each other form a line of bounded length", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      let last = yield* countersign.client({}, "generations")
      for (let made = 1; made < MAX_GENERATIONS; made++) {
        const { secret } = yield* last.apiKeys.create({ payload: { name: `key ${made}`, preset: "admin" } })
        last = yield* countersign.clientWith(Redacted.make(secret))
      }
      const refused = yield* Effect.flip(
        last.apiKeys.create({ payload: { name: "one more", preset: "runtime" } })
      )
      assert.strictEqual(refused._tag, "INVALID_REQUEST")
    })
  )

  it.effect("keys of another organization answer 404", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const theirs = yield* (yield* countersign.client({}, "theirs")).apiKeys.list({})
      const ours = yield* countersign.client({}, "ours")
      const id = theirs.keys[0]?.id
      if (id === undefined) return assert.fail("they have a key")
      assert.propertyVal(yield* Effect.flip(ours.apiKeys.revoke({ params: { id } })), "_tag", "NOT_FOUND")
      assert.lengthOf((yield* ours.apiKeys.list({})).keys, 1)
    })
  )

  it.effect("keys are listed in pages, newest first, each once", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "pages")
      for (let count = 0; count < 7; count++) {
        yield* admin.apiKeys.create({ payload: { name: `key ${count}`, preset: "runtime" } })
      }
      const seen: Array<string> = []
      let cursor: (typeof page)["next_cursor"] | undefined
      let page = yield* admin.apiKeys.list({ query: { limit: 3 } })
      for (;;) {
        seen.push(...page.keys.map(({ name }) => name))
        cursor = page.next_cursor
        if (cursor === null) break
        page = yield* admin.apiKeys.list({ query: { limit: 3, cursor } })
      }
      assert.deepStrictEqual(seen, ["key 6", "key 5", "key 4", "key 3", "key 2", "key 1", "key 0", "test"])
    })
  )
})

layer(service(), { excludeTestServices: true })("ApiKeys › verify", (it) => {
  it.effect(
    "concurrent requests with one key share one query, also if the request that started it is interrupted",
    () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const used = yield* (yield* Countersign).key()
        const { key: unknown } = yield* generateApiKey
        let admitted = 0
        const admit = Effect.sync(() => void admitted++)
        let statements = 0
        const counting = Tracer.make({
          span: (options) => {
            if (options.kind === "client") statements++
            return new Tracer.NativeSpan(options)
          }
        })
        for (const [key, outcome] of [
          [unknown, "INVALID_API_KEY"],
          [used, "verified"]
        ] as const) {
          ;[admitted, statements] = [0, 0]
          const verify = keys.verify(key, admit).pipe(
            Effect.as("verified"),
            Effect.catch(({ _tag }) => Effect.succeed(_tag))
          )
          const outcomes = yield* Effect.gen(function* () {
            const first = yield* Effect.forkChild(verify, { startImmediately: true })
            const others = yield* Effect.forkChild(
              Effect.all(Arr.replicate(verify, 99), { concurrency: 99 }),
              {
                startImmediately: true
              }
            )
            yield* Fiber.interrupt(first)
            return yield* Fiber.join(others)
          }).pipe(Effect.withTracer(counting), Effect.withTracerEnabled(true))
          assert.deepStrictEqual([...new Set(outcomes)], [outcome])
          assert.deepStrictEqual({ admitted, statements }, { admitted: 1, statements: 1 })
        }
      })
  )

  it.effect("a key that was verified before needs no admission when it is queried again", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const { publish } = yield* Revocations
      const used = yield* (yield* Countersign).key()
      let admitted = 0
      const admit = Effect.sync(() => void admitted++)
      const { actor } = yield* keys.verify(used, admit)
      assert.strictEqual(admitted, 1)
      // Its next request queries the database, which finds it as it was.
      yield* publish(actor.id)
      yield* keys.verify(used, admit)
      assert.strictEqual(admitted, 1)
    })
  )
})

layer(service(), { excludeTestServices: true })("ApiKeys › bootstrap", (it) => {
  it.effect(
    "the first admin key is created once by concurrent starts, and a given key is ignored if a key exists",
    () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const sql = yield* SqlClient.SqlClient
        const { key: given } = yield* generateApiKey
        const waiting = sql<{ readonly count: number }>`
          SELECT count(*)::int AS count FROM pg_locks WHERE relation = 'organizations'::regclass AND NOT granted
        `
        // Another transaction blocks changes of organizations until two starts wait, so that they overlap.
        let starts: ReadonlyArray<Promise<Option.Option<CreatedKey>>> = []
        yield* transaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE organizations IN SHARE MODE`
            // Outside this transaction.
            starts = Array.from({ length: 5 }, () =>
              Effect.runPromise(keys.bootstrap({ org_name: "first", key: Option.some(given) }))
            )
            yield* Effect.repeat(waiting, { until: ([row]) => (row?.count ?? 0) >= 2 })
          })
        )
        const made = yield* Effect.promise(() => Promise.all(starts))
        const created = made.filter(Option.isSome)
        assert.lengthOf(created, 1)
        assert.deepStrictEqual(
          created.map(({ value }) => Redacted.value(value.secret)),
          [Redacted.value(given)]
        )
        assert.isTrue(Option.isNone(yield* keys.bootstrap({ org_name: "first", key: Option.none() })))
        const { org_id } = yield* keys.verify(given)
        assert.match(org_id, /^org_/)
      })
  )
})
