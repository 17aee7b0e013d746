import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { existsSync, readdirSync } from "node:fs"
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import * as Database from "../../../../src/server/store/Database.ts"
import { EmbeddedPostgres } from "../../../../src/server/store/EmbeddedPostgres.ts"
import { locateBinaries } from "../../../../src/server/store/EmbeddedPostgres/Binaries.ts"
import { runCommand } from "../../../../src/server/store/EmbeddedPostgres/runCommand.ts"
import { migrate } from "../../../../src/server/store/migrate.ts"
import { dataDirectory, query, readPostmasterPid } from "../../../support/embeddedPostgres.ts"

const hold = (dataDir: string, postgresBin?: string) =>
  Effect.map(Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false, postgresBin })), (services) =>
    Context.get(services, EmbeddedPostgres)
  )

/** A directory that every account can enter. */
const openDirectory = Effect.acquireRelease(
  Effect.promise(async () => {
    const made = await mkdtemp(path.join(tmpdir(), "countersign-programs-"))
    await chmod(made, 0o755)
    return made
  }),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)

/** A directory with links to the packaged programs, as Debian and Homebrew make them: the server finds its files from the program that a link leads to. */
const programLinks = Effect.fnUntraced(function* (dataDir: string) {
  const bin = yield* openDirectory
  const packaged = yield* locateBinaries({ dataDir, account: undefined, installedIn: undefined })
  for (const program of ["postgres", "initdb"])
    yield* Effect.promise(() =>
      symlink(path.join(path.dirname(packaged.postgres), program), path.join(bin, program))
    )
  return bin
})

/** Directories of PostgreSQL servers that packages have installed on this machine. */
const installed = [
  ["/usr/lib/postgresql", ""],
  ["/usr", "pgsql-"],
  ["/opt/homebrew/opt", "postgresql@"],
  ["/usr/local/opt", "postgresql@"]
].flatMap(([parent = "", prefix = ""]) =>
  existsSync(parent)
    ? readdirSync(parent)
        .filter((name) => name.startsWith(prefix) && Number.parseInt(name.slice(prefix.length), 10) >= 15)
        .map((name) => path.join(parent, name, "bin"))
        .filter((bin) => existsSync(path.join(bin, "initdb")))
    : []
)

describe("a PostgreSQL that is installed on the machine", () => {
  it.live("runs as the embedded PostgreSQL if its directory is set", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const bin = yield* programLinks(dataDir)
      const { url } = yield* hold(dataDir, bin)
      assert.deepEqual(yield* query(url, "SELECT 1 AS one"), [{ one: 1 }])
      const pid = yield* Effect.promise(() => readPostmasterPid(dataDir))
      const { output } = yield* runCommand({
        command: "ps",
        args: ["-o", "args=", "-p", String(pid)],
        account: undefined,
        capture: true
      })
      assert.isTrue(output.startsWith(`${path.join(bin, "postgres")} `), output)
    })
  )

  it.live.runIf(process.getuid?.() === 0)("runs in a working directory that only root can enter", () =>
    Effect.gen(function* () {
      const bins = [yield* programLinks(yield* dataDirectory), ...installed]
      const closed = yield* openDirectory
      yield* Effect.promise(() => chmod(closed, 0o700))
      const before = process.cwd()
      yield* Effect.acquireRelease(
        Effect.sync(() => process.chdir(closed)),
        () => Effect.sync(() => process.chdir(before))
      )
      for (const bin of bins) {
        const { url } = yield* hold(yield* dataDirectory, bin)
        assert.deepEqual(yield* query(url, "SELECT 1 AS one"), [{ one: 1 }])
      }
    })
  )

  it.live.runIf(installed.length > 0)(`is of any supported version (here ${installed.join(", ")})`, () =>
    Effect.gen(function* () {
      for (const bin of installed) {
        const dataDir = yield* dataDirectory
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { url } = yield* hold(dataDir, bin)
            yield* Effect.provide(migrate, Database.layer({ url }))
            yield* query(url, "CREATE TABLE kept AS SELECT lower('ÄÖ') AS text")
          })
        )
        // The next start finds the same cluster.
        const { url } = yield* hold(dataDir, bin)
        assert.deepEqual(yield* query(url, "SELECT text FROM kept"), [{ text: "äö" }])
        assert.deepEqual(
          yield* query(
            url,
            "SELECT text FROM (VALUES ('b'), ('B'), ('a'), ('é'), ('z')) AS t (text) ORDER BY text"
          ),
          ["B", "a", "b", "z", "é"].map((text) => ({ text }))
        )
      }
    })
  )

  it.live("that cannot be used is named, with what to set", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const bin = yield* openDirectory
      const failure = (directory: string) => Effect.flip(Effect.scoped(hold(dataDir, directory)))
      const script = (name: string, line: string) =>
        Effect.promise(() => writeFile(path.join(bin, name), `#!/bin/sh\necho '${line}'\n`, { mode: 0o755 }))

      const missing = path.join(bin, "nowhere")
      assert.include(
        (yield* failure(missing)).phrase,
        `COUNTERSIGN_POSTGRES_BIN is ${missing}, where \`postgres\``
      )

      yield* script("postgres", "postgres (PostgreSQL) 14.20")
      const old = yield* failure(bin)
      assert.include(old.phrase, "which has PostgreSQL 14")
      assert.include(old.phrase, "PostgreSQL 15 or newer")
      assert.notInclude(old.phrase, "\n")

      yield* script("postgres", "postgres (PostgreSQL) 19.1")
      yield* script("initdb", "initdb (PostgreSQL) 18.4")
      assert.include((yield* failure(bin)).phrase, "different versions")

      yield* script("initdb", "initdb (PostgreSQL) 19.1")
      const version = path.join(dataDir, "postgres", "PG_VERSION")
      yield* Effect.promise(() => mkdir(path.dirname(version), { recursive: true }))
      yield* Effect.promise(() => writeFile(version, "18\n"))
      const other = yield* failure(bin)
      assert.include(
        other.phrase,
        "was created by PostgreSQL 18, but COUNTERSIGN_POSTGRES_BIN has PostgreSQL 19"
      )
      assert.include(other.phrase, "set it to the programs of PostgreSQL 18")
    })
  )
})

if (installed.length === 0)
  process.stderr.write(
    "no PostgreSQL is installed here: the embedded PostgreSQL is tried with the packaged one only\n"
  )
