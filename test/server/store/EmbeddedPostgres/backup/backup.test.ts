import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted, Ref, Result, Schedule } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import {
  appendFile,
  mkdtemp,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile
} from "node:fs/promises"
import { existsSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as KeyRing from "../../../../../src/server/secrets/KeyRing.ts"
import {
  backUp,
  EmbeddedPostgres,
  restore,
  verifyBackup
} from "../../../../../src/server/store/EmbeddedPostgres.ts"
import { readNewestBackup } from "../../../../../src/server/store/dataDirectory.ts"
import { SecretBox } from "../../../../../src/server/secrets/SecretBox.ts"
import { BackupManifest } from "../../../../../src/server/store/EmbeddedPostgres/backup/BackupManifest.ts"
import { checkPrograms } from "../../../../../src/server/store/EmbeddedPostgres/backup/restoreBackup.ts"
import { latestMigration } from "../../../../../src/server/store/Database/schemaVersion.ts"
import { cli } from "../../../../support/cli.ts"
import { query, readPostmasterPid, sendSignal } from "../../../../support/embeddedPostgres.ts"
import { entryPoint } from "../../../../support/process.ts"

/** In memory if the machine has such a directory: each copied file is synced. */
const base = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

const temporaryDirectory = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(base, "countersign-backups-"))),
  (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
)

/** A data directory, removed with its server when the scope closes. */
const dataDirectory = Effect.tap(temporaryDirectory, (dataDir) =>
  Effect.addFinalizer(() =>
    Effect.promise(async () => {
      const pid = await readPostmasterPid(dataDir)
      if (pid !== undefined) sendSignal(pid, "SIGKILL")
    })
  )
)

const using = <A, E, R>(dataDir: string, use: (url: Redacted.Redacted) => Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(Layer.build(EmbeddedPostgres.layer({ dataDir })), (services) =>
      use(Context.get(services, EmbeddedPostgres).url)
    )
  )

/** The master key of the installation. */
const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")

const secretBox = Effect.provide(SecretBox, SecretBox.layer({ masterKeys: [Redacted.make(KEY)] }))

/** Commands for a data directory. */
const commands =
  (dataDir: string, variables: Readonly<Record<string, string>> = { COUNTERSIGN_MASTER_KEY: KEY }) =>
  (args: ReadonlyArray<string>) =>
    cli(args, { COUNTERSIGN_DATA_DIR: dataDir, ...variables })

/** A data directory with a table of one number. */
const storeWith = (number: number) =>
  Effect.gen(function* () {
    const dataDir = yield* dataDirectory
    yield* using(dataDir, (url) => query(url, `CREATE TABLE marker AS SELECT ${number} AS n`))
    return dataDir
  })

const markerOf = (dataDir: string) =>
  using(dataDir, (url) => Effect.map(query(url, "SELECT n FROM marker"), ([row]) => row?.["n"]))

const setMarker = (dataDir: string, number: number) =>
  using(dataDir, (url) => query(url, `UPDATE marker SET n = ${number}`))

/** Starts a command in a process, kills it after a while, and waits for its end. Returns whether it was killed. */
const killAfter = (args: ReadonlyArray<string>, dataDir: string, millis: number) =>
  Effect.callback<boolean>((resume) => {
    const child = spawn(process.execPath, [entryPoint(), ...args], {
      stdio: "ignore",
      env: {
        PATH: process.env["PATH"],
        NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
        COUNTERSIGN_DATA_DIR: dataDir,
        COUNTERSIGN_MASTER_KEY: KEY
      }
    })
    const timer = setTimeout(() => child.kill("SIGKILL"), millis)
    child.once("exit", (_, signal) => {
      clearTimeout(timer)
      resume(Effect.succeed(signal === "SIGKILL"))
    })
  })

const eventually = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.retry(self, Schedule.max([Schedule.spaced("50 millis"), Schedule.recurs(200)]))

describe("countersign backup and restore", { timeout: 240_000 }, () => {
  it.live(
    "a backup under writes has every transaction that was acknowledged before its end, and no part of one",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* dataDirectory
        const backups = yield* temporaryDirectory
        const box = yield* secretBox
        const counts = { acknowledged: 0, atStart: 0, atHalf: 0 }
        const directory = yield* using(dataDir, (url) =>
          Effect.gen(function* () {
            yield* query(url, "CREATE TABLE entries (n int PRIMARY KEY, text text)")
            yield* query(
              url,
              "CREATE TABLE accounts AS SELECT i AS id, 100 AS balance FROM generate_series(1, 50) i"
            )
            const stopped = yield* Ref.make(false)
            const writer = yield* Effect.gen(function* () {
              while (!(yield* Ref.get(stopped))) {
                const n = counts.acknowledged + 1
                yield* query(
                  url,
                  `WITH entry AS (INSERT INTO entries VALUES (${n}, repeat('x', 2000)))
                 UPDATE accounts SET balance = balance + CASE id WHEN ${(n % 49) + 1} THEN 1 ELSE -1 END
                 WHERE id IN (${(n % 49) + 1}, 50)`
                )
                counts.acknowledged = n
              }
            }).pipe(Effect.forkChild)
            yield* eventually(
              Effect.suspend(() => (counts.acknowledged > 20 ? Effect.void : Effect.fail("none")))
            )
            counts.atStart = counts.acknowledged
            const backup = yield* backUp(dataDir, {
              to: backups,
              compress: true,
              now: 0,
              sign: (text) => box.sign("backup", text),
              onProgress: (done, total) => {
                if (done < total / 2) counts.atHalf = counts.acknowledged
              }
            })
            yield* Ref.set(stopped, true)
            yield* Fiber.join(writer)
            assert.strictEqual(yield* Effect.promise(() => readNewestBackup(dataDir)), 0)
            // PostgreSQL drops a temporary slot when it notices that its connection has ended.
            yield* eventually(
              Effect.filterOrFail(
                query(url, "SELECT count(*)::int AS n FROM pg_replication_slots"),
                ([slots]) => slots?.["n"] === 0,
                () => "a slot is left"
              )
            )
            return backup.directory
          })
        )
        assert.isAbove(counts.atHalf, counts.atStart, "there were writes during the backup")
        const restored = yield* dataDirectory
        const { err, ok } = yield* commands(restored)(["restore", "--from", directory])
        assert.isTrue(ok, err)
        assert.isNull(yield* Effect.promise(() => readNewestBackup(restored)))
        yield* using(restored, (url) =>
          Effect.gen(function* () {
            const [row] = yield* query(
              url,
              "SELECT count(*)::int AS count, max(n) AS max, (SELECT sum(balance)::int FROM accounts) AS sum FROM entries"
            )
            assert.isAtLeast(Number(row?.["count"]), counts.atHalf)
            assert.strictEqual(row?.["count"], row?.["max"], "the entries have no gap")
            assert.strictEqual(row?.["sum"], 5_000)
            const [checksums] = yield* query(url, "SHOW data_checksums")
            assert.strictEqual(checksums?.["data_checksums"], "on")
          })
        )
      })
  )

  it.live("a restore replaces a database only with --force and while no server runs, and keeps it", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const run = commands(dataDir)
      const made = yield* run(["backup", "--to", backups])
      assert.isTrue(made.ok, made.err)
      yield* setMarker(dataDir, 2)
      const refused = yield* run(["restore", "--from", made.out])
      assert.isFalse(refused.ok)
      assert.match(refused.err, /has a database already: .* or add --force/)
      const running = yield* using(dataDir, () => run(["restore", "--from", made.out, "--force"]))
      assert.match(running.err, /is running: stop every service/)
      assert.strictEqual(yield* markerOf(dataDir), 2)
      const verified = yield* run(["restore", "--from", made.out, "--verify"])
      assert.match(verified.out, /is complete: /)
      assert.strictEqual(yield* markerOf(dataDir), 2)
      const restored = yield* run(["restore", "--from", made.out, "--force"])
      assert.isTrue(restored.ok, restored.err)
      assert.strictEqual(yield* markerOf(dataDir), 1)
      // The replaced database is whole too.
      const kept = (yield* Effect.promise(() => readdir(dataDir))).find((name) =>
        name.startsWith("postgres.before-restore-")
      )
      yield* Effect.promise(async () => {
        await rename(path.join(dataDir, "postgres"), path.join(dataDir, "postgres-aside"))
        await rename(path.join(dataDir, kept ?? ""), path.join(dataDir, "postgres"))
      })
      assert.strictEqual(yield* markerOf(dataDir), 2)
    })
  )

  it.live("a restore that is killed leaves the old or the restored database, and can be repeated", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const run = commands(dataDir)
      const { out: backup } = yield* run(["backup", "--to", backups])
      const args = ["restore", "--from", backup, "--force"]
      let killed = 0
      for (const millis of [400, 700, 1_000, 1_400, 1_900]) {
        yield* setMarker(dataDir, 2)
        if (yield* killAfter(args, dataDir, millis)) killed++
        assert.include([1, 2], yield* markerOf(dataDir), `killed after ${millis} ms`)
      }
      assert.isAbove(killed, 0)
      yield* setMarker(dataDir, 2)
      const repeated = yield* run(args)
      assert.isTrue(repeated.ok, repeated.err)
      assert.strictEqual(yield* markerOf(dataDir), 1)
      const left = (yield* Effect.promise(() => readdir(dataDir))).filter((name) =>
        /\.new-|\.restored/.test(name)
      )
      assert.deepEqual(left, [])
    })
  )

  it.live("restores that start in the same second each keep the database that they replace", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const { out } = yield* commands(dataDir)(["backup", "--to", yield* temporaryDirectory])
      const backup = yield* verifyBackup(out, undefined, () => {})
      const options = { force: true, now: 0, onProgress: () => {} }
      const replaced: Array<string | undefined> = []
      for (const number of [2, 3]) {
        yield* setMarker(dataDir, number)
        replaced.push((yield* restore({ dataDir }, backup, options)).replaced)
        assert.strictEqual(yield* markerOf(dataDir), 1)
      }
      const name = path.join(dataDir, "postgres.before-restore-1970-01-01T00-00-00Z")
      assert.deepEqual(replaced, [name, `${name}-2`])
      yield* Effect.promise(async () => {
        await rm(path.join(dataDir, "postgres"), { recursive: true })
        await rename(name, path.join(dataDir, "postgres"))
      })
      assert.strictEqual(yield* markerOf(dataDir), 2)
    })
  )

  it.live("a start removes what a killed restore left", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const child = spawn("true")
      yield* Effect.promise(() => new Promise((resolve) => child.once("exit", resolve)))
      const left = path.join(dataDir, `postgres.new-${child.pid}-0123456789ab`)
      const active = path.join(dataDir, `postgres.new-${process.pid}-0123456789ab`)
      for (const directory of [left, active]) {
        yield* Effect.promise(() => mkdir(path.join(directory, "base"), { recursive: true }))
      }
      assert.strictEqual(yield* markerOf(dataDir), 1)
      assert.isFalse(existsSync(left))
      assert.isTrue(existsSync(active))
    })
  )

  it.live("a compressed backup prints the size of the database and that of its files", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const { err } = yield* commands(dataDir)(["backup", "--to", yield* temporaryDirectory, "--compress"])
      const [, whole, stored] = /, (\d+) MB \((\d+) MB compressed\)/.exec(err) ?? assert.fail(err)
      assert.isBelow(Number(stored), Number(whole))
    })
  )

  it.live("a start completes a restore that was killed between its two renames", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const cluster = path.join(dataDir, "postgres")
      yield* Effect.promise(() => rename(cluster, `${cluster}.restored`))
      assert.strictEqual(yield* markerOf(dataDir), 1)
      // And a repeated restore does too, instead of taking the directory for an empty one.
      const backups = yield* temporaryDirectory
      const run = commands(dataDir)
      const { out: backup } = yield* run(["backup", "--to", backups])
      yield* Effect.promise(() => rename(cluster, `${cluster}.restored`))
      assert.match((yield* run(["restore", "--from", backup])).err, /has a database already/)
      assert.strictEqual(yield* markerOf(dataDir), 1)
    })
  )

  it.live("a backup that is killed is not taken for one, and the next one removes it", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const list = Effect.promise(() => readdir(backups))
      yield* using(dataDir, (url) =>
        Effect.gen(function* () {
          const killed = yield* Effect.forkChild(killAfter(["backup", "--to", backups], dataDir, 600_000))
          yield* eventually(
            Effect.flatMap(list, (names) => (names.length > 0 ? Effect.void : Effect.fail("none")))
          )
          const [temporary = ""] = yield* list
          const pid = Number(/\.new-(\d+)-/.exec(temporary)?.[1])
          assert.isAbove(pid, 0, temporary)
          process.kill(pid, "SIGKILL")
          assert.isTrue(yield* Fiber.join(killed))
          // The server has ended the backup and dropped its slot.
          yield* eventually(
            Effect.flatMap(query(url, "SELECT 1 FROM pg_replication_slots"), (rows) =>
              rows.length === 0 ? Effect.void : Effect.fail("kept")
            )
          )
          const made = yield* commands(dataDir)(["backup", "--to", backups, "--keep", "1"])
          assert.isTrue(made.ok, made.err)
          assert.deepEqual(yield* list, [path.basename(made.out)])
        })
      )
    })
  )

  it.live("altered, cut and incomplete backups are refused, and nothing is restored", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const { out: backup } = yield* commands(dataDir)(["backup", "--to", backups])
      const at = (name: string) => path.join(backup, name)
      const target = yield* temporaryDirectory
      /** Changes the backup, restores it, and undoes the change. */
      const refused = Effect.fnUntraced(function* (
        file: string,
        change: (content: Buffer) => Promise<unknown>
      ) {
        const content = yield* Effect.promise(() => readFile(at(file)).catch(() => Buffer.alloc(0)))
        yield* Effect.promise(() => change(content))
        const { err, ok } = yield* commands(target)(["restore", "--from", backup])
        assert.isFalse(ok)
        yield* Effect.promise(async () => {
          await rm(at(file), { recursive: true, force: true })
          if (content.length > 0) await writeFile(at(file), content)
        })
        assert.deepEqual(yield* Effect.promise(() => readdir(target)), [], err)
        return err
      })
      const version = "postgres/PG_VERSION"
      assert.match(
        yield* refused(version, () => writeFile(at(version), "19\n")),
        /PG_VERSION differs from its checksum/
      )
      assert.match(yield* refused(version, () => rm(at(version))), /PG_VERSION is missing/)
      const control = "postgres/global/pg_control"
      assert.match(
        yield* refused(control, () => truncate(at(control), 100)),
        /pg_control differs from its checksum/
      )
      const added = "postgres/postgresql.auto.conf.extra"
      assert.match(yield* refused(added, () => writeFile(at(added), "x")), /extra is not in SHA256SUMS/)
      const link = "postgres/link"
      assert.match(
        yield* refused(link, () => symlink("/etc/passwd", at(link))),
        /is neither a file nor a directory/
      )
      const sums = "SHA256SUMS"
      assert.match(
        yield* refused(sums, (content) => truncate(at(sums), content.length - 40)),
        /SHA256SUMS is not valid/
      )
      assert.match(
        yield* refused(sums, () => rm(at(sums))),
        /no SHA256SUMS: name a directory that countersign backup/
      )
      assert.match(
        yield* refused(sums, (content) =>
          writeFile(
            at(sums),
            content.toString("utf8").replace("postgres/PG_VERSION", "postgres/../../PG_VERSION")
          )
        ),
        /SHA256SUMS is not valid/
      )
      const manifest = "manifest.json"
      const rewritten = (from: RegExp, to: string) => (content: Buffer) =>
        writeFile(at(manifest), content.toString("utf8").replace(from, to))
      assert.match(
        yield* refused(manifest, rewritten(/"format": 1/, '"format": 2')),
        /has format 2, but this version of Countersign reads format 1/
      )
      assert.match(
        yield* refused(manifest, rewritten(/"global"/, '"../global"')),
        /manifest\.json is not valid/
      )
      assert.match(
        yield* refused(manifest, rewritten(/"arch": "\w+"/, '"arch": "pdp11"')),
        /manifest\.json differs/
      )
      const whole = yield* Effect.result(verifyBackup(backup, undefined, () => undefined))
      assert.isTrue(Result.isSuccess(whole))
    })
  )

  it.effect("a backup that these programs cannot open is refused with what can", () =>
    Effect.gen(function* () {
      const fields: ConstructorParameters<typeof BackupManifest>[0] = {
        format: 1,
        countersign: "9.9.9",
        completed_at: "2026-11-24T00:00:00.000Z",
        postgres_major: 18,
        platform: process.platform,
        arch: process.arch,
        schema_version: latestMigration,
        master_key_ids: [],
        compression: "none",
        files: 1,
        bytes: 1,
        directories: []
      }
      const programs = { major: 18, installedIn: undefined }
      yield* checkPrograms(BackupManifest.make(fields), programs)
      const why = (changes: Partial<BackupManifest>, major = 18) =>
        Effect.map(
          Effect.flip(checkPrograms(BackupManifest.make({ ...fields, ...changes }), { ...programs, major })),
          ({ phrase }) => phrase
        )
      assert.match(
        yield* why({ schema_version: latestMigration + 1 }),
        /supports \d+ at most: restore it with version 9\.9\.9/
      )
      assert.match(yield* why({}, 17), /backup is of PostgreSQL 18, but .* set COUNTERSIGN_POSTGRES_BIN/)
      assert.match(yield* why({ arch: "pdp11" }), /of a machine with \w+ pdp11/)
    })
  )

  it.live("the oldest backups beyond --keep are removed, and other directories are not", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const older = ["countersign-backup-2026-01-01T00-00-00Z", "countersign-backup-2026-01-02T00-00-00Z"]
      yield* Effect.forEach([...older, "countersign-backup-notes"], (name) =>
        Effect.promise(() => mkdir(path.join(backups, name)))
      )
      const { out } = yield* commands(dataDir)(["backup", "--to", backups, "--keep", "2"])
      assert.deepEqual((yield* Effect.promise(() => readdir(backups))).toSorted(), [
        older[1],
        path.basename(out),
        "countersign-backup-notes"
      ])
    })
  )

  it.live("a new backup is kept by --keep, also if others were made while the clock was ahead", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const backups = yield* temporaryDirectory
      const ahead = ["countersign-backup-2999-01-01T00-00-00Z", "countersign-backup-2999-01-02T00-00-00Z"]
      yield* Effect.forEach(ahead, (name) => Effect.promise(() => mkdir(path.join(backups, name))))
      const made = yield* commands(dataDir)(["backup", "--to", backups, "--keep", "1"])
      assert.isTrue(made.ok, made.err)
      assert.deepEqual(yield* Effect.promise(() => readdir(backups)), [path.basename(made.out)])
    })
  )

  it.live("an altered backup is refused, also with new checksums, and runs no program with --unsigned", () =>
    Effect.gen(function* () {
      const dataDir = yield* storeWith(1)
      const { out: backup } = yield* commands(dataDir)(["backup", "--to", yield* temporaryDirectory])
      const proof = path.join(yield* temporaryDirectory, "proof")
      const settings = [
        ...["archive_mode = on", "archive_timeout = 1", `archive_command = 'touch ${proof}'`],
        "session_preload_libraries = 'nothing'"
      ]
      yield* Effect.promise(async () => {
        const at = (name: string) => path.join(backup, name)
        const digest = async (name: string) =>
          createHash("sha256")
            .update(await readFile(at(name)))
            .digest("hex")
        await appendFile(at("postgres/postgresql.auto.conf"), settings.join("\n"))
        await appendFile(at("postgres/pg_hba.conf"), "local all all trust\n")
        const names = ["postgres/postgresql.auto.conf", "postgres/pg_hba.conf"]
        let sums = await readFile(at("SHA256SUMS"), "utf8")
        for (const name of names)
          sums = sums.replace(new RegExp(`[0-9a-f]{64}  ${name}`, "u"), `${await digest(name)}  ${name}`)
        await writeFile(at("SHA256SUMS"), sums)
      })
      const target = yield* dataDirectory
      const run = commands(target)
      for (const mode of [["--verify"], []]) {
        const { err, ok } = yield* run(["restore", "--from", backup, ...mode])
        assert.isFalse(ok)
        assert.match(err, /is not signed by a master key .*: it was altered/)
      }
      yield* Effect.promise(() => rm(path.join(backup, "SHA256SUMS.hmac")))
      assert.match((yield* run(["restore", "--from", backup])).err, /has no signature: .* add --unsigned/)
      const restored = yield* run(["restore", "--from", backup, "--unsigned"])
      assert.isTrue(restored.ok, restored.err)
      yield* using(target, (url) =>
        Effect.gen(function* () {
          const rows = yield* query(
            url,
            `SELECT name::text, setting::text FROM pg_settings
             WHERE name IN ('archive_command', 'archive_mode', 'session_preload_libraries') ORDER BY name`
          )
          assert.deepEqual(rows, [
            { name: "archive_command", setting: "(disabled)" },
            { name: "archive_mode", setting: "off" },
            { name: "session_preload_libraries", setting: "" }
          ])
        })
      )
      const access = yield* Effect.promise(() =>
        readFile(path.join(target, "postgres", "pg_hba.conf"), "utf8")
      )
      assert.notInclude(access, "trust")
      assert.isFalse(existsSync(proof))
    })
  )

  it.live("the master key is copied only when asked, apart from the backups, and put back by a restore", () =>
    Effect.gen(function* () {
      const dataDir = yield* dataDirectory
      const backups = yield* temporaryDirectory
      const vault = yield* temporaryDirectory
      const run = commands(dataDir, {})
      // Creates the key, which the first start would register.
      assert.isTrue((yield* run(["migrate"])).ok)
      assert.isTrue((yield* run(["keys", "create", "--preset", "admin"])).ok)
      const key = yield* Effect.promise(() => readFile(path.join(dataDir, "master-key"), "utf8"))
      const { id } = Result.getOrThrow(KeyRing.fromTexts([Redacted.make(key)])).primary
      yield* using(dataDir, (url) => query(url, `INSERT INTO master_keys VALUES ('${id}', now())`))
      const file = path.join(vault, "key")
      const inside = yield* run(["backup", "--to", backups, "--master-key-to", path.join(backups, "key")])
      assert.match(inside.err, /is in the directory of the backups/)
      const made = yield* run(["backup", "--to", backups, "--master-key-to", file])
      assert.isTrue(made.ok, made.err)
      assert.include(made.err, `${file} has the master key ${id}.`)
      assert.strictEqual(yield* Effect.promise(() => readFile(file, "utf8")), key)
      const contents = yield* Effect.promise(() => readdir(made.out, { recursive: true }))
      assert.isFalse(contents.some((name) => name.includes("master-key")))
      yield* Effect.promise(() => writeFile(file, "other", { mode: 0o600 }))
      assert.match((yield* run(["backup", "--to", backups, "--master-key-to", file])).err, /another content/)
      yield* Effect.promise(() => writeFile(file, key, { mode: 0o600 }))
      const target = yield* dataDirectory
      const refused = yield* commands(target, {})(["restore", "--from", made.out])
      assert.match(refused.err, /is not signed by a master key of this installation/)
      const unsigned = yield* commands(target, {})(["restore", "--from", made.out, "--unsigned"])
      assert.isTrue(unsigned.ok, unsigned.err)
      assert.include(unsigned.err, `The master key is missing (${id})`)
      const again = yield* commands(
        target,
        {}
      )([...["restore", "--from", made.out, "--master-key", file, "--force"]])
      assert.isTrue(again.ok, again.err)
      assert.strictEqual(again.err, "")
      const keys = yield* commands(target, {})(["keys", "list"])
      assert.isTrue(keys.ok, keys.err)
    })
  )

  it.live(
    "a database of DATABASE_URL, a missing one, and a directory in the data directory are refused",
    () =>
      Effect.gen(function* () {
        const backups = yield* temporaryDirectory
        const url = "postgres://countersign@db.internal/countersign"
        for (const args of [
          ["backup", "--to", backups],
          ["restore", "--from", backups]
        ]) {
          const { err } = yield* cli(args, {
            DATABASE_URL: url,
            COUNTERSIGN_MASTER_KEY: KEY
          })
          assert.match(err, /^DATABASE_URL is set: this command is for the embedded database/)
        }
        const dataDir = yield* dataDirectory
        assert.match((yield* commands(dataDir)(["backup", "--to", backups])).err, /^no database in /)
        const store = yield* storeWith(1)
        const inside = yield* commands(store)(["backup", "--to", path.join(store, "postgres", "backups")])
        assert.match(inside.err, /is in the data directory .* name a directory elsewhere/)
        assert.isFalse(existsSync(path.join(store, "postgres", "backups")))
        const missing = yield* commands(store)(["restore", "--from", "/nope"])
        assert.strictEqual(
          missing.err,
          "/nope does not exist: name a directory that countersign backup printed"
        )
      })
  )
})
