import { assert, describe, layer } from "@effect/vitest"
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Environment } from "../../src/server/config/Settings.ts"
import * as Database from "../../src/server/store/Database.ts"
import { type NewAuditRow, startChains } from "../../src/server/identity/auditWrites.ts"
import { appendRows } from "../support/audit.ts"
import { cli } from "../support/cli.ts"
import { cloneDatabase } from "../support/postgres.ts"

/** The environment of an operator with a database for this file, and a directory for exports. */
class Operator extends Context.Service<
  Operator,
  { readonly environment: Environment; readonly directory: string }
>()("test/Operator") {
  static readonly layer = Layer.unwrap(
    Effect.map(cloneDatabase, (url) =>
      Layer.effect(
        Operator,
        Effect.gen(function* () {
          const directory = yield* Effect.acquireRelease(
            Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-audit-"))),
            (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
          )
          const environment = {
            DATABASE_URL: Redacted.value(url),
            COUNTERSIGN_MASTER_KEY: Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString(
              "base64"
            )
          }
          return { environment, directory }
        })
      ).pipe(Layer.provideMerge(Database.layer({ url })))
    )
  )
}

const run = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(Operator, ({ environment }) => cli(args, environment))

/** Creates an organization with as many keys, and so with as many audit entries. */
const seed = (org: string, entries: number) =>
  Effect.forEach(
    Array.from({ length: entries }, (_, index) => `key ${index} "\\ é 😀`),
    (name) => run("keys", "create", "--org", org, "--preset", "admin", "--name", name),
    { discard: true }
  )

const exportLines = (org: string) =>
  Effect.map(run("audit", "export", "--org", org), ({ err, out }) => {
    assert.strictEqual(err, "")
    return out.split("\n")
  })

/** Writes the lines to a file and verifies it. Returns the output, or the message of the refusal. */
const verify = Effect.fnUntraced(function* (
  lines: ReadonlyArray<string>,
  checkpoints: ReadonlyArray<string> = []
) {
  const { directory } = yield* Operator
  const [log, points] = ["log", "checkpoints"].map((name) => path.join(directory, name))
  if (log === undefined || points === undefined) return assert.fail("two files")
  yield* Effect.promise(() => writeFile(log, lines.map((line) => `${line}\n`).join("")))
  yield* Effect.promise(() => writeFile(points, checkpoints.join("\n")))
  const { err, ok, out } = yield* run("audit", "verify", "--checkpoints", points, log)
  return ok ? out : `refused: ${err}`
})

describe("countersign audit", () => {
  layer(Operator.layer, { excludeTestServices: true })((it) => {
    it.effect("verify accepts an export and finds a changed, removed, moved, inserted or cut entry", () =>
      Effect.gen(function* () {
        yield* seed("acme", 2)
        const early = (yield* run("audit", "checkpoint", "--org", "acme")).out
        yield* seed("acme2", 1)
        yield* Effect.forEach(["Ada", "Grace"], (name) =>
          run("keys", "create", "--org", "acme", "--preset", "reviewer", "--name", name)
        )
        const late = (yield* run("audit", "checkpoint", "--org", "acme")).out
        const lines = yield* exportLines("acme")
        assert.lengthOf(lines, 4)
        assert.match(yield* verify(lines, [early, late]), /Verified 4 entries .*positions 1 to 4, and 2 of 2/)
        const [first = "", second = "", third = "", fourth = ""] = lines
        for (const [altered, expected] of [
          [[first, second.replace("key 1", "key 7"), third, fourth], /position 2 was changed/],
          [[first, third, fourth], /Position 3 follows position 1/],
          [[first, third, second, fourth], /Position 3 follows position 1/],
          [[first, second, second, third, fourth], /Position 2 follows position 2/],
          [[first, second, third], /ends at position 3, before the checkpoint at position 4/],
          [[first, second, "{}"], /Line 3 is no entry/],
          [yield* exportLines("acme2"), /Verified 1 entries .* 0 of 2/]
        ] as const) {
          assert.match(yield* verify(altered, [early, late]), expected)
        }
        // Without the beginning, as retention leaves it, the rest can be verified; a checkpoint at the last deleted position still counts.
        assert.match(yield* verify([third, fourth], [early, late]), /positions 3 to 4, and 2 of 2/)
      })
    )

    it.effect("verify refuses more checkpoints than it compares", () =>
      Effect.gen(function* () {
        yield* seed("checkpoints", 1)
        const checkpoint = (yield* run("audit", "checkpoint", "--org", "checkpoints")).out
        const lines = yield* exportLines("checkpoints")
        const refused = yield* verify(
          lines,
          Array.from({ length: 100_001 }, () => checkpoint)
        )
        assert.match(refused, /refused: .* more than 100000 checkpoints/)
      })
    )

    it.effect(
      "verify finds entries that the database's owner changed, also if the owner rewrote the chain",
      () =>
        Effect.gen(function* () {
          yield* seed("tampered", 3)
          const checkpoint = (yield* run("audit", "checkpoint", "--org", "tampered")).out
          const sql = yield* SqlClient.SqlClient
          const org = sql`(SELECT org_id FROM organizations WHERE name = 'tampered')`
          yield* sql`UPDATE audit_log SET target_id = 'key_other' WHERE org_id = ${org}`
          assert.match(yield* verify(yield* exportLines("tampered")), /position 1 was changed/)
          const rows = yield* sql<Omit<NewAuditRow, "occurred_at"> & { readonly occurred_at: Date }>`
            DELETE FROM audit_log WHERE org_id = ${org} RETURNING *, detail::text AS detail
          `
          yield* sql`DELETE FROM audit_chain WHERE org_id = ${org}`
          yield* sql`DELETE FROM audit_heads WHERE org_id = ${org}`
          yield* startChains(sql, sql`SELECT ${org} AS org_id`)
          yield* appendRows(
            rows.map((row) => ({ ...row, occurred_at: DateTime.fromDateUnsafe(row.occurred_at) }))
          )
          const rewritten = yield* exportLines("tampered")
          assert.match(yield* verify(rewritten), /Verified 3 entries/)
          assert.match(yield* verify(rewritten, [checkpoint]), /differs from the checkpoint at position 3/)
        })
    )
  })
})
