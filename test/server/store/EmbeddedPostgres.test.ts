import { afterAll, assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schedule, type Scope } from "effect"
import { spawn } from "node:child_process"
import { chmod, chown, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises"
import path from "node:path"
import {
  defaultDataDir,
  EmbeddedPostgres,
  type EmbeddedPostgresFailed,
  embeddedServerUrl
} from "../../../src/server/store/EmbeddedPostgres.ts"
import { prepareDataDir } from "../../../src/server/store/EmbeddedPostgres/Cluster.ts"
import {
  reusedDirectory,
  dataDirectory,
  sendSignal,
  readPostmasterPid,
  query,
  removeReusedDirectory,
  startServiceProcess
} from "../../support/embeddedPostgres.ts"

/** Uses the embedded server in this process until the scope closes. */
const hold = (
  dataDir: string
): Effect.Effect<EmbeddedPostgres["Service"], EmbeddedPostgresFailed, Scope.Scope> =>
  Effect.map(Layer.build(EmbeddedPostgres.layer({ dataDir })), (services) =>
    Context.get(services, EmbeddedPostgres)
  )

const using = <A, E, R>(
  dataDir: string,
  use: (store: EmbeddedPostgres["Service"]) => Effect.Effect<A, E, R>
) => Effect.scoped(Effect.flatMap(hold(dataDir), use))

const serverOf = (dataDir: string) => Effect.promise(() => readPostmasterPid(dataDir))

/** Retries until the server responds, because it may be restarting. */
const eventually = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.retry(self, Schedule.max([Schedule.spaced("20 millis"), Schedule.recurs(1000)]))

/** Waits until this many services hold a reference to the server: it notices later that one was killed. */
const awaitReferences = Effect.fnUntraced(function* (dataDir: string, count: number) {
  const url = yield* embeddedServerUrl(dataDir)
  yield* Effect.repeat(
    query(url, "SELECT count(*)::int AS held FROM pg_locks WHERE locktype = 'advisory' AND granted"),
    { until: ([row]) => row?.["held"] === count, schedule: Schedule.spaced("20 millis") }
  )
})

const unprivileged = { uid: 65_534, gid: 65_534 }
const isRoot = process.getuid?.() === 0

if (!isRoot)
  process.stderr.write("what the embedded store does for root is not tried: this is another account\n")

afterAll(removeReusedDirectory)

describe("EmbeddedPostgres", () => {
  it.live("data survives a restart, and the server runs only while it is used", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      yield* using(dataDir, ({ url }) => query(url, "CREATE TABLE kept AS SELECT 7 AS n"))
      assert.isUndefined(yield* serverOf(dataDir))
      const rows = yield* using(dataDir, ({ url }) => query(url, "SELECT n FROM kept"))
      assert.deepEqual(rows, [{ n: 7 }])
      assert.isUndefined(yield* serverOf(dataDir))
    })
  )

  it.live("commits wait for the disk, and no TCP port is open", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      const rows = yield* using(dataDir, ({ url }) =>
        query(
          url,
          `SELECT name, setting FROM pg_settings
           WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses') ORDER BY name`
        )
      )
      assert.deepEqual(
        rows.map(({ name, setting }) => [name, setting]),
        [
          ["fsync", "on"],
          ["full_page_writes", "on"],
          ["listen_addresses", ""],
          ["synchronous_commit", "on"]
        ]
      )
    })
  )

  it.live("a killed service leaves the server running, and the next service uses it", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      const holder = yield* startServiceProcess(dataDir)
      yield* holder.ready
      const server = yield* serverOf(dataDir)
      yield* holder.end("SIGKILL")
      yield* using(dataDir, () =>
        Effect.gen(function* () {
          assert.isDefined(server)
          assert.strictEqual(yield* serverOf(dataDir), server)
          yield* awaitReferences(dataDir, 1)
        })
      )
      assert.isUndefined(yield* serverOf(dataDir))
    })
  )

  it.live("a killed server is restarted by the running service, with every commit", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      yield* using(dataDir, ({ url }) =>
        Effect.gen(function* () {
          yield* query(url, "CREATE TABLE safe (n int)")
          yield* query(url, "INSERT INTO safe SELECT generate_series(1, 100)")
          const before = (yield* serverOf(dataDir)) ?? 0
          assert.isTrue(sendSignal(before, "SIGKILL"))
          const rows = yield* eventually(query(url, "SELECT count(*)::int AS n FROM safe"))
          assert.deepEqual(rows, [{ n: 100 }])
          assert.notStrictEqual(yield* serverOf(dataDir), before)
        })
      )
      assert.isUndefined(yield* serverOf(dataDir))
    })
  )

  it.live("the server starts after a crash of both the service and the server", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      const holder = yield* startServiceProcess(dataDir)
      yield* holder.ready
      const server = (yield* serverOf(dataDir)) ?? 0
      // The service first, because it would restart the server.
      yield* holder.end("SIGKILL")
      assert.isTrue(sendSignal(server, "SIGKILL"))
      const rows = yield* using(dataDir, ({ url }) => query(url, "SELECT 1 AS one"))
      assert.deepEqual(rows, [{ one: 1 }])
    })
  )

  it.live("services that start concurrently share the server, and the last one stops it", () =>
    Effect.gen(function* () {
      // All of them create the cluster; one wins.
      const dataDir = yield* dataDirectory
      const holders = yield* Effect.forEach([1, 2, 3], () => startServiceProcess(dataDir))
      yield* Effect.forEach(holders, ({ ready }) => ready, { concurrency: "unbounded" })
      const server = yield* serverOf(dataDir)
      assert.isDefined(server)
      const [first, second, third] = holders
      yield* first?.end("SIGTERM") ?? Effect.void
      // A killed service no longer holds a reference.
      yield* second?.end("SIGKILL") ?? Effect.void
      assert.strictEqual(yield* serverOf(dataDir), server)
      yield* awaitReferences(dataDir, 1)
      yield* third?.end("SIGTERM") ?? Effect.void
      assert.isUndefined(yield* serverOf(dataDir))
    })
  )

  it.live("a service that starts while the last one stops the server gets a new server", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      yield* using(dataDir, () => Effect.void)
      const rounds = Effect.forEach(Array.from({ length: 8 }), () =>
        using(dataDir, ({ url }) => query(url, "SELECT 1 AS one"))
      )
      const all = yield* Effect.all([rounds, rounds, rounds], { concurrency: "unbounded" })
      assert.strictEqual(all.flat(2).length, 24)
      assert.isUndefined(yield* serverOf(dataDir))
    })
  )

  it.live(
    "a killed first start leaves no partial cluster, and the next start removes its temporary files",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* dataDirectory
        const made = Effect.promise(async () =>
          (await readdir(dataDir)).filter((name) => name.startsWith("postgres.new"))
        )
        // Killed as soon as the work directory is seen, three times over.
        for (let round = 0; round < 3; round++) {
          const holder = yield* startServiceProcess(dataDir)
          yield* Effect.repeat(made, {
            schedule: Schedule.spaced("5 millis"),
            until: (names) => names.length > 0
          })
          yield* holder.end("SIGKILL")
          assert.isUndefined(yield* serverOf(dataDir))
        }
        const rows = yield* using(dataDir, ({ url }) => query(url, "SELECT 1 AS one"))
        assert.deepEqual(rows, [{ one: 1 }])
        assert.deepEqual(yield* made, [])
      })
  )

  it.live("a pid file with the id of another program is removed", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      yield* using(dataDir, () => Effect.void)
      const { gid, uid } = yield* Effect.promise(() => stat(path.join(dataDir, "postgres")))
      const stranger = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sleep", ["60"], isRoot ? { uid, gid } : {})),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      const file = path.join(dataDir, "postgres", "postmaster.pid")
      yield* Effect.promise(() =>
        writeFile(file, `${stranger.pid}\n${path.dirname(file)}\n0\n5432\n\n\n0 0\nready\n`)
      )
      yield* Effect.promise(() => chown(file, uid, gid))
      const rows = yield* using(dataDir, ({ url }) => query(url, "SELECT 1 AS one"))
      assert.deepEqual(rows, [{ one: 1 }])
      assert.isTrue(sendSignal(stranger.pid ?? 0, 0))
    })
  )

  it.live("an empty pid file of a crash is removed", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      const file = path.join(dataDir, "postgres", "postmaster.pid")
      yield* Effect.promise(() => writeFile(file, ""))
      yield* Effect.promise(() => utimes(file, 0, 0))
      const rows = yield* using(dataDir, ({ url }) => query(url, "SELECT 1 AS one"))
      assert.deepEqual(rows, [{ one: 1 }])
    })
  )

  it.live("a data directory whose path is too long for a socket works", () =>
    Effect.gen(function* () {
      const parent = yield* dataDirectory
      yield* Effect.promise(() => chmod(parent, 0o711))
      const dataDir = path.join(parent, "d".repeat(120))
      const rows = yield* using(dataDir, ({ host, url }) =>
        Effect.gen(function* () {
          assert.isBelow(host.length, 80)
          yield* Effect.addFinalizer(() => Effect.promise(() => rm(host, { recursive: true, force: true })))
          return yield* query(url, "SELECT 1 AS one")
        })
      )
      assert.deepEqual(rows, [{ one: 1 }])
    })
  )

  it.live("only connections with the password are accepted", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      yield* using(dataDir, ({ url }) =>
        Effect.gen(function* () {
          const wrong = new URL(Redacted.value(url))
          wrong.searchParams.set("password", "guessed")
          const asSuperuser = new URL(Redacted.value(url))
          asSuperuser.searchParams.set("user", "postgres")
          for (const other of [wrong, asSuperuser]) {
            const error = yield* Effect.flip(query(Redacted.make(other.href), "SELECT 1"))
            assert.strictEqual(error.reason._tag, "AuthenticationError")
          }
          const { mode } = yield* Effect.promise(() => stat(path.join(dataDir, "postgres")))
          assert.strictEqual(mode & 0o777, 0o700)
          const rows = yield* query(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
          assert.deepEqual(rows, [{ rolsuper: false }])
        })
      )
    })
  )

  // For an ordinary account, the tests above show this.
  it.live.runIf(isRoot)("runs for an ordinary account as well as for root", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      yield* Effect.promise(() => chown(dataDir, unprivileged.uid, unprivileged.gid))
      const holder = yield* startServiceProcess(dataDir, unprivileged)
      yield* holder.ready
      assert.strictEqual(
        (yield* Effect.promise(() => stat(path.join(dataDir, "postgres")))).uid,
        unprivileged.uid
      )
      yield* holder.end("SIGTERM")
      // Root runs the server as the owner of the cluster, which can still use it afterwards.
      yield* using(dataDir, ({ url }) => query(url, "SELECT 1"))
      const again = yield* startServiceProcess(dataDir, unprivileged)
      yield* again.ready
      yield* again.end("SIGTERM")
    })
  )

  it.live.runIf(isRoot)("the error names the directory that the server's account cannot enter", () =>
    Effect.gen(function* () {
      const closed = yield* dataDirectory
      yield* Effect.promise(() => chmod(closed, 0o700))
      const error = yield* Effect.flip(Effect.scoped(hold(path.join(closed, "data"))))
      assert.include(error.phrase, `cannot enter ${closed}:`)
      assert.include(error.phrase, "COUNTERSIGN_DATA_DIR")
    })
  )

  it.live.runIf(isRoot)("gives that account access to every directory that it creates", () =>
    Effect.gen(function* () {
      const above = yield* dataDirectory
      yield* Effect.promise(() => chmod(above, 0o711))
      const dataDir = path.join(above, "var", "lib", "countersign")
      yield* prepareDataDir(dataDir, unprivileged)
      const modes = [dataDir, path.dirname(dataDir), path.join(above, "var")].map((folder) =>
        Effect.map(
          Effect.promise(() => stat(folder)),
          ({ mode }) => mode & 0o777
        )
      )
      assert.deepEqual(yield* Effect.all(modes), [0o711, 0o711, 0o711])
    })
  )

  it.live("an unusable data directory fails with an instruction for the operator", () =>
    Effect.gen(function* () {
      const parent = yield* dataDirectory
      const file = path.join(parent, "file")
      yield* Effect.promise(() => writeFile(file, ""))
      const error = yield* Effect.flip(Effect.scoped(hold(path.join(file, "data"))))
      assert.include(error.phrase, "a file, not a directory")
      assert.notInclude(error.phrase, "\n")
    })
  )

  it.live("a cluster of another major version is rejected and not changed", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const version = path.join(dataDir, "postgres", "PG_VERSION")
      yield* Effect.promise(() => mkdir(path.dirname(version), { recursive: true }))
      yield* Effect.promise(() => writeFile(version, "15\n"))
      const error = yield* Effect.flip(Effect.scoped(hold(dataDir)))
      assert.include(error.phrase, "was created by PostgreSQL 15")
      assert.deepEqual(yield* Effect.promise(() => readdir(path.dirname(version))), ["PG_VERSION"])
    })
  )

  it.live("a wrong password file is named in the error", () =>
    Effect.gen(function* () {
      const dataDir = yield* reusedDirectory
      yield* using(dataDir, () => Effect.void)
      const file = path.join(dataDir, "postgres", "countersign-password")
      const right = yield* Effect.promise(() => readFile(file, "utf8"))
      yield* Effect.addFinalizer(() => Effect.promise(() => writeFile(file, right)))
      yield* Effect.promise(() => writeFile(file, "another"))
      const error = yield* Effect.flip(Effect.scoped(hold(dataDir)))
      assert.include(error.phrase, "rejects the password")
    })
  )
})

describe("defaultDataDir", () => {
  it("the default data directory is in the working directory, and for root in /var/lib", () => {
    assert.strictEqual(defaultDataDir({ cwd: "/srv/app", uid: 1000 }), path.join("/srv/app", ".countersign"))
    assert.strictEqual(defaultDataDir({ cwd: "/root", uid: 0 }), "/var/lib/countersign")
  })
})
