import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { createServer } from "node:http"
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { connect } from "../../src/client/index.ts"
import { generateApiKeyFrom } from "../../src/domain/identity/ApiKeyFormat.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

const masterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")

/** The environment of a service with a database of its own and a free port. */
const environment = Effect.map(cloneDatabase, (url) => ({
  PORT: "0",
  DATABASE_URL: Redacted.value(url),
  COUNTERSIGN_MASTER_KEY: masterKey
}))

const addressIn = (out: string): string => /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
const keyIn = (out: string): string | undefined => /csk_[0-9A-Za-z_]+/.exec(out)?.[0]

/** Starts the service; returns its output when it is ready. */
const startService = Effect.fnUntraced(function* (variables: Readonly<Record<string, string>>) {
  const service = yield* spawnCli(["serve"], variables)
  // The announcement is one write; it ends with the log of requests or the key.
  const out = yield* service.waitForStdout(
    /requests +.+\n(?:\n {2}First admin key.*\n\n {4}csk_\w+\n|\n {2}COUNTERSIGN_ADMIN_KEY is.*\n)?/
  )
  return { service, out, url: addressIn(out) }
})

const timeout = 120_000

describe("countersign serve", () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it.live(
      `prints an address and the first key that work, and exits 0 at ${signal}`,
      () =>
        Effect.scoped(
          Effect.gen(function* () {
            const variables = yield* environment
            const { out, service, url } = yield* startService(variables)
            const key = keyIn(out)
            if (key === undefined) return assert.fail(`no key in: ${out}`)
            assert.include(out, `docs       ${url}/docs`)
            assert.include(out, "requests   not logged; to log them, set COUNTERSIGN_LOG_REQUESTS=true")
            const listed = yield* Effect.promise(async () => {
              await using client = connect({ url, key })
              return await client.apiKeys.list()
            })
            assert.deepStrictEqual(
              listed.keys.map((one) => [one.preset, one.name]),
              [["admin", "first admin key"]]
            )
            yield* service.kill(signal)
            const { code, err } = yield* service.ended
            assert.strictEqual(code, 0)
            const states = err
              .split("\n")
              .flatMap((line) => /"message":"Countersign is (\w+)".*"state":"\1"/.exec(line)?.[1] ?? [])
            assert.deepStrictEqual(states, ["ready", "stopping", "stopped"])
            assert.notInclude(err, '"route":"/v1/api-keys"')

            const second = yield* startService(variables)
            assert.strictEqual(keyIn(second.out), undefined, "the key is printed once")
          })
        ),
      timeout
    )
  }

  it.live(
    "in production, no key is created and printed: the operator is told how to create one",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const variables = { ...(yield* environment), NODE_ENV: "production", COUNTERSIGN_USER: "root" }
          const { out, service, url } = yield* startService(variables)
          yield* service.waitForStderr(/countersign keys create --preset admin/)
          assert.strictEqual(keyIn(out), undefined)
          const created = yield* spawnCli(["keys", "create", "--preset", "admin"], variables)
          const key = keyIn(yield* created.waitForStdout(/csk_\w+\n/)) ?? ""
          const listed = yield* Effect.promise(async () => {
            await using client = connect({ url, key })
            return await client.apiKeys.list()
          })
          assert.lengthOf(listed.keys, 1)
        })
      ),
    timeout
  )

  /** The status of a request without a key. */
  const statusOf = (url: string) => Effect.promise(async () => (await fetch(`${url}/v1/tasks`)).status)

  it.live(
    "in production, requests are logged and the start says so, unless COUNTERSIGN_LOG_REQUESTS is false",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const variables = { ...(yield* environment), NODE_ENV: "production", COUNTERSIGN_USER: "root" }
          const logging = yield* startService(variables)
          const logged = "logged; to log none, set COUNTERSIGN_LOG_REQUESTS=false"
          assert.include(logging.out, `requests   ${logged}`)
          assert.strictEqual(yield* statusOf(logging.url), 401)
          const err = yield* logging.service.waitForStderr(/"message":"GET \/v1\/tasks 401"/)
          assert.include(err, `"requests":"${logged}"`)
          yield* logging.service.kill("SIGTERM")
          yield* logging.service.ended

          const silent = yield* startService({ ...variables, COUNTERSIGN_LOG_REQUESTS: "false" })
          assert.match(silent.out, /requests +not logged; to log them, set COUNTERSIGN_LOG_REQUESTS=true/)
          assert.strictEqual(yield* statusOf(silent.url), 401)
          yield* silent.service.kill("SIGTERM")
          assert.notInclude((yield* silent.service.ended).err, "GET /v1/tasks")
        })
      ),
    timeout
  )

  it.live(
    "warns of COUNTERSIGN_LOG_REQUESTS=true with a log level that hides the lines, and not of the default in production",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const variables = { ...(yield* environment), COUNTERSIGN_USER: "root" }
          const start = Effect.fnUntraced(function* (more: Readonly<Record<string, string>>) {
            const { out, service, url } = yield* startService({ ...variables, ...more })
            assert.strictEqual(yield* statusOf(url), 401)
            yield* service.kill("SIGTERM")
            const { err } = yield* service.ended
            assert.notInclude(err, "GET /v1/tasks")
            return { out, err }
          })
          for (const level of ["warn", "error"]) {
            const hidden = yield* start({ COUNTERSIGN_LOG_REQUESTS: "true", COUNTERSIGN_LOG_LEVEL: level })
            assert.match(hidden.out, new RegExp(`requests +not logged at the level ${level}; to log them`))
            assert.include(
              hidden.err,
              `which the log level ${level} hides: set COUNTERSIGN_LOG_LEVEL=info, or`
            )
          }
          const { err } = yield* start({ NODE_ENV: "production", COUNTERSIGN_LOG_LEVEL: "warn" })
          assert.notInclude(err, "COUNTERSIGN_LOG_REQUESTS")
        })
      ),
    timeout
  )

  it.live(
    "uses the configured first key, does not print it, and ignores it once a key exists",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const variables = yield* environment
          const given = (seed: number) =>
            Redacted.value(
              generateApiKeyFrom((size) => Uint8Array.from({ length: size }, (_, i) => (i * seed) % 248)).key
            )
          const first = yield* startService({ ...variables, COUNTERSIGN_ADMIN_KEY: given(7) })
          assert.include(first.out, "COUNTERSIGN_ADMIN_KEY is the first admin key of this database")
          assert.notInclude(first.out, given(7))
          const count = (url: string, key: string) =>
            Effect.promise(async () => {
              await using client = connect({ url, key })
              return await client.apiKeys.list().then(
                ({ keys }) => keys.length,
                (error: unknown) => String(error)
              )
            })
          assert.strictEqual(yield* count(first.url, given(7)), 1)
          yield* first.service.kill("SIGTERM")
          yield* first.service.ended

          const second = yield* startService({ ...variables, COUNTERSIGN_ADMIN_KEY: given(11) })
          assert.strictEqual(yield* count(second.url, given(7)), 1)
          assert.include(String(yield* count(second.url, given(11))), "INVALID_API_KEY: Unknown API key.")
          yield* second.service.waitForStderr(/COUNTERSIGN_ADMIN_KEY has no effect/)
          assert.notInclude(second.out, given(11))
        })
      ),
    timeout
  )

  it.live(
    "stops at an invalid value with one line that names the variable, and exit code 1",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { ended } = yield* spawnCli(["serve"], { PORT: "eighty" })
          assert.deepStrictEqual(yield* ended, {
            code: 1,
            out: "",
            err: `countersign: PORT must be a whole number from 0 to 65535, not "eighty"\n`
          })
        })
      ),
    timeout
  )

  it.live(
    "stops with one line if its address is in use or its database is unreachable",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const variables = yield* environment
          const other = yield* Effect.acquireRelease(
            Effect.promise(async () => {
              const server = createServer()
              await new Promise<void>((done) => server.listen(0, "127.0.0.1", done))
              return server
            }),
            (server) => Effect.sync(() => void server.close())
          )
          // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on TCP has an address and a port
          const { port } = other.address() as AddressInfo
          const taken = yield* spawnCli(["serve"], { ...variables, PORT: String(port) })
          const away = yield* spawnCli(["serve"], {
            ...variables,
            DATABASE_URL: "postgres://user:hunter2@127.0.0.1:1/none"
          })
          const first = yield* taken.ended
          assert.strictEqual(first.code, 1)
          assert.match(first.err, /^countersign: the address of HOST and PORT is already in use.*\n$/)
          const second = yield* away.ended
          assert.strictEqual(second.code, 1)
          assert.match(second.err, /^countersign: cannot use the database: .*ECONNREFUSED.*\n$/)
          assert.notInclude(second.err, "hunter2")
        })
      ),
    timeout
  )
})

describe("countersign demo", () => {
  it.live(
    "runs on a temporary service and database and leaves nothing behind",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const place = yield* Effect.acquireRelease(
            Effect.promise(async () => {
              const directory = await mkdtemp(path.join(tmpdir(), "countersign-demo-test-"))
              // As root, PostgreSQL runs as another account, which must be able to enter the directory.
              await chmod(directory, 0o755)
              return directory
            }),
            (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
          )
          const { code, err, out } = yield* Effect.flatMap(
            spawnCli(["demo"], { TMPDIR: place }),
            ({ ended }) => ended
          )
          assert.strictEqual(code, 0, err)
          assert.include(out, "All verified")
          const left = yield* Effect.promise(() => readdir(place))
          assert.deepStrictEqual(
            left.filter((name) => name.startsWith("countersign-demo-")),
            []
          )
        })
      ),
    timeout
  )

  it.live(
    "learning prints the agreement on held-out messages before and after the corrections, and exits with 0 because it rose",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { code, err, out } = yield* Effect.flatMap(
            spawnCli(["demo", "learning"]),
            ({ ended }) => ended
          )
          assert.strictEqual(code, 0, err)
          assert.match(
            out,
            /Agreement on held-out messages: 2 of 12 \(17 %\) before, 12 of 12 \(100 %\) after\.\n$/
          )
          assert.include(out, "agreement of the live release: 3 of 13 (23 %)")
          assert.include(out, "agreement of the candidate: 13 of 13 (100 %)")
        })
      ),
    timeout
  )

  it.live(
    "once makes one payment with two agents and a crash, which a person resolves, and exits with 0",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { code, err, out } = yield* Effect.flatMap(spawnCli(["demo", "once"]), ({ ended }) => ended)
          assert.strictEqual(code, 0, err)
          assert.include(out, "payments.refund is unknown, attempt 1")
          assert.include(out, "state: completed, by demo reviewer")
          assert.match(out, /Two agents, one crash, one refund, and a budget that was kept\.\n$/)
        })
      ),
    timeout
  )

  it.live(
    "autonomy lets a model earn the right, decide and lose it, lets no cheat keep one, and exits with 0",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { code, err, out } = yield* Effect.flatMap(
            spawnCli(["demo", "autonomy"]),
            ({ ended }) => ended
          )
          assert.strictEqual(code, 0, err)
          assert.include(
            out,
            "false approvals 0 of 32 (at most 18.4 %): not earned, 23 agreed approvals missing"
          )
          assert.include(out, "false approvals 0 of 96 (at most 7.6 %): may approve")
          assert.match(out, /[1-9]\d* of 12 refunds are decided by the model, at once/)
          // 96 approvals before, 3 of the planted ones, and a few of the 12 that were sampled, which may be none.
          assert.match(out, /false approvals 3 of (99|10\d) \(at most 1[23]\.\d %\): not earned/)
          assert.include(out, "the next refund waits for a person: pending")
          assert.include(out, "Cheat 1 approves everything, and never earns the right")
          assert.include(out, "0 of 8 hard ones are decided by it")
          assert.include(out, "a person marks it as wrong: stopped")
          assert.match(out, /lost it at 3 disagreements\. No cheat got away with it\.\n$/)
        })
      ),
    timeout
  )

  it.live(
    "runs against an existing service, leaves nothing behind, and exits with 0",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { out, url } = yield* startService({
            ...(yield* environment),
            COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
            COUNTERSIGN_EGRESS_HTTP: "true"
          })
          const key = keyIn(out) ?? assert.fail(out)
          const played = yield* Effect.flatMap(
            spawnCli(["demo", "--url", url], { COUNTERSIGN_ADMIN_KEY: key }),
            ({ ended }) => ended
          )
          assert.strictEqual(played.code, 0, played.err)
          assert.match(played.out, /x-svc-signature: t=\d+,v1=[0-9a-f]{64}/)
          assert.match(played.out, /verified: approval\.requested evt_/)
          assert.match(played.out, /verified: approval\.approved evt_/)
          assert.notInclude(played.out, "\u001b[", "no colours without a terminal")
          const left = yield* Effect.promise(async () => {
            await using client = connect({ url, key })
            const { endpoints } = await client.notificationEndpoints.list()
            const { keys } = await client.apiKeys.list()
            const { sessions } = await client.sessions.list()
            return {
              endpoints: endpoints.length,
              usable: keys.filter((one) => one.revoked_at === null).length,
              open: sessions.filter((one) => one.status === "open").length
            }
          })
          assert.deepStrictEqual(left, { endpoints: 0, usable: 1, open: 0 })
        })
      ),
    timeout
  )

  it.live(
    "reports the reason and exits with 1 if the service may not send to loopback",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { out, url } = yield* startService(yield* environment)
          const key = keyIn(out) ?? assert.fail(out)
          const { ended } = yield* spawnCli(["demo", "--url", url], { COUNTERSIGN_ADMIN_KEY: key })
          const { code, err } = yield* ended
          assert.strictEqual(code, 1)
          assert.match(err, /^countersign: the service refuses to send to .*COUNTERSIGN_EGRESS_ALLOW.*\n$/)
        })
      ),
    timeout
  )
})
