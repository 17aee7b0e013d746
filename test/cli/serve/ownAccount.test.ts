import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs"
import { chmod, chown, link, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises"
import { createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { findAccount, firstBarrier, OWN_ACCOUNT } from "../../../src/server/store/EmbeddedPostgres.ts"
import { type Account } from "../../../src/server/store/EmbeddedPostgres/Account.ts"
import { runCommand } from "../../../src/server/store/EmbeddedPostgres/runCommand.ts"
import { readPostmasterPid, sendSignal } from "../../support/embeddedPostgres.ts"
import { eventually } from "../../support/eventually.ts"
import { listenOnFreePort } from "../../support/listenOnFreePort.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { entryPoint, spawnCli } from "../../support/process.ts"

/** An account that every system has, and that no program of a test machine runs as. */
const NAME = "daemon"

const repository = fileURLToPath(new URL("../../..", import.meta.url))

/** Why this machine cannot run these tests; undefined: it can. */
const reasonToSkip = await Effect.runPromise(
  Effect.gen(function* () {
    if (process.getuid?.() !== 0) return "this process is not root"
    if (process.platform !== "linux") return "/proc, which they read, exists on Linux only"
    const account = yield* findAccount(NAME)
    if (account === undefined) return `this machine has no account ${NAME}`
    for (const needed of [path.join(repository, "package.json"), realpathSync(process.execPath), tmpdir()]) {
      const barrier = yield* firstBarrier(account, needed)
      if (barrier !== undefined) return `the account ${NAME} cannot read ${barrier}`
    }
    return undefined
  })
)
if (reasonToSkip !== undefined)
  process.stderr.write(`what the service does as root is not tried: ${reasonToSkip}\n`)

/** A test starts up to five processes, one after another. */
const TIMEOUT_MILLIS = 120_000

const account = Effect.map(findAccount(NAME), (found) => found ?? assert.fail(NAME))
const stranger = { uid: 65_534, gid: 65_534 }

/** A data directory; its server is stopped when the scope closes. */
const dataDirectory = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-account-"))),
  (made) =>
    Effect.promise(async () => {
      const pid = await readPostmasterPid(made)
      if (pid !== undefined) sendSignal(pid, "SIGKILL")
      await rm(made, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
    })
)

/** The real, effective, saved and file system ids of a process. */
const idsOf = (pid: number, kind: "Uid" | "Gid" | "Groups") =>
  new RegExp(`^${kind}:\\s*(.*)$`, "m")
    .exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]
    ?.trim()
    .split(/\s+/)
    .map(Number)

/** Whether an account can read a file. */
const canRead = (as: Account, file: string) =>
  Effect.map(
    runCommand({ command: "head", args: ["-c", "1", file], account: as, capture: true }),
    ({ code }) => code === 0
  )

const READY = /Countersign \S+ is ready[^]*address +(\S+)/

const serve = Effect.fnUntraced(function* (variables: Readonly<Record<string, string>>) {
  const service = yield* spawnCli(["serve"], { PORT: "0", ...variables })
  const out = yield* service.waitForStdout(READY)
  return { ...service, url: READY.exec(out)?.[1] ?? "" }
})

const statusOf = (url: string) => Effect.promise(() => fetch(`${url}/readyz`).then(({ status }) => status))

/** The ports on which a process listens. */
const listeningPorts = (pid: number): ReadonlyArray<number> => {
  const sockets = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? []
    } catch {
      // Closed meanwhile.
      return []
    }
  })
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state = "", , , , , , inode = ""]) => state === LISTENING && sockets.includes(inode))
      .map(([, local = ""]) => Number.parseInt(local.split(":")[1] ?? "", 16))
  )
}

/** The state of a listening socket in `/proc/net/tcp`. */
const LISTENING = "0A"

/** A free port that only root may open. */
const privilegedPort = Effect.promise(async () => {
  for (let port = 600; port < 1024; port++) {
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer()
      server.once("error", () => resolve(false))
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
  return assert.fail("no free port")
})

/** The port of a server that accepts connections and sends nothing. */
const silentServer = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => {
      const sockets = new Set<Socket>()
      const server = createServer((socket) => sockets.add(socket.on("error", () => undefined)))
      return { server, sockets, port: await listenOnFreePort(server) }
    }),
    ({ server, sockets }) =>
      Effect.sync(() => {
        for (const socket of sockets) socket.destroy()
        server.close()
      })
  ),
  ({ port }) => port
)

describe.runIf(reasonToSkip === undefined)("countersign serve as root", () => {
  it.live(
    "opens its port, then changes to the account with its database, and no other account reads them",
    () =>
      Effect.gen(function* () {
        const { uid, gid } = yield* account
        const dataDir = yield* dataDirectory
        const port = yield* privilegedPort
        const service = yield* serve({
          PORT: String(port),
          COUNTERSIGN_DATA_DIR: dataDir,
          COUNTERSIGN_USER: NAME,
          NODE_ENV: "production"
        })
        assert.strictEqual(service.url, `http://127.0.0.1:${port}`)
        assert.strictEqual(yield* statusOf(service.url), 200)
        const server = (yield* Effect.promise(() => readPostmasterPid(dataDir))) ?? 0
        for (const pid of [service.pid, server]) {
          assert.deepEqual(idsOf(pid, "Uid"), [uid, uid, uid, uid])
          assert.deepEqual(idsOf(pid, "Gid"), [gid, gid, gid, gid])
        }
        assert.deepEqual(idsOf(service.pid, "Groups"), [gid])

        const password = path.join(dataDir, "postgres", "countersign-password")
        assert.isFalse(yield* canRead(stranger, password))
        assert.isTrue(yield* canRead({ uid, gid }, password))
        // Secrets of the service that the database's processes, of the same account, must not reach.
        for (const file of [path.join(dataDir, "master-key"), `/proc/${service.pid}/environ`])
          assert.isFalse(yield* canRead({ uid, gid }, file), file)

        // Commands beside the service: as its account they need no master key, and other accounts learn which account to use.
        const beside = { COUNTERSIGN_DATA_DIR: dataDir, COUNTERSIGN_USER: NAME }
        for (const args of [
          ["keys", "create", "--preset", "admin"],
          ["keys", "list"]
        ]) {
          const done = yield* (yield* spawnCli(args, beside, entryPoint(), { uid, gid })).ended
          assert.strictEqual(done.code, 0, done.err)
        }
        const doctor = yield* (yield* spawnCli(["doctor"], beside, entryPoint(), { uid, gid })).ended
        assert.match(doctor.out, /^skipped +keys +.*\(EACCES\): run the command as root/m)
        assert.match(doctor.out, /^ok +replicas/m)
        for (const args of [
          ["keys", "list"],
          ["backup", "--to", path.join(tmpdir(), "countersign-no-backup")]
        ]) {
          const denied = yield* (yield* spawnCli(args, beside, entryPoint(), stranger)).ended
          assert.strictEqual(denied.code, 1)
          assert.include(
            denied.err,
            `run this as root or as the service's account (uid ${uid}), not as uid 65534`
          )
          assert.notInclude(denied.err, "access")
        }

        // The debugger stays closed.
        sendSignal(service.pid, "SIGUSR1")
        assert.strictEqual(yield* statusOf(service.url), 200)
        assert.deepEqual(listeningPorts(service.pid), [port])

        // Without root's rights it still restarts its database.
        assert.isTrue(sendSignal(server, "SIGKILL"))
        yield* eventually(
          Effect.promise(() => readPostmasterPid(dataDir)),
          (pid) => pid !== undefined && pid !== server
        )
        yield* eventually(statusOf(service.url), (status) => status === 200)

        yield* service.kill("SIGTERM")
        assert.strictEqual((yield* service.ended).code, 0)
        assert.isUndefined(yield* Effect.promise(() => readPostmasterPid(dataDir)))
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "uses a database that a command of root has created",
    () =>
      Effect.gen(function* () {
        const { uid } = yield* account
        const dataDir = yield* dataDirectory
        const variables = { COUNTERSIGN_DATA_DIR: dataDir, COUNTERSIGN_USER: NAME }
        const migrated = yield* (yield* spawnCli(["migrate"], variables)).ended
        assert.strictEqual(migrated.code, 0, migrated.err)
        const service = yield* serve(variables)
        assert.strictEqual(idsOf(service.pid, "Uid")?.[0], uid)
        const created = yield* spawnCli(["keys", "create", "--preset", "admin"], variables)
        const { code, err, out } = yield* created.ended
        assert.strictEqual(code, 0, err)
        const response = yield* Effect.promise(() =>
          fetch(`${service.url}/v1/api-keys`, { headers: { authorization: `Bearer ${out.trim()}` } })
        )
        assert.strictEqual(response.status, 200)
        // And beside the running service.
        const listed = yield* (yield* spawnCli(["keys", "list"], variables)).ended
        assert.strictEqual(listed.code, 0, listed.err)
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "with COUNTERSIGN_CREATE_DATABASE=false, leaves a directory without a database as it is, and serves one that exists",
    () =>
      Effect.gen(function* () {
        const { uid } = yield* account
        const dataDir = yield* dataDirectory
        const variables = {
          PORT: "0",
          COUNTERSIGN_DATA_DIR: dataDir,
          COUNTERSIGN_USER: NAME,
          COUNTERSIGN_CREATE_DATABASE: "false"
        }
        const refused = Effect.gen(function* () {
          const { code, err } = yield* (yield* spawnCli(["serve"], variables)).ended
          assert.strictEqual(code, 1)
          assert.include(err, `no database in ${dataDir}, and COUNTERSIGN_CREATE_DATABASE is false`)
        })
        // As an empty mount point.
        yield* refused
        assert.deepEqual(yield* Effect.promise(() => readdir(dataDir)), [])
        assert.strictEqual((yield* Effect.promise(() => stat(dataDir))).uid, 0)
        yield* Effect.promise(() => rm(dataDir, { recursive: true }))
        yield* refused
        assert.isFalse(existsSync(dataDir))

        const created = yield* (yield* spawnCli(["migrate"], {
          ...variables,
          COUNTERSIGN_CREATE_DATABASE: "true"
        })).ended
        assert.strictEqual(created.code, 0, created.err)
        const service = yield* serve(variables)
        assert.strictEqual(yield* statusOf(service.url), 200)
        assert.strictEqual(idsOf(service.pid, "Uid")?.[0], uid)
        yield* service.kill("SIGTERM")
        assert.strictEqual((yield* service.ended).code, 0)
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "says how to give it a database of another account",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* dataDirectory
        const cluster = path.join(dataDir, "postgres")
        const variables = { PORT: "0", COUNTERSIGN_DATA_DIR: dataDir, COUNTERSIGN_USER: NAME }
        // The directory is root's, the database an unprivileged account's.
        const before = yield* (yield* spawnCli(["migrate"], {
          ...variables,
          COUNTERSIGN_USER: "root"
        })).ended
        assert.strictEqual(before.code, 0, before.err)
        const { code, err } = yield* (yield* spawnCli(["serve"], variables)).ended
        assert.strictEqual(code, 1)
        const [, command = ""] = /then run (chown -R .*)$/m.exec(err) ?? assert.fail(err)
        assert.strictEqual(command, `chown -R ${NAME}: ${cluster}`)
        const [program = "", ...args] = command.split(" ")
        yield* runCommand({ command: program, args, account: undefined })
        const service = yield* serve(variables)
        assert.strictEqual(yield* statusOf(service.url), 200)
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "gives the account no directory with files of other programs",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* dataDirectory
        yield* Effect.promise(() => writeFile(path.join(dataDir, "shadow"), "x"))
        const { code, err } = yield* (yield* spawnCli(["serve"], {
          PORT: "0",
          COUNTERSIGN_DATA_DIR: dataDir,
          COUNTERSIGN_USER: NAME
        })).ended
        assert.strictEqual(code, 1)
        assert.include(err, `${dataDir} belongs to root and contains shadow, which is not ours`)
        const { uid } = yield* Effect.promise(() => stat(dataDir))
        assert.strictEqual(uid, 0)
        assert.deepEqual(yield* Effect.promise(() => readdir(dataDir)), ["shadow"])
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "changes nothing in a directory of the account, which could have replaced its files by links",
    () =>
      Effect.gen(function* () {
        const { gid, uid } = yield* account
        const dataDir = yield* dataDirectory
        const elsewhere = yield* dataDirectory
        const victim = path.join(elsewhere, "victim")
        yield* Effect.promise(async () => {
          await writeFile(victim, "x", { mode: 0o600 })
          await link(victim, path.join(dataDir, "postgres.log"))
          await symlink(victim, path.join(dataDir, "master-key"))
          await chown(dataDir, uid, gid)
        })
        const { code, err } = yield* (yield* spawnCli(["serve"], {
          PORT: "0",
          COUNTERSIGN_DATA_DIR: dataDir,
          COUNTERSIGN_USER: NAME
        })).ended
        assert.strictEqual(code, 1)
        assert.include(err, "permission")
        const facts = yield* Effect.promise(() => stat(victim))
        assert.deepEqual([facts.uid, facts.mode & 0o777], [0, 0o600])
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "names the directory of the program that the account cannot read",
    () =>
      Effect.gen(function* () {
        const closed = yield* dataDirectory
        const main = path.join(closed, "app", "main.ts")
        yield* Effect.promise(() => mkdir(path.dirname(main)))
        yield* Effect.promise(() =>
          writeFile(main, `await import(${JSON.stringify(path.join(repository, "src", "main.ts"))})\n`)
        )
        yield* Effect.promise(() => chmod(closed, 0o700))
        const { output } = yield* runCommand({
          command: "env",
          args: [
            `PORT=0`,
            `COUNTERSIGN_USER=${NAME}`,
            `COUNTERSIGN_DATA_DIR=${closed}/data`,
            process.execPath,
            main,
            "serve"
          ],
          account: undefined
        })
        assert.include(
          output,
          `the account ${NAME} cannot read ${closed}, a part of the path of this program`
        )
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "needs an account that exists and is not root's",
    () =>
      Effect.gen(function* () {
        const { code, err } = yield* (yield* spawnCli(["serve"], { COUNTERSIGN_USER: "no-such-account" }))
          .ended
        assert.strictEqual(code, 1)
        assert.include(err, "COUNTERSIGN_USER is no-such-account, but this machine has no such account")
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "keeps an ordinary account, with a warning if another one is set",
    () =>
      Effect.gen(function* () {
        const taken = yield* Effect.acquireRelease(
          Effect.callback<Server>((resume) => {
            const server = createServer()
            server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
          }),
          (server) => Effect.sync(() => server.close())
        )
        const address = taken.address()
        const port = typeof address === "object" && address !== null ? address.port : assert.fail("no port")
        const { code, output } = yield* runCommand({
          command: "env",
          args: [`PORT=${port}`, `COUNTERSIGN_USER=${NAME}`, process.execPath, "src/main.ts", "serve"],
          account: stranger,
          cwd: repository
        })
        assert.strictEqual(code, 1)
        assert.include(output, "COUNTERSIGN_USER has no effect")
        assert.include(output, "already in use")
      }),
    TIMEOUT_MILLIS
  )

  it.live(
    "ends in production unless an account is named or root is allowed",
    () =>
      Effect.gen(function* () {
        if ((yield* findAccount(OWN_ACCOUNT)) !== undefined) {
          process.stderr.write(
            "that root is refused is not tried: this machine has the account countersign\n"
          )
          return
        }
        const variables = {
          PORT: "0",
          NODE_ENV: "production",
          DATABASE_URL: Redacted.value(yield* cloneDatabase),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
        }
        const refused = yield* (yield* spawnCli(["serve"], variables)).ended
        assert.strictEqual(refused.code, 1)
        assert.include(refused.err, "does not run as root with NODE_ENV=production")
        assert.include(refused.err, "COUNTERSIGN_USER=root")

        const asRoot = yield* serve({ ...variables, COUNTERSIGN_USER: "root" })
        assert.strictEqual(idsOf(asRoot.pid, "Uid")?.[0], 0)
        yield* asRoot.waitForStderr(/"WARN".*The service runs as root/)

        // Another account than that of the test database's socket could not connect, and the service would end: it waits for a server.
        const silent = yield* silentServer
        const changed = yield* spawnCli(["serve"], {
          ...variables,
          DATABASE_URL: `postgres://countersign@127.0.0.1:${silent}/countersign?sslmode=disable`,
          COUNTERSIGN_USER: NAME
        })
        yield* changed.waitForStderr(new RegExp(`Running as the account ${NAME}`))
        const { uid } = yield* account
        assert.strictEqual(idsOf(changed.pid, "Uid")?.[0], uid)
      }),
    TIMEOUT_MILLIS
  )
})
