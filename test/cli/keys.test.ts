import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { parseApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import type { Environment } from "../../src/server/config/Settings.ts"
import { cli } from "../support/cli.ts"
import { cloneDatabase } from "../support/postgres.ts"

/** The environment of an operator with a database for this file. */
class Operator extends Context.Service<Operator, Environment>()("test/Operator") {
  static readonly layer = Layer.effect(
    Operator,
    Effect.map(cloneDatabase, (url) => ({
      DATABASE_URL: Redacted.value(url),
      COUNTERSIGN_MASTER_KEY: Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")
    }))
  )
}

const run = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(Operator, (environment) => cli(args, environment))

describe("countersign keys", () => {
  layer(Operator.layer, { excludeTestServices: true })((it) => {
    it.effect("create prints the key alone on stdout; list shows it without its secret", () =>
      Effect.gen(function* () {
        const { err, out } = yield* run(
          "keys",
          "create",
          "--org",
          "acme",
          "--preset",
          "admin",
          "--name",
          "Ann"
        )
        assert.isTrue(Result.isSuccess(parseApiKey(out)))
        assert.include(err, "(Ann) of organization acme")
        const listed = yield* run("keys", "list", "--org", "acme")
        assert.include(listed.out, "Ann")
        assert.include(listed.out, out.slice(0, 21))
        assert.notInclude(listed.out, out.slice(21))
      })
    )

    it.effect("create accepts scopes, an email address and an expiry, and prints JSON", () =>
      Effect.gen(function* () {
        const { out } = yield* run(
          "keys",
          "create",
          "--org=narrow",
          "--preset=reviewer",
          "--scopes=approvals.read, approvals.decide",
          "--email=ann@acme.example",
          "--expires=2126-01-31T00:00:00Z",
          "--json"
        )
        const { key } = JSON.parse(out)
        assert.deepInclude(key, {
          preset: "reviewer",
          scopes: ["approvals.read", "approvals.decide"],
          email: "ann@acme.example",
          expires_at: "2126-01-31T00:00:00.000Z"
        })
      })
    )

    it.effect("revoke revokes a key, but not the last admin key", () =>
      Effect.gen(function* () {
        const created = yield* run("keys", "create", "--org", "beta", "--preset", "admin", "--json")
        const { key } = JSON.parse(created.out)
        const last = yield* run("keys", "revoke", "--org", "beta", key.id)
        assert.isFalse(last.ok)
        assert.include(last.err, "another admin key")
        yield* run("keys", "create", "--org", "beta", "--preset", "admin")
        assert.isTrue((yield* run("keys", "revoke", "--org", "beta", key.id)).ok)
        assert.include((yield* run("keys", "list", "--org", "beta")).out, "revoked")
        const foreign = yield* run("keys", "revoke", "--org", "acme", key.id)
        assert.include(foreign.err, "No such key in this organization.")
      })
    )

    it.effect("create rejects invalid flags in one line", () =>
      Effect.gen(function* () {
        for (const [args, says] of [
          [["--org", "acme"], /A preset or at least one scope is required/],
          [["--scopes", "everything"], /scopes/],
          [["--preset", "runtime", "--scopes", "keys.write"], /does not include keys\.write/],
          [["--preset", "admin", "--email", "nobody"], /email/],
          [["--preset", "admin", "--expires", "2001-01-01T00:00:00Z"], /a time in the future/]
        ] as const) {
          const { err, ok, out } = yield* run("keys", "create", ...args)
          assert.isFalse(ok)
          assert.match(err, says)
          assert.strictEqual(err.split("\n").length, 1)
          assert.strictEqual(out, "")
        }
        assert.include(
          (yield* run("keys", "list", "--org", "nobody")).err,
          "No organization is named nobody."
        )
        yield* run(
          "keys",
          "create",
          "--org",
          "refused",
          "--preset",
          "admin",
          "--expires",
          "2001-01-01T00:00:00Z"
        )
        const refused = yield* run("keys", "list", "--org", "refused")
        assert.include(refused.err, "No organization is named refused.")
        assert.isFalse((yield* run("keys", "create", "--org", "", "--preset", "admin")).ok)
      })
    )

    it.effect("migrate reports that no migrations are left", () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* run("migrate")).out, "No migrations to apply; the database is up to date")
      })
    )
  })
})
