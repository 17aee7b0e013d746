/**
 * The move of a large organization between two installations on one PostgreSQL server: time and peak memory of each command, the size of the
 * file, and how long the organization cannot be written. `EXAMPLES` and `DELIVERIES` set its size.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { setup } from "../setup.js"
import { line, machine, peakMegabytes } from "./measure.ts"
import { startStore } from "./service.ts"

const examples = Number(process.env["EXAMPLES"] ?? 1_000_000)
const deliveries = Number(process.env["DELIVERIES"] ?? 100_000)

/** How often the memory of a command is read, in milliseconds. The kernel keeps the peak. */
const SAMPLE_MILLIS = 100

const store = await startStore()
const directory = mkdtempSync(path.join(tmpdir(), "countersign-bench-move-"))
const entry = setup({ withConsole: false }) ?? path.resolve("src/main.ts")

const makeCell = async (name: string) => {
  const url = await store.database(name)
  const env = {
    ...process.env,
    DATABASE_URL: Redacted.value(url),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
  }
  return {
    query: (text: string) =>
      Effect.runPromise(
        Effect.scoped(Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(text)))
      ),
    /** Runs a command, and prints its time and its peak of memory under a name. */
    run: async (what: string | undefined, ...args: ReadonlyArray<string>) => {
      const began = performance.now()
      const child = spawn(process.execPath, [entry, ...args], { env, stdio: ["ignore", "pipe", "inherit"] })
      let out = ""
      let peak = 0
      child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text))
      const sampler = setInterval(() => {
        const now = child.pid === undefined ? Number.NaN : peakMegabytes(child.pid)
        if (now > peak) peak = now
      }, SAMPLE_MILLIS)
      await once(child, "close")
      clearInterval(sampler)
      if (child.exitCode !== 0) throw new Error(`countersign ${args.join(" ")} failed`)
      if (what !== undefined) {
        console.log(line(what, [(performance.now() - began) / 1000], "s"))
        console.log(line("    peak memory of the command", [peak], "MB"))
      }
      return out.trim()
    }
  }
}

try {
  console.log(`${machine()}, PostgreSQL 18 embedded, fsync on\n`)
  console.log(`A move of ${examples} examples and ${deliveries} deliveries, half of them queued\n`)
  const here = await makeCell("here")
  const there = await makeCell("there")
  await here.run(undefined, "keys", "create", "--org", "acme", "--preset", "admin")
  await here.query(`
    INSERT INTO dataset_examples (
      org_id, task_id, example_id, first_version, input, answer, bytes, input_digest, tokens, ordinal
    )
    SELECT
      org_id, 'tsk_00000000000000000000000000000001', 'exm_' || md5(i::text), 1,
      json_build_object('text', repeat(md5(i::text) || ' ', 6)), json_build_object('category', 'c' || i % 50), 240,
      sha256(i::text::bytea), ARRAY[i % 5000, i % 7919, i % 104729], i
    FROM organizations, generate_series(1, ${examples}) AS i`)
  await here.query(`
    INSERT INTO deliveries (
      org_id, destination_id, delivery_id, channel, event_id, label, status, attempts, created_at, finished_at
    )
    SELECT
      org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 'webhook', 'evt_' || md5(i::text), 'approval.requested',
      CASE i % 2 WHEN 0 THEN 'pending' ELSE 'delivered' END, 1, now(), CASE i % 2 WHEN 1 THEN now() END
    FROM organizations, generate_series(1, ${deliveries}) AS i`)
  await here.query(`
    INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
    SELECT i % 16, org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 'webhook', 'evt_' || md5(i::text),
      now() + interval '1 hour', 1, 0
    FROM organizations, generate_series(1, ${deliveries}) AS i
    WHERE i % 2 = 0`)
  await here.query(`
    INSERT INTO delivery_attempts (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status)
    SELECT org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 1, now(), 12, 204
    FROM organizations, generate_series(1, ${deliveries}) AS i`)

  const file = path.join(directory, "acme.move")
  const key = await there.run(undefined, "org", "prepare")
  const frozenAt = performance.now()
  await here.run("export", "org", "export", "acme", "--for", key, "--to", file)
  console.log(line("    size of the file", [statSync(file).size / 2 ** 20], "MiB"))
  const receipt = await there.run("import, with its comparison", "org", "import", file)
  const release = await here.run(undefined, "org", "commit", "acme", "--receipt", receipt)
  const activation = await there.run(undefined, "org", "activate", "acme", "--release", release)
  console.log(line("time without writes, in all", [(performance.now() - frozenAt) / 1000], "s"))
  await here.run("deletion of the copy", "org", "finish", "acme", "--activation", activation)
} finally {
  rmSync(directory, { recursive: true, force: true })
  await store.dispose()
}
