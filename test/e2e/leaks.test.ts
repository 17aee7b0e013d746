import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { SqlClient as Sql } from "effect/sql"
import { randomBytes } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { generateFrom } from "../../src/domain/ApiKeyFormat.ts"
import * as Database from "../../src/server/Database.ts"
import { formsOf, type Hunted, leaksIn, type Searched } from "../support/leaks.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

/** A server on loopback that keeps all that it is sent, and repeats what it was sent where it is asked for more than a status. */
const peer = (answer: (request: IncomingMessage, body: string, response: ServerResponse) => void) =>
  Effect.gen(function* () {
    const received: Array<string> = []
    const server = yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const made = createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            const body = Buffer.concat(chunks).toString("latin1")
            received.push([request.url, ...request.rawHeaders, body].join("\n"))
            answer(request, body, response)
          })
        })
        made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) =>
        Effect.sync(() => {
          made.close()
          made.closeAllConnections()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return { url: `http://127.0.0.1:${port}`, received }
  })

/** Every row of every table as text, with what is stored as bytes also read as text. */
const dump = Effect.gen(function* () {
  const sql: SqlClient.SqlClient = yield* Sql.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT format('%I', relname) AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  `
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    sql.unsafe<{ readonly row: string }>(`SELECT ${name}::text AS row FROM ${name}`)
  )
  const text = rows
    .flat()
    .map(({ row }) => row)
    .join("\n")
  const bytes = [...text.matchAll(/\\x([0-9a-f]{2,})/g)].map(([, hex]) =>
    Buffer.from(hex ?? "", "hex").toString("latin1")
  )
  return [text, ...bytes].join("\n")
})

const marker = (name: string) => `${name}${randomBytes(24).toString("hex")}`

it("a secret is found in every form that it may leak in", () => {
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

describe("what the service was told in confidence", () => {
  it.live(
    "is in no log, no row, no answer and no request but where it belongs, whatever fails",
    () =>
      Effect.gen(function* () {
        const databaseUrl = yield* cloneDatabase
        const receiver = yield* peer((request, body, response) => {
          // One that fails repeats what it was sent, as collectors and receivers do.
          if (request.url?.includes("broken") === true) {
            response.writeHead(500, "Broken", { "x-echo": String(request.headers["x-svc-signature"]) })
            return response.end(request.rawHeaders.join("\n") + body)
          }
          return response.writeHead(204).end()
        })
        const provider = yield* peer((request, _body, response) =>
          response
            .writeHead(401, { "content-type": "application/json" })
            .end(
              JSON.stringify({ error: { message: `Incorrect API key: ${request.headers.authorization}` } })
            )
        )
        const collector = yield* peer((request, _body, response) =>
          response.writeHead(401).end(`scheme or token does not match: ${request.headers.authorization}`)
        )

        const adminKey = generateFrom((size) => randomBytes(size)).key
        const hunted: Array<Hunted> = [
          { name: "master key", secret: randomBytes(32).toString("base64") },
          { name: "admin key", secret: Redacted.value(adminKey).slice(21) },
          { name: "metrics token", secret: marker("metrics") },
          { name: "mail password", secret: marker("smtp") },
          { name: "own collector's token", secret: marker("otel") },
          { name: "path of the receiver", secret: marker("path") },
          { name: "path of the broken receiver", secret: marker("lost") },
          { name: "provider key", secret: marker("model") },
          { name: "body of a failing request", secret: marker("body") },
          { name: "query of a failing request", secret: marker("query") },
          { name: "mistyped key", secret: marker("csk_typo") }
        ]
        const secretOf = (name: string) =>
          hunted.find((one) => one.name === name)?.secret ?? assert.fail(name)
        const service = yield* spawnCli(["serve", "--log-level", "all"], {
          PORT: "0",
          DATABASE_URL: Redacted.value(databaseUrl),
          COUNTERSIGN_MASTER_KEY: secretOf("master key"),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(adminKey),
          COUNTERSIGN_METRICS_TOKEN: secretOf("metrics token"),
          COUNTERSIGN_SMTP_URL: `smtp://user:${secretOf("mail password")}@127.0.0.1:1`,
          COUNTERSIGN_MAIL_FROM: "countersign@acme.example",
          COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
          COUNTERSIGN_EGRESS_HTTP: "true",
          COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8",
          COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,0",
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
          OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secretOf("own collector's token")}`
        })
        const url =
          /address +(http:\S+)/.exec(yield* service.prints(/is this store's first admin key/))?.[1] ?? ""

        const searched: Array<Searched> = []
        /** Asks, and keeps the whole answer to be searched; `but` names what it may show. */
        const ask = (
          method: string,
          path: string,
          body?: unknown,
          options: { readonly but?: ReadonlyArray<string>; readonly headers?: Record<string, string> } = {}
        ) =>
          Effect.promise(async () => {
            const answer = await fetch(url + path, {
              method,
              headers: {
                authorization: `Bearer ${Redacted.value(adminKey)}`,
                "content-type": "application/json",
                ...options.headers
              },
              ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
            })
            const text = await answer.text()
            const all = `${[...answer.headers].join("\n")}\n${text}`
            searched.push({
              place: `answer of ${method} ${path.split("?")[0]}`,
              text: all,
              but: options.but ?? []
            })
            let json: Record<string, unknown> = {}
            try {
              json = { ...JSON.parse(text) }
            } catch {
              // A text, a page, or nothing: searched all the same.
            }
            return { status: answer.status, json }
          })
        /** Hunts a secret from here on that an answer has shown for the one time. */
        const shown = (name: string, secret: unknown) => {
          if (typeof secret !== "string") return assert.fail(`There is no ${name}`)
          hunted.push({ name, secret })
          return secret
        }

        // Keys: made, made again by the same request, refused.
        const idempotent = { headers: { "idempotency-key": "one" }, but: ["made key"] }
        const newKey = { name: "agent", preset: "runtime", email: "ann@acme.example" }
        const made = yield* ask("POST", "/v1/api-keys", newKey, idempotent)
        shown("made key", String(made.json["secret"]).slice(21))
        assert.strictEqual((yield* ask("POST", "/v1/api-keys", newKey, idempotent)).status, 201)
        yield* ask("POST", "/v1/api-keys", { name: secretOf("body of a failing request"), scopes: ["x"] })
        yield* ask("GET", "/v1/api-keys")
        const mistyped = { headers: { authorization: `Bearer ${secretOf("mistyped key")}` } }
        assert.strictEqual((yield* ask("GET", "/v1/api-keys", undefined, mistyped)).status, 401)

        // Endpoints: made, turned over, delivered to, failing, refused.
        const endpoints = "/v1/notification-endpoints"
        for (const [name, path] of [
          ["receiver", `${receiver.url}/${secretOf("path of the receiver")}`],
          ["broken receiver", `${receiver.url}/broken/${secretOf("path of the broken receiver")}`]
        ] as const) {
          const secrets = [`secret of the ${name}`, `new secret of the ${name}`]
          const created = yield* ask("POST", endpoints, { url: path }, { but: secrets })
          shown(secrets[0] ?? "", created.json["secret"])
          const { endpoint } = created.json
          const id =
            typeof endpoint === "object" && endpoint !== null && "id" in endpoint ? String(endpoint.id) : ""
          yield* ask("PATCH", `${endpoints}/${id}`, { active: true })
          const rotated = yield* ask("POST", `${endpoints}/${id}/rotate-secret`, undefined, { but: secrets })
          shown(secrets[1] ?? "", rotated.json["secret"])
          const { json } = yield* ask("POST", `${endpoints}/${id}/test`)
          const wanted = name === "receiver" ? "delivered" : "failed"
          for (let status: unknown = "pending"; status !== wanted;) {
            status = (yield* ask("GET", `${endpoints}/${id}/deliveries/${String(json["id"])}`)).json["status"]
          }
          yield* ask("GET", `${endpoints}/${id}/deliveries`)
        }
        yield* ask("GET", endpoints)
        yield* ask("POST", endpoints, {
          url: `https://user:${secretOf("query of a failing request")}@acme.com/`
        })

        // A model provider that repeats its key.
        const task = yield* ask("POST", "/v1/tasks", {
          name: "refunds",
          input_schema: { type: "object" },
          answer_schema: { type: "object" },
          provider: {
            kind: "openai",
            base_url: `${provider.url}/v1`,
            model: "m",
            api_key: secretOf("provider key")
          }
        })
        assert.strictEqual(task.status, 201)
        const run = yield* ask("POST", `/v1/tasks/${String(task.json["id"])}/run`, { input: {} })
        assert.strictEqual(run.status, 502)
        yield* ask("GET", `/v1/tasks/${String(task.json["id"])}`)

        // An approval, so that mail is tried and events are sent.
        const session = yield* ask("POST", "/v1/agent-sessions", {})
        yield* ask("POST", `/v1/agent-sessions/${String(session.json["session_id"])}/steps`, {
          step_id: "1",
          tool: "pay",
          action_class: "write"
        })
        yield* ask("GET", "/v1/agent-approvals")
        yield* ask("GET", "/v1/audit-log")
        yield* ask("GET", "/metrics", undefined, {
          headers: { authorization: `Bearer ${secretOf("metrics token")}` }
        })
        yield* ask("GET", "/metrics")
        for (const path of ["/openapi.json", "/docs", "/console", "/readyz"]) yield* ask("GET", path)

        // A fault of ours, with a secret in all that the request brought; then a store that is gone.
        yield* Effect.gen(function* () {
          const sql = yield* Sql.SqlClient
          searched.push({ place: "the store", text: yield* dump })
          yield* sql.unsafe(`ALTER TABLE agent_sessions RENAME COLUMN metadata TO lost`)
        }).pipe(Effect.provide(Database.layer({ url: databaseUrl })))
        const failing = yield* ask(
          "POST",
          `/v1/agent-sessions?token=${secretOf("query of a failing request")}`,
          { metadata: { token: secretOf("body of a failing request") } },
          { headers: { cookie: `session=${secretOf("body of a failing request")}` } }
        )
        assert.strictEqual(failing.status, 500)

        yield* service.kill("SIGTERM")
        const { err, out } = yield* service.ended
        assert.include(err, "A request failed by a fault of ours")
        searched.push({ place: "stdout", text: out }, { place: "stderr", text: err })
        searched.push(
          ...receiver.received.map((text) => ({
            place: "what a receiver got",
            text,
            but: ["path of the receiver", "path of the broken receiver"]
          })),
          ...provider.received.map((text) => ({
            place: "what the provider got",
            text,
            but: ["provider key"]
          })),
          ...collector.received.map((text) => ({
            place: "what our own collector got",
            text,
            but: ["own collector's token"]
          }))
        )
        assert.isAbove(receiver.received.length, 2)
        assert.isAbove(provider.received.length, 0)
        assert.deepStrictEqual(leaksIn(hunted, searched), [])
      }),
    120_000
  )
})
