import { assert, describe, it } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { spawnCli } from "../../support/process.ts"

/** Enough that an export, an import and a deletion can be killed in the middle. */
const ROWS = 100_000

const makeCell = Effect.gen(function* () {
  const url = yield* cloneDatabase
  const environment = {
    DATABASE_URL: Redacted.value(url),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
  }
  const connection = yield* PgConnection.make({ url })
  const count = (query: string) =>
    Effect.map(connection.query(query), ({ rows }) => Number(Object.values(Object(rows[0]))[0]))
  const run = (input: string, args: ReadonlyArray<string>) =>
    Effect.scoped(
      Effect.gen(function* () {
        const child = yield* spawnCli(args, environment)
        if (input !== "") yield* child.write(input)
        yield* child.close
        const { code, err, out } = yield* child.ended
        assert.strictEqual(code, 0, err)
        return out.trim()
      })
    )
  return {
    query: (text: string) => connection.query(text),
    count,
    /** Runs a command, which must succeed. */
    run: (...args: ReadonlyArray<string>) => run("", args),
    /** Runs a command that reads from standard input. */
    runWith: (input: string, ...args: ReadonlyArray<string>) => run(input, args),
    /** Kills a command as soon as a query counts anything. */
    kill: (when: string, ...args: ReadonlyArray<string>) =>
      Effect.scoped(
        Effect.gen(function* () {
          const child = yield* spawnCli(args, environment)
          yield* eventually(count(when), (found) => found > 0)
          yield* child.kill("SIGKILL")
          yield* child.ended
          // The server notices the end of the connection.
          yield* eventually(
            count(
              `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
            ),
            (sessions) => sessions === 0
          )
        })
      ),
    /** 1 if the organization is here and not fenced. */
    active: count(
      `SELECT count(*) FROM organizations WHERE name = 'acme'
       AND org_id NOT IN (SELECT org_id FROM organization_moves WHERE is_fenced)`
    )
  }
})

const state = (name: string) => `SELECT count(*) FROM organization_moves WHERE state = '${name}'`
const fenced = (triggers: number) =>
  `SELECT (count(*) > ${triggers})::int FROM pg_trigger WHERE tgname LIKE 'moving%'`
const running = (statement: string) =>
  `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '${statement}%'`

describe("a move that is killed", () => {
  it.live(
    "never leaves two active cells, and goes on when the command is repeated",
    () =>
      Effect.gen(function* () {
        const directory = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-killed-"))),
          (made) => Effect.sync(() => rmSync(made, { recursive: true }))
        )
        const [here, there] = [yield* makeCell, yield* makeCell]
        yield* here.run("keys", "create", "--org", "acme", "--preset", "admin")
        yield* here.query(
          `INSERT INTO run_metadata (org_id, task_id, digest, run_id)
           SELECT org_id, 'tsk', decode(md5(i::text), 'hex'), 'run_' || i
           FROM organizations, generate_series(1, ${ROWS}) AS i`
        )
        const active = Effect.all([here.active, there.active])

        // Killed while it fences, and while it writes the file.
        const key = yield* there.run("org", "prepare")
        const file = path.join(directory, "acme.move")
        const exportAll = ["org", "export", "acme", "--for", key, "--to", file]
        for (const when of [fenced(20), running("FETCH FORWARD")]) {
          yield* here.kill(when, ...exportAll)
          assert.deepStrictEqual(yield* active, [0, 0])
        }
        // What it wrote is no file, and an abort makes the organization active again.
        yield* here.run("org", "abort", "acme")
        assert.deepStrictEqual(yield* active, [1, 0])
        assert.strictEqual(yield* here.count(fenced(0)), 0)

        yield* here.run(...exportAll)
        for (const when of [fenced(20), running('INSERT INTO "run_metadata"')]) {
          yield* there.kill(when, "org", "import", file)
          assert.deepStrictEqual(yield* active, [0, 0])
          assert.strictEqual(yield* there.count("SELECT count(*) FROM organizations"), 0)
        }
        const receipt = yield* there.run("org", "import", file)
        assert.strictEqual(yield* there.count("SELECT count(*) FROM run_metadata"), ROWS)
        assert.deepStrictEqual(yield* active, [0, 0])

        yield* here.kill(state("moved"), "org", "commit", "acme", "--receipt", receipt)
        assert.deepStrictEqual(yield* active, [0, 0])
        const release = yield* here.run("org", "commit", "acme", "--receipt", receipt)

        const activate = ["org", "activate", "acme", "--release", release]
        yield* there.kill(state("arrived"), ...activate)
        assert.deepStrictEqual(yield* active, [0, 1])
        const activation = yield* there.run(...activate)
        assert.strictEqual(yield* there.count(fenced(0)), 0)

        const finish = ["org", "finish", "acme", "--activation", activation]
        yield* here.kill(running('WITH deleted AS (DELETE FROM "run_metadata"'), ...finish)
        assert.deepStrictEqual(yield* active, [0, 1])
        yield* here.run(...finish)
        assert.strictEqual(yield* here.count("SELECT count(*) FROM run_metadata"), 0)
        assert.strictEqual(yield* here.count("SELECT count(*) FROM organizations"), 0)
        assert.deepStrictEqual(yield* active, [0, 1])
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "leaves nothing of a copy that was killed, and its next try goes on",
    () =>
      Effect.gen(function* () {
        const directory = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-killed-"))),
          (made) => Effect.sync(() => rmSync(made, { recursive: true }))
        )
        const [here, there] = [yield* makeCell, yield* makeCell]
        yield* here.run("keys", "create", "--org", "acme", "--preset", "admin")
        yield* here.query(
          `INSERT INTO run_metadata (org_id, task_id, digest, run_id)
           SELECT org_id, 'tsk', decode(md5(i::text), 'hex'), 'run_' || i
           FROM organizations, generate_series(1, ${ROWS}) AS i`
        )
        const active = Effect.all([here.active, there.active])
        const key = yield* there.run("org", "prepare")
        const write = (command: string, file: string, ...flags: ReadonlyArray<string>) => [
          ...["org", command, "acme", "--for", key, "--to", path.join(directory, file)],
          ...flags
        ]
        const digests = here.count("SELECT count(*) FROM organization_copy_rows")
        const metadata = there.count("SELECT count(*) FROM run_metadata")

        yield* here.kill(running("FETCH FORWARD"), ...write("copy", "copy"))
        yield* here.kill(running("INSERT INTO organization_copy_rows"), ...write("copy", "copy"))
        assert.strictEqual(yield* digests, 0)
        assert.strictEqual(yield* here.count("SELECT count(*) FROM organization_copies"), 0)
        yield* here.run(...write("copy", "copy"))
        assert.isAtLeast(yield* digests, ROWS)

        const copy = path.join(directory, "copy")
        for (const when of [fenced(20), running('INSERT INTO "run_metadata"')]) {
          yield* there.kill(when, "org", "import", copy)
          assert.strictEqual(yield* metadata, 0)
        }
        const loaded = yield* there.run("org", "import", copy)
        assert.strictEqual(yield* metadata, ROWS)
        assert.strictEqual(yield* there.count("SELECT count(*) FROM organizations"), 0)
        assert.deepStrictEqual(yield* active, [1, 0])

        // A tenth is deleted and a tenth changes.
        yield* here.query("DELETE FROM run_metadata WHERE run_id LIKE '%3'")
        yield* here.query("UPDATE run_metadata SET run_id = run_id || 'x' WHERE run_id LIKE '%4'")
        const since = ["--since-copy", loaded]
        yield* here.kill(running("CREATE TEMPORARY TABLE"), ...write("export", "move", ...since))
        assert.deepStrictEqual(yield* active, [0, 0])
        yield* here.run(...write("export", "move", ...since))
        const file = path.join(directory, "move")
        for (const when of [running('DELETE FROM "run_metadata"'), running('INSERT INTO "run_metadata"')]) {
          yield* there.kill(when, "org", "import", file)
          assert.strictEqual(yield* metadata, ROWS)
          assert.strictEqual(yield* there.count("SELECT count(*) FROM organizations"), 0)
        }
        // A kill in the middle may be followed by an abort in the new cell; then the copy is imported again.
        yield* there.run("org", "abort", "acme")
        assert.strictEqual(yield* metadata, 0)
        assert.strictEqual(yield* there.count(fenced(0)), 0)
        yield* there.run("org", "import", copy)
        const receipt = yield* there.run("org", "import", file)
        assert.strictEqual(yield* metadata, (ROWS * 9) / 10)
        const release = yield* here.runWith(`${receipt}\n`, "org", "commit", "acme", "--receipt", "-")
        yield* there.runWith(release, "org", "activate", "acme", "--release", "-")
        assert.deepStrictEqual(yield* active, [0, 1])
      }).pipe(Effect.scoped),
    300_000
  )
})
