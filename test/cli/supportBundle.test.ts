import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { randomBytes } from "node:crypto"
import { makeScrub } from "../../src/cli/supportBundle/scrub.ts"
import { SHOWN_SETTINGS } from "../../src/cli/supportBundle/shownSettings.ts"
import type { Environment } from "../../src/server/config/Settings.ts"
import { variables as allVariables } from "../../src/server/config/Settings/variables.ts"
import { Countersign } from "../../src/testing/index.ts"
import { cliWithCode } from "../support/cli.ts"
import { Hunt } from "../support/leaks/hunt.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { entryPoint } from "../support/process.ts"
import { send } from "../support/service.ts"

/** A directory for one test. */
const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "bundle-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** Runs the command and unpacks the bundle with the system's tar. */
const bundle = Effect.fnUntraced(function* (variables: Environment, ...args: ReadonlyArray<string>) {
  const directory = yield* temporary
  const file = path.join(directory, "bundle.tar.gz")
  const { code, err, out } = yield* cliWithCode(["support-bundle", "--output", file, ...args], variables)
  assert.strictEqual(code, 0, err)
  assert.strictEqual(out, file)
  assert.strictEqual(statSync(file).mode & 0o777, 0o600)
  execFileSync("tar", ["-xzf", file, "-C", directory])
  const names = readdirSync(directory).filter((name) => name !== "bundle.tar.gz")
  const text = (name: string) => readFileSync(path.join(directory, name), "utf8")
  return { directory, err, file, names, text }
})

describe("countersign support-bundle", () => {
  it.live(
    "contains no secret, no data of an organization, no email address and no URL with credentials",
    () =>
      Effect.gen(function* () {
        const hunt = new Hunt()
        const url = yield* cloneDatabase
        const masterKey = randomBytes(32).toString("base64")
        const older = randomBytes(32).toString("base64")
        hunt.secret("master key", masterKey)
        hunt.secret("older master key", older)
        const secret = (name: string) => hunt.secret(name)
        const metricsToken = secret("metrics token")
        const log = path.join(yield* temporary, "service.log")

        yield* Effect.gen(function* () {
          const service = yield* Countersign
          const key = yield* service.key()
          hunt.secret("API key", Redacted.value(key))
          const post = (to: string, body: unknown) =>
            Effect.tap(
              send(to, { method: "POST", key, body: JSON.stringify(body) }),
              ({ body: answer, status }) =>
                Effect.sync(() => assert.isBelow(status, 300, JSON.stringify(answer)))
            )
          const endpoint = yield* post("/v1/notification-endpoints", {
            url: `http://127.0.0.1:9/${secret("endpoint URL")}`,
            description: secret("endpoint description")
          })
          hunt.secret("webhook secret", endpoint.body["secret"])
          yield* post("/v1/api-keys", {
            name: `key ${secret("key name")}`,
            scopes: ["sessions.read"],
            email: `${secret("email")}@acme.example`
          })
          const session = yield* post("/v1/agent-sessions", {
            metadata: { note: secret("session metadata") }
          })
          yield* post(`/v1/agent-sessions/${String(session.body["session_id"])}/steps`, {
            step_id: secret("step id"),
            tool: secret("tool"),
            action_class: "other",
            arguments: { note: secret("arguments") }
          })

          writeFileSync(
            log,
            [
              `countersign: uncaught error ${secret("plain line")}`,
              JSON.stringify({
                timestamp: "2026-11-23T00:00:00.000Z",
                level: "ERROR",
                message: `failed for ann.${secret("email in a message")}@acme.example at https://u:${secret("URL in a message")}@acme.example/ with ${Redacted.value(key)}`,
                cause: `TypeError: cannot parse ${secret("error message")}\n    at parse (file.ts:1:1)`,
                annotations: {
                  org_id: secret("organization id"),
                  address: secret("address"),
                  request_id: "req_1",
                  route: "/v1/agent-sessions",
                  status: 500
                }
              }),
              JSON.stringify({ message: `token ${metricsToken}`, extra: secret("unknown field") })
            ].join("\n")
          )

          const variables = {
            DATABASE_URL: Redacted.value(url),
            COUNTERSIGN_MASTER_KEY: `${masterKey},${older}`,
            COUNTERSIGN_METRICS_TOKEN: metricsToken,
            PORT: new URL(service.url).port,
            COUNTERSIGN_SMTP_URL: `smtp://${secret("SMTP user")}:${secret("SMTP password")}@127.0.0.1:9`,
            COUNTERSIGN_MAIL_FROM: `${secret("mail sender")}@acme.example`,
            COUNTERSIGN_PUBLIC_URL: `https://${secret("public host").slice(0, 40)}.example`,
            OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:9/${secret("collector path")}`,
            OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secret("collector token")}`,
            OTEL_RESOURCE_ATTRIBUTES: `team=${secret("resource attribute")}`,
            COUNTERSIGN_LOG_LEVEL: "debug"
          }
          const { err, names, text } = yield* bundle(variables, "--log", log)
          assert.includeMembers(names, [
            "README.txt",
            "doctor.json",
            "settings.json",
            "versions.json",
            "postgres.json",
            "tables.json",
            "migrations.json",
            "queue.json",
            "metrics.txt",
            "service.log"
          ])
          for (const name of names) hunt.search(name, text(name))
          hunt.search("the output", err)
          assert.deepStrictEqual(hunt.leaks, [])
          for (const name of names) {
            assert.notMatch(text(name), /[\w.]+@[\w-]+\.\w/, name)
            assert.notMatch(text(name), /\b(?:org|key|ses|apr|tsk)_[0-9a-f]{32}/, name)
          }
          const password =
            new URL(Redacted.value(url)).password || new URL(Redacted.value(url)).searchParams.get("password")
          if (password !== null && password !== "")
            for (const name of names) assert.notInclude(text(name), password)

          // What helps is there.
          for (const name of names.filter((one) => one.endsWith(".json"))) JSON.parse(text(name))
          assert.include(text("settings.json"), '"value": "debug"')
          assert.include(text("tables.json"), '"table": "governed_steps"')
          assert.include(text("migrations.json"), '"0001_')
          assert.include(text("postgres.json"), '"max_connections"')
          assert.include(text("doctor.json"), '"name": "migrations"')
          assert.match(
            text("metrics.txt"),
            /^countersign_http_requests_total\{.*operation="sessions\.create"/m
          )
          const [line] = text("service.log").split("\n")
          assert.include(line ?? "", '"route":"/v1/agent-sessions"')
          assert.include(line ?? "", "TypeError\\n    at parse (file.ts:1:1)")
          assert.include(text("service.log"), "(1 line that is not JSON was left out)")
        }).pipe(
          Effect.provide(
            Countersign.layer({
              databaseUrl: url,
              environment: {
                COUNTERSIGN_MASTER_KEY: `${masterKey},${older}`,
                COUNTERSIGN_METRICS_TOKEN: metricsToken
              }
            }),
            { local: true }
          )
        )
      }).pipe(Effect.scoped)
  )

  it.live("is written with invalid settings and without a database too, and quotes no invalid setting", () =>
    Effect.gen(function* () {
      const { names, text } = yield* bundle({
        PORT: "s3cret-pasted-here",
        DATABASE_URL: "postgres://u:hunter2@db/x"
      })
      assert.sameMembers(names, ["README.txt", "doctor.json", "settings.json", "versions.json"])
      for (const name of names) {
        assert.notInclude(text(name), "s3cret")
        assert.notInclude(text(name), "hunter2")
      }
      assert.match(text("settings.json"), /"variable": "PORT",\s+"state": "invalid",\s+"value": null/)
    }).pipe(Effect.scoped)
  )

  it.live(
    "has the log of PostgreSQL with invalid settings too, and no secret that the service generated",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* temporary
        const masterKey = randomBytes(32).toString("base64")
        const password = randomBytes(24).toString("base64url")
        writeFileSync(path.join(dataDir, "master-key"), `${masterKey}\n`, { mode: 0o600 })
        mkdirSync(path.join(dataDir, "postgres"))
        writeFileSync(path.join(dataDir, "postgres", "countersign-password"), password)
        writeFileSync(path.join(dataDir, "postgres.log"), `LOG: starting with ${password}\n`)
        const log = path.join(dataDir, "service.log")
        writeFileSync(
          log,
          `${JSON.stringify({ message: "failed", annotations: { reason: `key ${masterKey}` } })}\n`
        )
        for (const port of ["0", "invalid"]) {
          const { names, text } = yield* bundle({ COUNTERSIGN_DATA_DIR: dataDir, PORT: port }, "--log", log)
          assert.include(text("postgres.log"), "LOG: starting with [REDACTED]")
          assert.include(text("service.log"), "key [REDACTED]")
          for (const name of names) {
            assert.notInclude(text(name), masterKey)
            assert.notInclude(text(name), password)
          }
        }
      }).pipe(Effect.scoped)
  )

  it.live("does not replace a file, and names a log that cannot be read", () =>
    Effect.gen(function* () {
      const { file } = yield* bundle({})
      const again = yield* cliWithCode(["support-bundle", "--output", file])
      assert.strictEqual(again.code, 1)
      assert.include(again.err, "exists: name another file with --output")
      const missing = yield* cliWithCode([
        "support-bundle",
        "--output",
        `${file}.2`,
        "--log",
        "/nowhere/x.log"
      ])
      assert.include(missing.err, "--log: /nowhere/x.log does not exist: check the path.")
    }).pipe(Effect.scoped)
  )

  it.live("is written to standard output, with the end of a log from standard input", () =>
    Effect.gen(function* () {
      const directory = yield* temporary
      const line = (number: number) => `${JSON.stringify({ message: `line ${number}`, level: "INFO" })}\n`
      // More than the MiB that is kept.
      const log = Array.from({ length: 60_000 }, (_, index) => line(index)).join("")
      const { archive, err } = yield* Effect.promise(
        () =>
          new Promise<{ archive: Buffer; err: string }>((done, fail) => {
            const child = execFile(
              process.execPath,
              [entryPoint(), "support-bundle", "--output", "-", "--log", "-"],
              { encoding: "buffer", env: { PATH: process.env["PATH"] }, cwd: directory },
              (error, stdout, stderr) =>
                error === null ? done({ archive: stdout, err: stderr.toString() }) : fail(error)
            )
            // A process that ends early closes its input.
            child.stdin?.on("error", () => undefined).end(log)
          })
      )
      assert.deepStrictEqual(readdirSync(directory), [])
      assert.match(err, /^Wrote \d+ files \(README\.txt, .*service\.log\)/m)
      execFileSync("tar", ["-xzf", "-", "-C", directory], { input: archive })
      const lines = readFileSync(path.join(directory, "service.log"), "utf8").trimEnd().split("\n")
      assert.strictEqual(lines.at(-1), `{"level":"INFO","message":"line 59999","annotations":{}}`)
      // Only whole lines: none was left out for not being JSON.
      assert.notInclude(lines.join("\n"), "left out")
      const kept = lines.length * line(59_999).length
      assert.isAbove(kept, 1024 * 1024 - 100)
      assert.isAtMost(kept, 1024 * 1024)
    }).pipe(Effect.scoped)
  )

  it.live("is not written to a terminal", () =>
    Effect.gen(function* () {
      const own = Object.getOwnPropertyDescriptor(process.stdout, "isTTY")
      Object.defineProperty(process.stdout, "isTTY", { value: true, configurable: true })
      const outcome = yield* Effect.ensuring(
        cliWithCode(["support-bundle", "--output", "-"]),
        Effect.sync(() => {
          if (own === undefined) Reflect.deleteProperty(process.stdout, "isTTY")
          else Object.defineProperty(process.stdout, "isTTY", own)
        })
      )
      assert.strictEqual(outcome.code, 1)
      assert.include(outcome.err, "redirect it, as in --output - > bundle.tar.gz")
    })
  )

  it("removes the password of a URL as it is written and as it is decoded", () => {
    const scrub = makeScrub({ DATABASE_URL: "postgres://countersign:p%40ss%2Fw0rd@db.internal/countersign" })
    for (const password of ["p%40ss%2Fw0rd", "p@ss/w0rd"]) {
      assert.notInclude(scrub(`login with ${password} failed`), password)
    }
  })

  it("shows only values of settings that are numbers or words of a list", () => {
    for (const name of SHOWN_SETTINGS) {
      const { read, secret } = allVariables[name]
      assert.isFalse(secret, name)
      for (const text of [
        "s3cret",
        "ann@acme.example",
        "https://u:p@acme.example",
        "/srv/data",
        "10.0.0.0/8"
      ]) {
        assert.strictEqual(read(text)._tag, "Failure", `${name} accepts ${text}`)
      }
    }
  })
})
