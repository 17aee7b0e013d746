import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../../../src/testing/index.ts"
import { service } from "../../../support/service.ts"

layer(service(), { excludeTestServices: true })("Changes of API keys", (it) => {
  it.effect("a key is renamed and gets another address; the audit log has the names and no address", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({ name: "owner" }, "rename")
      const { key } = yield* admin.apiKeys.create({
        payload: { name: "Ada", preset: "reviewer", email: "ada@example.com" }
      })
      const params = { id: key.id }
      const renamed = yield* admin.apiKeys.update({ params, payload: { name: "Ada Lovelace" } })
      assert.deepStrictEqual(renamed, { ...key, name: "Ada Lovelace" })
      const moved = yield* admin.apiKeys.update({ params, payload: { email: "ada@example.org" } })
      assert.deepStrictEqual(moved, { ...renamed, email: "ada@example.org" })
      const silent = yield* admin.apiKeys.update({ params, payload: { email: null } })
      assert.isNull(silent.email)
      // Nothing changes, so nothing is recorded.
      assert.deepStrictEqual(
        yield* admin.apiKeys.update({ params, payload: { name: "Ada Lovelace", email: null } }),
        silent
      )
      const { entries } = yield* admin.auditLog.list({ query: { action: "key.updated" } })
      assert.deepStrictEqual(
        entries.map(({ actor, detail, target_id }) => [actor?.name, target_id, detail]),
        [
          ["owner", key.id, { email: "removed" }],
          ["owner", key.id, { email: "changed" }],
          ["owner", key.id, { name: "Ada Lovelace", previous_name: "Ada" }]
        ]
      )
    })
  )

  it.effect(
    "a changed address is unverified until its owner confirms it, and the former stays confirmed",
    () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client({}, "unverified")
        const { key } = yield* admin.apiKeys.create({
          payload: { name: "Ada", preset: "reviewer", email: "ada@example.com" }
        })
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        INSERT INTO email_addresses (org_id, address, key_id, event_id, requested_at, requests_full_at, verified_at)
        SELECT org_id, email, key_id, ${`evt_${"0".repeat(32)}`}, now(), now(), now() FROM api_keys WHERE key_id = ${key.id}
      `
        const addressed = (email: string) =>
          Effect.map(
            admin.apiKeys.update({ params: { id: key.id }, payload: { email } }),
            (changed) => changed.email_verified_at !== null
          )
        assert.isFalse(yield* addressed("ada@example.org"))
        assert.isTrue(yield* addressed("ada@EXAMPLE.com"))
      })
  )

  it.effect("two usable keys never share a name, and the names of ended keys are free", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "names")
      const make = (name: string) =>
        Effect.map(admin.apiKeys.create({ payload: { name, preset: "runtime" } }), ({ key }) => key.id)
      const [first, second] = [yield* make("first"), yield* make("second")]
      const rename = (name: string) => admin.apiKeys.update({ params: { id: second }, payload: { name } })
      const accented = yield* make("Jos\u00e9 of  Sales")
      for (const lookAlike of ["FIRST", " first", "\uff46irst", "Jose\u0301 of\u00a0sales"]) {
        const refused = yield* Effect.flip(rename(lookAlike))
        assert.strictEqual(refused._tag, "NAME_IN_USE", lookAlike)
      }
      yield* make("\u0639\u0644\u06cc\u0631\u0636\u0627")
      assert.strictEqual(
        (yield* Effect.flip(rename("\u0639\u0644\u06cc\u0631\u200c\u0636\u0627")))._tag,
        "NAME_IN_USE",
        "a non-joiner that nobody sees"
      )
      yield* admin.apiKeys.revoke({ params: { id: accented } })
      assert.strictEqual((yield* rename("Second")).name, "Second")
      yield* admin.apiKeys.revoke({ params: { id: first } })
      assert.strictEqual((yield* rename("first")).name, "first")
    })
  )

  it.effect("a revoked or expired key, and another organization's, cannot be changed", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "ended")
      const { key } = yield* admin.apiKeys.create({ payload: { name: "one", preset: "runtime" } })
      const change = { params: { id: key.id }, payload: { name: "another" } }
      const stranger = yield* client({}, "ended elsewhere")
      assert.strictEqual((yield* Effect.flip(stranger.apiKeys.update(change)))._tag, "NOT_FOUND")
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE key_id = ${key.id}`
      assert.strictEqual((yield* Effect.flip(admin.apiKeys.update(change)))._tag, "KEY_ENDED")
      yield* sql`UPDATE api_keys SET expires_at = NULL WHERE key_id = ${key.id}`
      yield* admin.apiKeys.revoke({ params: { id: key.id } })
      assert.strictEqual((yield* Effect.flip(admin.apiKeys.update(change)))._tag, "KEY_ENDED")
    })
  )

  it.effect("a key changes only keys of which it has every scope and group", () =>
    Effect.gen(function* () {
      const { client, clientWith } = yield* Countersign
      const admin = yield* client({}, "rights")
      const make = (
        name: string,
        scopes: readonly [
          "keys.write" | "approvals.decide",
          ...ReadonlyArray<"keys.write" | "approvals.decide">
        ],
        groups: ReadonlyArray<string>
      ) => admin.apiKeys.create({ payload: { name, scopes, groups } })
      const helpdesk = yield* make("helpdesk", ["keys.write"], [])
      const deputy = yield* make("deputy", ["keys.write", "approvals.decide"], ["legal"])
      const { key: reviewer } = yield* make("reviewer", ["approvals.decide"], [])
      const { key: financier } = yield* make("financier", ["approvals.decide"], ["finance"])
      const readdress = (secret: string, id: typeof reviewer.id) =>
        Effect.flatMap(clientWith(Redacted.make(secret)), ({ apiKeys }) =>
          apiKeys.update({ params: { id }, payload: { email: "mine@example.com" } })
        )
      const byHelpdesk = yield* Effect.flip(readdress(helpdesk.secret, reviewer.id))
      assert.deepStrictEqual(
        byHelpdesk._tag === "INSUFFICIENT_SCOPE" && byHelpdesk.required_scope,
        "approvals.decide"
      )
      const byDeputy = yield* Effect.flip(readdress(deputy.secret, financier.id))
      assert.deepStrictEqual(byDeputy._tag === "INSUFFICIENT_SCOPE" && byDeputy.required_scope, "rules.write")
      assert.strictEqual((yield* readdress(deputy.secret, reviewer.id)).email, "mine@example.com")
      assert.strictEqual((yield* readdress(helpdesk.secret, helpdesk.key.id)).email, "mine@example.com")
    })
  )

  it.effect("a key revokes only keys of which it has every scope and group, and itself", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "revokes")
      const clerk = yield* client({ name: "clerk", scopes: ["keys.write"] }, "revokes")
      const made = (
        name: string,
        scopes: readonly ["keys.write" | "tasks.read"],
        groups: Array<string> = []
      ) =>
        Effect.map(admin.apiKeys.create({ payload: { name, scopes, groups } }), ({ key }) => ({
          params: { id: key.id }
        }))
      const [wide, grouped, equal] = [
        yield* made("wide", ["tasks.read"]),
        yield* made("grouped", ["keys.write"], ["legal"]),
        yield* made("equal", ["keys.write"])
      ]
      const refused = yield* Effect.flip(clerk.apiKeys.revoke(wide))
      assert.deepInclude(refused, { _tag: "INSUFFICIENT_SCOPE", required_scope: "tasks.read" })
      const byGroup = yield* Effect.flip(clerk.apiKeys.revoke(grouped))
      assert.deepInclude(byGroup, { _tag: "INSUFFICIENT_SCOPE", required_scope: "rules.write" })
      yield* clerk.apiKeys.revoke(equal)
      // A foreign key is as unknown as one that does not exist.
      const { keys } = yield* (yield* client({}, "others")).apiKeys.list({ query: {} })
      const foreign = keys[0]?.id ?? assert.fail("a key")
      assert.strictEqual(
        (yield* Effect.flip(clerk.apiKeys.revoke({ params: { id: foreign } })))._tag,
        "NOT_FOUND"
      )
      const own = (yield* admin.apiKeys.list({ query: { name: "clerk" } })).keys[0]?.id
      yield* clerk.apiKeys.revoke({ params: { id: own ?? assert.fail("its own") } })
      assert.isNull((yield* admin.apiKeys.get(wide)).revoked_at)
    })
  )

  it.effect("keys are listed by status, by a part of the name, and in three orders, page by page", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({ name: "owner" }, "filters")
      const ids = new Map<string, string>()
      for (const name of ["beta 50%", "Alpha", "gamma", "delta_1", "Epsilon"]) {
        const { key } = yield* admin.apiKeys.create({ payload: { name, preset: "runtime" } })
        ids.set(name, key.id)
      }
      const sql = yield* SqlClient.SqlClient
      const now = yield* DateTime.now
      yield* sql`UPDATE api_keys SET expires_at = ${DateTime.toDate(now)} WHERE key_id = ${ids.get("gamma") ?? ""}`
      yield* sql`UPDATE api_keys SET revoked_at = ${DateTime.toDate(now)}, expires_at = ${DateTime.toDate(now)} WHERE key_id = ${ids.get("Alpha") ?? ""}`
      yield* sql`
        INSERT INTO api_key_uses (org_id, key_id, last_used_at)
        SELECT org_id, key_id, now() - CASE name WHEN 'delta_1' THEN interval '1 day' ELSE interval '2 days' END
        FROM api_keys WHERE name IN ('delta_1', 'beta 50%')
        ON CONFLICT DO NOTHING
      `
      type Query = NonNullable<NonNullable<Parameters<typeof admin.apiKeys.list>[0]>["query"]>
      const all = (query: Query): Effect.Effect<ReadonlyArray<string>, unknown> =>
        Effect.flatMap(admin.apiKeys.list({ query: { limit: 2, ...query } }), ({ keys, next_cursor }) => {
          const names = keys.map(({ name }) => name).filter((name) => name !== "owner")
          return next_cursor === null
            ? Effect.succeed(names)
            : Effect.map(all({ ...query, cursor: next_cursor }), (rest) => [...names, ...rest])
        })
      assert.deepStrictEqual(yield* all({}), ["Epsilon", "delta_1", "gamma", "Alpha", "beta 50%"])
      assert.deepStrictEqual(yield* all({ status: "active" }), ["Epsilon", "delta_1", "beta 50%"])
      assert.deepStrictEqual(yield* all({ status: "expired" }), ["gamma"])
      assert.deepStrictEqual(yield* all({ status: "revoked" }), ["Alpha"])
      assert.deepStrictEqual(yield* all({ name: "ET" }), ["beta 50%"])
      // Neither is a pattern.
      assert.deepStrictEqual(yield* all({ name: "%" }), ["beta 50%"])
      assert.deepStrictEqual(yield* all({ name: "_" }), ["delta_1"])
      assert.deepStrictEqual(yield* all({ order: "name" }), [
        "Alpha",
        "beta 50%",
        "delta_1",
        "Epsilon",
        "gamma"
      ])
      assert.deepStrictEqual(yield* all({ order: "last_used" }), [
        "delta_1",
        "beta 50%",
        "Epsilon",
        "gamma",
        "Alpha"
      ])
    })
  )
})
