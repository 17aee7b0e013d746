/**
 * The move of a large organization between two installations on one PostgreSQL server, after a copy (the part `copy`) and without one
 * (`whole`): time and peak memory of each command, the size of the files, and how long the organization cannot be
 * written. `EXAMPLES`, `DELIVERIES` and `CHANGES` set its size, and how many examples and deliveries change after the copy.
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
import { atMost, line, machine, peakMegabytes } from "./measure.ts"
import { startStore } from "./service.ts"

const examples = Number(process.env["EXAMPLES"] ?? 1_000_000)
const deliveries = Number(process.env["DELIVERIES"] ?? 100_000)
const changes = Number(process.env["CHANGES"] ?? 1_000)

/** How often the memory of a command is read, in milliseconds. The kernel keeps the peak. */
const SAMPLE_MILLIS = 100

/** The longest pause of an organization of a million examples and 100,000 deliveries after a copy, in seconds. */
const MAX_PAUSE_SECONDS = 30

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
      const { ended } = start(env, args, "ignore")
      const { out, peak } = await ended
      if (what !== undefined) print(what, performance.now() - began, peak)
      return out
    },
    start: (...args: ReadonlyArray<string>) => start(env, args, "pipe")
  }
}

/** Starts a command. */
const start = (env: NodeJS.ProcessEnv, args: ReadonlyArray<string>, stdin: "ignore" | "pipe") => {
  const child = spawn(process.execPath, [entry, ...args], { env, stdio: [stdin, "pipe", "inherit"] })
  const ended = async () => {
    let out = ""
    let peak = 0
    // An export that is piped to another command is read there.
    if (!args.includes("-") || args.includes("import")) {
      child.stdout?.setEncoding("utf8").on("data", (text: string) => (out += text))
    }
    const sampler = setInterval(() => {
      const now = child.pid === undefined ? Number.NaN : peakMegabytes(child.pid)
      if (now > peak) peak = now
    }, SAMPLE_MILLIS)
    await once(child, "close")
    clearInterval(sampler)
    if (child.exitCode !== 0) throw new Error(`countersign ${args.join(" ")} failed`)
    return { out: out.trim(), peak }
  }
  return { child, ended: ended() }
}

const print = (what: string, millis: number, peak: number): void => {
  console.log(line(what, [millis / 1000], "s"))
  console.log(line("    peak memory of the command", [peak], "MB"))
}

type Cell = Awaited<ReturnType<typeof makeCell>>

/** Creates an organization with examples and deliveries. */
const fill = async (cell: Cell, organization: string) => {
  await cell.run(undefined, "keys", "create", "--org", organization, "--preset", "admin")
  const from = (count: number) =>
    `FROM organizations, generate_series(1, ${count}) AS i WHERE name = '${organization}'`
  await cell.query(`
    INSERT INTO dataset_examples (
      org_id, task_id, example_id, first_version, input, answer, bytes, input_digest, tokens, ordinal
    )
    SELECT
      org_id, 'tsk_00000000000000000000000000000001', 'exm_' || md5(i::text), 1,
      json_build_object('text', repeat(md5(i::text) || ' ', 6)), json_build_object('category', 'c' || i % 50), 240,
      sha256(i::text::bytea), ARRAY[i % 5000, i % 7919, i % 104729], i
    ${from(examples)}`)
  await cell.query(`
    INSERT INTO deliveries (
      org_id, destination_id, delivery_id, channel, event_id, label, status, attempts, created_at, finished_at
    )
    SELECT
      org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 'webhook', 'evt_' || md5(i::text), 'approval.requested',
      CASE i % 2 WHEN 0 THEN 'pending' ELSE 'delivered' END, 1, now(), CASE i % 2 WHEN 1 THEN now() END
    ${from(deliveries)}`)
  await cell.query(`
    INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
    SELECT i % 16, org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 'webhook', 'evt_' || md5(i::text),
      now() + interval '1 hour', 1, 0
    ${from(deliveries)} AND i % 2 = 0`)
  await cell.query(`
    INSERT INTO delivery_attempts (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status)
    SELECT org_id, 'nep_' || md5((i % 40)::text), 'ndl_' || md5(i::text), 1, now(), 12, 204
    ${from(deliveries)}`)
}

/** Changes, deletes and adds examples, and changes deliveries, as an organization does that works. */
const change = async (cell: Cell, organization: string) => {
  const rows = (column: string, from: number) =>
    `${column} IN (SELECT '${column.slice(0, 1) === "e" ? "exm" : "ndl"}_' || md5(i::text) FROM generate_series(${from + 1}, ${from + changes}) AS i)
     AND org_id = (SELECT org_id FROM organizations WHERE name = '${organization}')`
  await cell.query(`UPDATE dataset_examples SET until_version = 2 WHERE ${rows("example_id", 0)}`)
  await cell.query(`DELETE FROM dataset_examples WHERE ${rows("example_id", changes)}`)
  await cell.query(`
    INSERT INTO dataset_examples (
      org_id, task_id, example_id, first_version, input, answer, bytes, input_digest, tokens, ordinal
    )
    SELECT org_id, task_id, example_id || 'x', 2, input, answer, bytes, input_digest, tokens, ordinal
    FROM dataset_examples
    WHERE ${rows("example_id", 2 * changes)}`)
  await cell.query(`UPDATE deliveries SET attempts = 2 WHERE ${rows("delivery_id", 0)}`)
}

/** Moves an organization, after a copy or without one, and prints how long it could not be written. */
const move = async (
  here: Cell,
  there: Cell,
  organization: string,
  { copies }: { readonly copies: boolean }
) => {
  const fileOf = (name: string) => path.join(directory, `${organization}.${name}`)
  const size = (file: string) =>
    console.log(line("    size of the file", [statSync(file).size / 2 ** 20], "MiB"))
  const key = await there.run(undefined, "org", "prepare")
  const since: Array<string> = []
  if (copies) {
    console.log("\nAfter a copy, while the organization works:")
    await here.run("copy", "org", "copy", organization, "--for", key, "--to", fileOf("copy"))
    size(fileOf("copy"))
    since.push("--since-copy", await there.run("import of the copy", "org", "import", fileOf("copy")))
    await change(here, organization)
    console.log(`\nThen, with ${3 * changes} examples and ${changes} deliveries changed:`)
  } else console.log("\nWithout a copy:")
  const frozenAt = performance.now()
  // Through a pipe, so that the import does not wait for the end of the export.
  const exporting = here.start("org", "export", organization, "--for", key, "--to", "-", ...since)
  const importing = there.start("org", "import", "-")
  if (exporting.child.stdout === null || importing.child.stdin === null) throw new Error("no pipe")
  exporting.child.stdout.pipe(importing.child.stdin)
  let bytes = 0
  exporting.child.stdout.on("data", (chunk: Buffer) => (bytes += chunk.length))
  const exported = await exporting.ended
  print("export", performance.now() - frozenAt, exported.peak)
  console.log(line("    size of the export", [bytes / 2 ** 20], "MiB"))
  const { out: receipt, peak } = await importing.ended
  print("export and import, with its comparison", performance.now() - frozenAt, peak)
  const release = await here.run(undefined, "org", "commit", organization, "--receipt", receipt)
  const activation = await there.run(undefined, "org", "activate", organization, "--release", release)
  const pause = (performance.now() - frozenAt) / 1000
  const what = "time without writes, in all"
  console.log(copies ? atMost(what, [pause], MAX_PAUSE_SECONDS, "s") : line(what, [pause], "s"))
  await here.run("deletion of the old copy", "org", "finish", organization, "--activation", activation)
}

/** Runs a move after a copy and one of the same organization without a copy, or one of them: the parts `copy` and `whole`. */
export const run = async (parts: ReadonlyArray<string>): Promise<void> => {
  try {
    console.log(`${machine()}, PostgreSQL 18 embedded, fsync on\n`)
    console.log(`A move of ${examples} examples and ${deliveries} deliveries, half of them queued`)
    for (const part of ["copy", "whole"]) {
      if (parts.length > 0 && !parts.includes(part)) continue
      const here = await makeCell(`here_${part}`)
      const there = await makeCell(`there_${part}`)
      await fill(here, "acme")
      await move(here, there, "acme", { copies: part === "copy" })
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
    await store.dispose()
  }
}
