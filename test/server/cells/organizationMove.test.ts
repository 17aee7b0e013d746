import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { PgConnection } from "@effect/sql-pg"
import { statSync, writeFileSync } from "node:fs"
import path from "node:path"
import { Countersign } from "../../../src/testing/index.ts"
import {
  countFences,
  dump,
  fillEmptyTables,
  idOf,
  startCell,
  succeed,
  temporaryDirectory
} from "../../support/cells.ts"
import { eventually } from "../../support/eventually.ts"
import { seedOneOfEach } from "../../support/seedOneOfEach/seedOneOfEach.ts"
import { send } from "../../support/service.ts"

describe("a move of an organization", () => {
  it.live(
    "takes every row of it to the other installation, and nothing of others",
    () =>
      Effect.gen(function* () {
        const here = yield* startCell
        const there = yield* startCell
        const directory = yield* temporaryDirectory
        const file = path.join(directory, "acme.move")
        const seeded = yield* here.run(seedOneOfEach("acme"))
        yield* here.run(Effect.flatMap(Countersign, ({ key }) => key({}, "neighbour")))
        const org_id = yield* idOf(here, "acme")
        const neighbour = yield* idOf(here, "neighbour")
        const { key } = seeded
        yield* here.run(fillEmptyTables(here, org_id))
        // After the rows of other tables: the key of a person cannot be reported.
        const leaked = yield* here.run(
          Effect.flatMap(Countersign, (countersign) => countersign.key({}, "acme"))
        )

        const transferKey = succeed(yield* there.cli("org", "prepare"))
        const exported = yield* here.cli("org", "export", "acme", "--for", transferKey, "--to", file)
        assert.match(exported.err, /^Exported \d+ rows of acme/)
        assert.isTrue(exported.ok, exported.err)
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
        // The same command again would discard the codes of this export, and has no file to write to.
        const repeated = yield* here.cli("org", "export", "acme", "--for", transferKey, "--to", file)
        assert.isFalse(repeated.ok)
        assert.match(
          repeated.err,
          /Could not create .*: it exists already\. Remove it.* Nothing was changed\./
        )

        // Frozen: reads go on, writes get 503 and the time to retry after.
        const read = yield* here.run(send("/v1/tasks", { key }))
        assert.strictEqual(read.status, 200)
        const refused = yield* here.run(send("/v1/agent-sessions", { method: "POST", key, body: "{}" }))
        assert.strictEqual(refused.status, 503)
        assert.strictEqual(refused.body["code"], "UNAVAILABLE")
        assert.match(String(refused.body["detail"]), /is moving to another installation/)
        assert.strictEqual(refused.headers.get("retry-after"), "5")
        // A report of leaked keys revokes those of others, and is to be repeated for that of the frozen organization.
        const report = (...keys: ReadonlyArray<Redacted.Redacted>) =>
          here.run(
            Effect.map(
              send("/leaked-keys", {
                method: "POST",
                body: JSON.stringify(
                  keys.map((one) => ({ token: Redacted.value(one), type: "csk", url: "" }))
                )
              }),
              ({ status }) => status
            )
          )
        const spare = yield* here.run(
          Effect.flatMap(Countersign, (countersign) => countersign.key({}, "neighbour"))
        )
        assert.strictEqual(yield* report(leaked, spare), 503)
        assert.strictEqual((yield* here.run(send("/v1/tasks", { key: spare }))).status, 401)
        assert.strictEqual((yield* here.run(send("/v1/tasks", { key: leaked }))).status, 200)
        // A process that knows nothing of the move cannot write either.
        const connection = yield* PgConnection.make({ url: here.url })
        const direct = yield* Effect.exit(
          connection.query(`UPDATE tasks SET name = 'changed' WHERE org_id = '${org_id}'`)
        )
        assert.strictEqual(direct._tag, "Failure")
        // Results of deliveries are skipped, in partitions too: the batch that they are in has others' results.
        const skipped = yield* connection.query(
          `UPDATE delivery_attempts SET org_id = org_id WHERE org_id = '${org_id}' RETURNING 1`
        )
        assert.lengthOf(skipped.rows, 0)
        const before = yield* dump(here, org_id)
        const others = yield* dump(here, neighbour)
        // Every table has rows, so that one which is left behind would be missed.
        assert.deepStrictEqual(
          Object.keys(before).filter((table) => before[table]?.length === 0),
          []
        )

        const receipt = succeed(yield* there.cli("org", "import", file))
        assert.deepStrictEqual(yield* dump(there, org_id), before)
        // A repeated import changes nothing.
        assert.strictEqual(succeed(yield* there.cli("org", "import", file)), receipt)
        const early = yield* there.run(send("/v1/tasks", { key }))
        assert.strictEqual(early.status, 503)

        // Neither side can go on without the other's proof.
        assert.isFalse((yield* there.cli("org", "activate", "acme", "--release", receipt)).ok)
        assert.isFalse((yield* here.cli("org", "commit", "acme", "--receipt", "0".repeat(32))).ok)
        assert.isFalse((yield* here.cli("org", "finish", "acme", "--activation", receipt)).ok)

        const commit = ["org", "commit", "acme", "--receipt", receipt, "--moved-to", "https://two.example"]
        const release = succeed(yield* here.cli(...commit))
        assert.strictEqual(succeed(yield* here.cli(...commit)), release)
        assert.match((yield* here.cli("org", "abort", "acme")).err, /belongs to the other installation/)
        const moved = yield* eventually(here.run(send("/v1/tasks", { key })), ({ status }) => status !== 200)
        assert.strictEqual(moved.status, 421)
        assert.strictEqual(moved.body["code"], "ORGANIZATION_MOVED")
        assert.strictEqual(yield* report(leaked), 204)
        assert.strictEqual(moved.body["moved_to"], "https://two.example")

        const activate = ["org", "activate", "acme", "--release", release]
        const activation = succeed(yield* there.cli(...activate))
        assert.strictEqual(succeed(yield* there.cli(...activate)), activation)
        assert.strictEqual(yield* countFences(there), 0)
        const listed = yield* eventually(
          there.run(send("/v1/tasks", { key })),
          ({ status }) => status === 200
        )
        assert.strictEqual(listed.status, 200)
        // Secrets are sealed by the other key ring, and can be used.
        const log = succeed(yield* there.cli("audit", "export", "--org", "acme"))
        writeFileSync(path.join(directory, "audit.jsonl"), `${log}\n`)
        assert.match(log, /"action":"organization.moved"/)
        assert.match(
          succeed(yield* there.cli("audit", "verify", path.join(directory, "audit.jsonl"))),
          /^Verified \d+ entries/
        )
        const session = yield* there.run(send("/v1/agent-sessions", { method: "POST", key, body: "{}" }))
        assert.strictEqual(session.status, 201)

        const finish = ["org", "finish", "acme", "--activation", activation]
        assert.match(succeed(yield* here.cli(...finish)), /^Deleted \d+ rows/)
        assert.match(succeed(yield* here.cli(...finish)), /^Deleted 0 rows/)
        const left = yield* dump(here, org_id)
        assert.deepStrictEqual(
          Object.keys(left).filter((table) => left[table]?.length !== 0),
          []
        )
        assert.deepStrictEqual(yield* dump(here, neighbour), others)
        assert.strictEqual(yield* countFences(here), 0)
      }).pipe(Effect.scoped),
    180_000
  )
})
