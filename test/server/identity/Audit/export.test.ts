import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Redacted, Result, Schema, Stream } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { connect } from "../../../../src/client/index.ts"
import { type VerifiedChain, verifyEntry } from "../../../../src/domain/identity/AuditChain.ts"
import { ChainedAuditEntry } from "../../../../src/domain/identity/ChainedAuditEntry.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { appendRows, auditRow } from "../../../support/audit.ts"
import { cli } from "../../../support/cli.ts"
import { send, service } from "../../../support/service.ts"

/** Entries that one statement of an export reads. */
const PAGE_ROWS = 200

const decodeLine = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.toCodecJson(ChainedAuditEntry)))

/** Adds entries to the log of an organization. */
const addEntries = Effect.fnUntraced(function* (organization: string, count: number) {
  const org_id = yield* (yield* Organizations).ensure(organization)
  const now = yield* DateTime.now
  yield* appendRows(yield* Effect.replicateEffect(auditRow(org_id, now, { name: 'é "\\ 😀' }), count))
  return org_id
})

/** The text of an export. */
const exported = (key: Redacted.Redacted, query = "") =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    const answer = yield* Effect.promise(() =>
      fetch(`${url}/v1/audit-log/export${query}`, {
        headers: { authorization: `Bearer ${Redacted.value(key)}` }
      })
    )
    assert.strictEqual(answer.status, 200)
    assert.match(answer.headers.get("content-type") ?? "", /^application\/x-ndjson/)
    return yield* Effect.promise(() => answer.text())
  })

const entriesOf = (text: string) =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => decodeLine(line))

layer(service(), { excludeTestServices: true })("Audit › export", (it) => {
  it.effect("an organization exports its own chain in order, and not the entries of another one", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "exports")
      const stranger = yield* countersign.key({}, "exports elsewhere")
      const org_id = yield* addEntries("exports", 2 * PAGE_ROWS + 1)
      const entries = entriesOf(yield* exported(key))
      // The first entry is the creation of the key.
      assert.lengthOf(entries, 2 * PAGE_ROWS + 2)
      let verified: VerifiedChain | undefined
      for (const entry of entries) verified = Result.getOrThrow(verifyEntry(verified, entry))
      assert.isTrue(entries.every((entry) => entry.org_id === org_id))
      const { body } = yield* send("/v1/audit-log/checkpoint", { key })
      assert.deepInclude(body, { org_id, position: entries.length, digest: verified?.last.digest })

      const others = entriesOf(yield* exported(stranger))
      assert.lengthOf(others, 1)
      assert.notStrictEqual(others[0]?.org_id, org_id)
      const elsewhere = yield* send("/v1/audit-log/checkpoint", { key: stranger })
      assert.deepInclude(elsewhere.body, {
        org_id: others[0]?.org_id,
        position: 1,
        digest: others[0]?.digest
      })
    })
  )

  it.effect("an export continues after a position, and a hostile position is refused", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "continues")
      yield* addEntries("continues", 4)
      const all = yield* exported(key)
      const positions = (text: string) => entriesOf(text).map(({ position }) => position)
      assert.deepStrictEqual(positions(all), [1, 2, 3, 4, 5])
      assert.deepStrictEqual(positions(yield* exported(key, "?after=3")), [4, 5])
      // A position of another organization's chain is only a number here.
      for (const after of [5, 6, Number.MAX_SAFE_INTEGER])
        assert.strictEqual(yield* exported(key, `?after=${after}`), "")
      // Two parts, one after the other, are one export.
      const parts = all.split("\n").slice(0, 3).join("\n") + "\n" + (yield* exported(key, "?after=3"))
      assert.strictEqual(parts, all)
      const hostile = [
        "-1",
        "1.5",
        "1e3",
        "0x1",
        "01",
        "NaN",
        "Infinity",
        "9007199254740993",
        "1'--",
        "１",
        "",
        "%00"
      ]
      for (const after of hostile) {
        const refused = yield* send(`/v1/audit-log/export?after=${after}`, { key })
        assert.strictEqual(refused.status, 400, after)
        assert.strictEqual(refused.body["code"], "INVALID_REQUEST", after)
      }
      const repeated = yield* send("/v1/audit-log/export?after=1&after=2", { key })
      assert.strictEqual(repeated.status, 400)
    })
  )

  it.effect("the export and its checkpoint need approvals.admin", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const reviewer = yield* countersign.key({ preset: "reviewer" }, "scopes")
      for (const part of ["export", "checkpoint"]) {
        const refused = yield* send(`/v1/audit-log/${part}`, { key: reviewer })
        assert.strictEqual(refused.status, 403)
        assert.strictEqual(refused.body["required_scope"], "approvals.admin")
        assert.strictEqual((yield* send(`/v1/audit-log/${part}`)).status, 401)
      }
    })
  )

  it.effect("`countersign audit verify` accepts an export of the API, and finds a changed one", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "verifies")
      yield* addEntries("verifies", 3)
      const checkpoint = JSON.stringify((yield* send("/v1/audit-log/checkpoint", { key })).body)
      const text = yield* exported(key)
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-audit-"))),
        (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
      )
      const verify = Effect.fnUntraced(function* (log: string) {
        const [file, checkpoints] = [path.join(directory, "log"), path.join(directory, "checkpoints")]
        yield* Effect.promise(() => writeFile(file, log))
        yield* Effect.promise(() => writeFile(checkpoints, `${checkpoint}\n`))
        // An empty environment: verifying needs no database.
        return yield* cli(["audit", "verify", "--checkpoints", checkpoints, file], {})
      })
      assert.match((yield* verify(text)).out, /Verified 4 entries .*positions 1 to 4, and 1 of 1 checkpoints/)
      const changed = yield* verify(text.replace("key_1", "key_2"))
      assert.isFalse(changed.ok)
      assert.match(changed.err, /position 2 was changed/)
    }).pipe(Effect.scoped)
  )

  it.effect("both clients read an export and a checkpoint", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "clients")
      yield* addEntries("clients", 2)
      const { auditLog } = yield* countersign.clientWith(key)
      const stream = yield* auditLog.export({ query: { after: 1 } })
      const entries = yield* Stream.runCollect(stream)
      assert.deepStrictEqual(
        entries.map(({ position }) => position),
        [2, 3]
      )
      assert.strictEqual((yield* auditLog.getCheckpoint()).digest, entries.at(-1)?.digest)
      const promised = connect({ url: countersign.url, key: Redacted.value(key) })
      yield* Effect.promise(async () => {
        const positions: Array<number> = []
        for await (const { position } of await promised.auditLog.export({ query: { after: 2 } })) {
          positions.push(position)
        }
        assert.deepStrictEqual(positions, [3])
        assert.strictEqual((await promised.auditLog.getCheckpoint()).position, 3)
      })
    })
  )
})
