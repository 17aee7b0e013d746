import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { fileURLToPath } from "node:url"
import { generateApiKeyFrom } from "../../src/domain/identity/ApiKeyFormat.ts"
import * as Database from "../../src/server/store/Database.ts"
import * as flows from "../support/leaks/flows.ts"
import { formsOf, leaksIn } from "../support/leaks/forms.ts"
import { dump, Hunt, makeAsk, marker } from "../support/leaks/hunt.ts"
import { echoingCollector, echoingProvider, peer, receiver } from "../support/leaks/peers.ts"
import { mailServer } from "../support/mail.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

it("the leak hunter finds a secret in every encoding", () => {
  const secret = marker("needle")
  const texts = [
    secret,
    `x${secret}y`,
    encodeURIComponent(`?${secret}`),
    Buffer.from(secret).toString("hex"),
    ...[0, 1, 2, 3].map((offset) =>
      Buffer.from(`${"z".repeat(offset)}Bearer ${secret} more`).toString("base64")
    ),
    Buffer.from(`ab ${secret}`).toString("base64url"),
    [...secret].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join(""),
    secret.toUpperCase()
  ]
  for (const text of texts) assert.lengthOf(leaksIn([{ name: "n", secret }], [{ place: "p", text }]), 1, text)
  assert.lengthOf(leaksIn([{ name: "n", secret }], [{ place: "p", text: marker("needle") }]), 0)
  assert.isTrue(formsOf(secret).every((form) => form.length >= 20))
})

/** The database URL with a hunted password: a server with trust authentication accepts any. */
const withPassword = (hunt: Hunt, database: Redacted.Redacted): string => {
  const url = new URL(Redacted.value(database))
  if (url.password === "") url.password = hunt.secret("password of the database")
  else if (url.password.length >= 20) hunt.secret("password of the database", url.password)
  return url.href
}

/** The same URL at a closed port. */
const unreachable = (text: string): string => {
  const url = new URL(text)
  url.searchParams.delete("host")
  url.hostname = "127.0.0.1"
  url.port = "1"
  return url.href
}

/** Throws in the service's own process at SIGUSR2. */
const crashing = `--import=${new URL("../support/leaks/crash.ts", import.meta.url).href}`

describe("the service's secrets", () => {
  it.live(
    "appear in no log, row, response or request except where they belong, whatever fails",
    () =>
      Effect.gen(function* () {
        const hunt = new Hunt()
        const hooks = yield* receiver
        const models = yield* echoingProvider
        const spans = yield* echoingCollector
        const own = yield* peer((request, response) =>
          response.writeHead(401).end(`no: ${request.headers.authorization}`)
        )
        const password = hunt.secret("mail password")
        const mail = yield* mailServer({ login: { user: "countersign", password, refusals: 1 } })

        const database = yield* cloneDatabase
        const adminKey = generateApiKeyFrom((size) => randomBytes(size)).key
        hunt.secret("admin key", Redacted.value(adminKey).slice(21))
        const environment = {
          PORT: "0",
          NODE_OPTIONS: crashing,
          DATABASE_URL: withPassword(hunt, database),
          COUNTERSIGN_MASTER_KEY: hunt.secret("master key", randomBytes(32).toString("base64")),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(adminKey),
          COUNTERSIGN_METRICS_TOKEN: hunt.secret("metrics token"),
          COUNTERSIGN_SMTP_URL: `smtp://countersign:${password}@127.0.0.1:${mail.port}`,
          COUNTERSIGN_MAIL_FROM: "countersign@acme.example",
          COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
          COUNTERSIGN_EGRESS_HTTP: "true",
          COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8",
          COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,0",
          COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1",
          // Every request has a line, and nearly every request and statement is slow.
          COUNTERSIGN_LOG_REQUESTS: "true",
          COUNTERSIGN_SLOW_REQUEST_MILLIS: "1",
          COUNTERSIGN_SLOW_STATEMENT_MILLIS: "1",
          OTEL_EXPORTER_OTLP_ENDPOINT: own.url,
          OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${hunt.secret("own collector's token")}`
        }
        const service = yield* spawnCli(["serve", "--log-level", "all"], environment)
        const url =
          /address +(http:\S+)/.exec(
            yield* service.waitForStdout(/is the first admin key of this database/)
          )?.[1] ?? ""
        const ask = makeAsk(hunt, url, adminKey)
        const scene = { hunt, ask }

        const ann = yield* ask(
          "POST",
          "/v1/api-keys",
          { name: "Ann", preset: "reviewer", email: "ann@acme.example" },
          { but: ["Ann's key"] }
        ).pipe(
          Effect.tap(({ text }) => Effect.sync(() => hunt.secret("Ann's key", text("secret").slice(21))))
        )
        // The first attempt of its mail is rejected; the retry comes ten seconds later, at the end of this test.
        const approval = yield* flows.approval(scene)
        const madeKey = yield* flows.keys(scene)
        yield* flows.endpoints(scene, hooks)
        yield* flows.provider(scene, models)
        const destination = yield* flows.telemetry(scene, spans)
        const known = [
          "token of the collector",
          "second header of the collector",
          "new secret of the receiver",
          "secret of the broken receiver",
          "provider key that was renewed",
          "provider key of a candidate",
          "header of a provider"
        ]
        const input = yield* flows.feedback(scene, [...known.map((name) => hunt.of(name)), madeKey])
        yield* flows.batches(scene, destination, spans)
        yield* flows.consoleSession(scene, url, adminKey)
        yield* Effect.promise(() => mail.arrived(1))
        yield* ask("POST", `/v1/api-keys/${ann.text("key.id")}/verify-email`)
        yield* Effect.promise(() => mail.arrived(2))
        const [, token] = /verify-email\?token=(\S+)/.exec(mail.received[1]?.text ?? "") ?? []
        const link = `/verify-email?token=${hunt.secret("token of a verification link", token)}`
        assert.strictEqual((yield* ask("GET", link)).status, 200)
        const decided = yield* ask("POST", `/v1/agent-approvals/${approval}/decide`, { decision: "approve" })
        assert.strictEqual(decided.status, 200)
        yield* ask("GET", "/v1/audit-log")
        const metrics = { authorization: `Bearer ${hunt.of("metrics token")}` }
        yield* ask("GET", "/metrics", undefined, { headers: metrics })
        for (const path of ["/metrics", "/openapi.json", "/docs", "/console", "/readyz"])
          yield* ask("GET", path)

        // A defect of the service, with a secret in every part of the request.
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          hunt.search("the database", yield* dump, input)
          assert.strictEqual((yield* ask("POST", link)).status, 200)
          yield* sql.unsafe(`ALTER TABLE agent_sessions RENAME COLUMN metadata TO lost`)
        }).pipe(Effect.provide(Database.layer({ url: database })))
        const inBody = hunt.secret("body of a failing request")
        const withCookie = { headers: { cookie: `session=${hunt.secret("cookie of a failing request")}` } }
        const failing = yield* ask("POST", "/v1/agent-sessions", { metadata: { token: inBody } }, withCookie)
        assert.strictEqual(failing.status, 500)
        const query = `text=${hunt.secret("query of a failing request")}`
        assert.strictEqual((yield* ask("GET", `/v1/agent-sessions?${query}`)).status, 500)
        yield* own.receives("resourceSpans")

        // An uncaught error in the process.
        yield* service.kill("SIGUSR2")
        const crashed = yield* service.ended
        assert.strictEqual(crashed.code, 1)
        assert.include(crashed.err, "Unhandled error while serving a request")
        assert.include(crashed.err, "Slow statement: ")
        assert.match(crashed.err, /"route":"\/verify-email"/)
        assert.include(crashed.err, "uncaught error; exiting")
        assert.include(crashed.err, fileURLToPath(new URL("../support/leaks/crash.ts", import.meta.url)))
        hunt.search("stdout", crashed.out)
        hunt.search("stderr", crashed.err)

        // A graceful shutdown, a failed start, and the command line's output of the configuration.
        const again = yield* spawnCli(["serve", "--log-level", "all"], environment)
        yield* again.waitForStdout(/is ready/)
        yield* again.kill("SIGTERM")
        const spoilt = Object.entries(environment).map(([name, value]) => [name, `${value}\u00e9 ,`])
        for (const [command, variables] of [
          ["config --json", {}],
          ["doctor --json", {}],
          ["config", { ...Object.fromEntries(spoilt), NODE_OPTIONS: "" }],
          ["serve", { DATABASE_URL: unreachable(environment.DATABASE_URL) }]
        ] as const) {
          const process = yield* spawnCli(command.split(" "), { ...environment, ...variables })
          const { err, out } = yield* process.ended
          hunt.search(`countersign ${command}`, out + err)
        }
        const { code, err, out } = yield* again.ended
        assert.strictEqual(code, 0)
        hunt.search("stdout of an orderly run", out)
        hunt.search("stderr of an orderly run", err)

        const sent = (place: string, received: ReadonlyArray<string>, ...but: ReadonlyArray<string>) => {
          assert.isAbove(received.length, 0, place)
          for (const text of received) hunt.search(place, text, ...but)
        }
        sent("what a receiver got", hooks.received, "path of the receiver", "path of the broken receiver")
        const keys = ["provider key", "provider key that was renewed", "provider key of a candidate"]
        sent("what the provider got", models.received, ...keys, "header of a provider")
        const headers = ["token of the collector", "second header of the collector", "path of the collector"]
        sent("what the collector got", spans.received, ...headers)
        sent("what our own collector got", own.received, "own collector's token")
        sent(
          "what mail said",
          mail.received.map(({ html, raw, text }) => [raw, html, text].join("\n")),
          "token of a verification link"
        )
        assert.deepStrictEqual(hunt.leaks, [])
      }),
    180_000
  )
})
