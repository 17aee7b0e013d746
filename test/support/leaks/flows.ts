/**
 * Scenarios in which users handle secrets, correctly and incorrectly. Each sends requests, waits for their effects, and
 * hands every text it saw to the search.
 */
import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { generateApiKeyFrom } from "../../../src/domain/identity/ApiKeyFormat.ts"
import { eventually } from "../eventually.ts"
import type { Ask, Asked, Hunt } from "./hunt.ts"
import type { Peer } from "./peers.ts"

/** The arguments of a scenario. */
export interface Scene {
  readonly hunt: Hunt
  readonly ask: Ask
}

const is = (status: number) => (answer: Asked) =>
  Effect.sync(() => assert.strictEqual(answer.status, status, JSON.stringify(answer.json)))

/** Polls until a delivery has the given status. */
const delivered = ({ ask }: Scene, path: string, status: string) =>
  eventually(ask("GET", path), ({ json }) => JSON.stringify(json).includes(`"status":"${status}"`))

/** API keys: created, created again with the same idempotency key, rejected, mistyped. */
export const keys = Effect.fnUntraced(function* ({ ask, hunt }: Scene) {
  const idempotent = { headers: { "idempotency-key": "one" }, but: ["made key"] }
  const body = { name: "agent", preset: "runtime", email: "ann@acme.example" }
  const made = yield* Effect.tap(ask("POST", "/v1/api-keys", body, idempotent), is(201))
  hunt.secret("made key", made.text("secret").slice(21))
  yield* Effect.tap(ask("POST", "/v1/api-keys", body, idempotent), is(201))
  yield* ask("POST", "/v1/api-keys", { name: hunt.secret("name of a refused key"), scopes: ["x"] })
  yield* ask("GET", `/v1/api-keys?limit=9&token=${hunt.secret("query")}`, undefined, {
    headers: { cookie: `session=${hunt.secret("foreign cookie")}`, "x-api-key": hunt.secret("header") }
  })
  const headers = {
    authorization: `Bearer ${hunt.secret("mistyped key", `csk_${randomBytes(24).toString("hex")}`)}`
  }
  yield* Effect.tap(ask("GET", "/v1/api-keys", undefined, { headers }), is(401))
  return made.text("secret")
})

/** Webhook endpoints: created, rotated, delivered to, failing, rejected. */
export const endpoints = Effect.fnUntraced(function* (scene: Scene, to: Peer) {
  const { ask, hunt } = scene
  const path = "/v1/notification-endpoints"
  for (const [name, begins, ends] of [
    ["receiver", "", "delivered"],
    ["broken receiver", "/broken", "failed"]
  ] as const) {
    const url = `${to.url}${begins}/${hunt.secret(`path of the ${name}`)}`
    const but = [`secret of the ${name}`]
    const created = yield* Effect.tap(ask("POST", path, { url }, { but }), is(201))
    hunt.secret(`secret of the ${name}`, created.text("secret"))
    const endpoint = `${path}/${created.text("endpoint.id")}`
    yield* ask("PATCH", endpoint, { active: true })
    const rotated = yield* ask("POST", `${endpoint}/rotate-secret`, undefined, {
      but: [`new secret of the ${name}`]
    })
    hunt.secret(`new secret of the ${name}`, rotated.text("secret"))
    const { text } = yield* ask("POST", `${endpoint}/test`)
    yield* delivered(scene, `${endpoint}/deliveries/${text("id")}`, ends)
    yield* ask("GET", `${endpoint}/deliveries`)
    yield* ask("POST", `${endpoint}/deliveries/${text("id")}/replay`)
  }
  yield* ask("GET", path)
  const credentials = hunt.secret("credentials in a URL")
  yield* Effect.tap(ask("POST", path, { url: `https://user:${credentials}@acme.com/` }), is(400))
  const nowhere = hunt.secret("path that was refused")
  yield* Effect.tap(ask("POST", path, { url: `https://nowhere.invalid/${nowhere}` }), is(400))
})

/** A collector whose responses contain the token: it rejects everything, then accepts everything. */
export const telemetry = Effect.fnUntraced(function* (
  scene: Scene,
  to: Peer & { readonly accept: Effect.Effect<void> }
) {
  const { ask, hunt } = scene
  const path = "/v1/telemetry-destinations"
  const token = hunt.secret("token of the collector")
  const created = yield* Effect.tap(
    ask("POST", path, {
      url: `${to.url}/${hunt.secret("path of the collector")}`,
      headers: { authorization: `Bearer ${token}`, "x-team": hunt.secret("second header of the collector") },
      content: true
    }),
    is(201)
  )
  const destination = `${path}/${created.text("id")}`
  yield* Effect.tap(ask("POST", `${destination}/test`), is(502))
  yield* ask("POST", "/v1/agent-sessions", {})
  const again = { url: `${to.url}/x`, headers: { "x-a": hunt.secret("header of a second collector") } }
  yield* Effect.tap(ask("POST", path, again), is(409))
  const line = hunt.secret("header that was refused")
  for (const headers of [{ cookie: line }, { "x-a": `${line}\nx` }, { [`x-a: ${line}`]: "b" }]) {
    yield* Effect.tap(ask("POST", path, { url: to.url, headers }), is(400))
  }
  yield* ask("GET", path)
  return destination
})

/** Batches that failed, are replayed, and are accepted. */
export const batches = Effect.fnUntraced(function* (
  scene: Scene,
  destination: string,
  to: { readonly accept: Effect.Effect<void> }
) {
  const list = `${destination}/deliveries`
  const { json } = yield* delivered(scene, list, "failed")
  yield* to.accept
  const [, id] = /"id":"(tdl_[0-9a-f]{32})"/.exec(JSON.stringify(json)) ?? []
  yield* Effect.tap(scene.ask("POST", `${list}/${id}/replay`), is(200))
  yield* delivered(scene, list, "delivered")
  yield* scene.ask("GET", "/v1/telemetry-destinations")
})

/** A provider whose responses contain the key; keys that are rejected. */
export const provider = Effect.fnUntraced(function* ({ ask, hunt }: Scene, to: Peer) {
  const schemas = { input_schema: { type: "object" }, answer_schema: { type: "object" } }
  const openai = { kind: "openai", base_url: `${to.url}/v1`, model: "m" }
  const api_key = hunt.secret("provider key")
  const task = yield* Effect.tap(
    ask("POST", "/v1/tasks", {
      name: "refunds",
      ...schemas,
      provider: { ...openai, api_key, headers: { "x-gateway": hunt.secret("header of a provider") } }
    }),
    is(201)
  )
  const path = `/v1/tasks/${task.text("id")}`
  yield* Effect.tap(ask("POST", `${path}/run`, { input: {} }), is(502))
  const changed = hunt.secret("provider key that was renewed")
  yield* Effect.tap(ask("PATCH", path, { provider: { ...openai, api_key: changed } }), is(200))
  yield* Effect.tap(ask("POST", `${path}/run`, { input: {} }), is(502))
  const wrong = `${hunt.secret("provider key that was refused")} \u00e9`
  yield* Effect.tap(ask("PATCH", path, { provider: { ...openai, api_key: wrong } }), is(400))
  yield* ask("GET", path)
  yield* ask("GET", `${path}/releases`)
  // A comparison in the background: both sides fail, and the candidate has its own key for another address.
  const examples = [{ input: {}, answer: {} }]
  yield* Effect.tap(ask("POST", `${path}/datasets`, { examples }), is(201))
  const candidate = {
    provider: { ...openai, base_url: `${to.url}/v2`, api_key: hunt.secret("provider key of a candidate") }
  }
  const compared = yield* Effect.tap(ask("POST", `${path}/comparisons`, { candidate }), is(202))
  const comparison = ask("GET", `/v1/comparisons/${compared.text("comparison.id")}`)
  const done = yield* eventually(comparison, ({ text }) => text("comparison.status") === "completed")
  assert.include(JSON.stringify(done.json), '"failed":1')
  // The candidate has no answer, because its provider fails.
  const release = {
    comparison_id: compared.text("comparison.id"),
    force: true,
    reason: "to see what is stored"
  }
  yield* Effect.tap(ask("POST", `${path}/releases`, release), is(201))
})

/** The name of a secret in a run's input. It may appear where the run itself is shown. */
const INPUT = "key in a run's input"

/** Corrections with every secret of the organization, in every encoding; and an exported run whose input contains one. */
export const feedback = Effect.fnUntraced(function* (scene: Scene, secrets: ReadonlyArray<string>) {
  const { ask, hunt } = scene
  const task = yield* Effect.tap(
    ask("POST", "/v1/tasks", {
      name: "notes",
      input_schema: { type: "object" },
      answer_schema: {
        type: "object",
        required: ["note"],
        properties: {
          note: { type: "string" },
          code: { type: "string", maxLength: 80, pattern: "^[a-z0-9_]+$" }
        }
      }
    }),
    is(201)
  )
  const path = `/v1/tasks/${task.text("id")}`
  const foreign = Redacted.value(generateApiKeyFrom((size) => randomBytes(size)).key)
  hunt.secret(INPUT, foreign.slice(21))
  const run = yield* Effect.tap(
    ask("POST", `${path}/run`, { input: { text: `the key ${foreign}` }, answer: { note: "a" } }),
    is(200)
  )
  const inference_log_id = run.text("trace_id")
  const forms = secrets.flatMap((secret) => [
    `it says ${secret}, so`,
    `Authorization: Bearer ${secret}`,
    Buffer.from(`user:${secret}`).toString("base64"),
    encodeURIComponent(`?a=${secret}`),
    `${secret.slice(0, 30)}\n${secret.slice(30)}`
  ])
  const give = (correction: unknown) =>
    ask("POST", "/v1/feedback", { inference_log_id, score: -1, correction })
  const kept = yield* Effect.tap(give({ note: forms.join("\n\n") }), is(201))
  assert.include(kept.text("redaction_warning"), "#/correction/note")
  yield* Effect.tap(give({ note: "a", code: secrets[0] }), is(422))
  yield* Effect.tap(give({ note: 1, code: `${secrets[0]} !` }), is(422))
  const seen = { but: [INPUT] }
  const record = `/v1/feedback/${kept.text("id")}`
  yield* ask("GET", record, undefined, seen)
  yield* ask("GET", "/v1/feedback")
  yield* Effect.tap(ask("POST", `${record}/stage`), is(200))
  const preview = yield* ask("GET", `${path}/feedback/preview`, undefined, seen)
  const dataset = yield* Effect.tap(
    ask(
      "POST",
      `${path}/feedback/promote`,
      { base_dataset_id: null, expected_feedback_revision: preview.text("feedback_revision") },
      seen
    ),
    is(201)
  )
  for (const part of ["examples", "export"]) {
    yield* Effect.tap(
      ask("GET", `/v1/datasets/${dataset.text("dataset.id")}/${part}`, undefined, seen),
      is(200)
    )
  }
  return INPUT
})

/** An approval, so that mail and events are sent, and the lists that show it. */
export const approval = Effect.fnUntraced(function* ({ ask }: Scene) {
  const rule = { effect: "require_approval", self_approval: true }
  yield* Effect.tap(ask("PUT", "/v1/approval-rules", { rules: [rule] }), is(200))
  const session = yield* ask("POST", "/v1/agent-sessions", {})
  const path = `/v1/agent-sessions/${session.text("session_id")}`
  const step = yield* ask("POST", `${path}/steps`, { step_id: "1", tool: "pay", action_class: "write" })
  yield* ask("GET", "/v1/agent-approvals")
  return step.text("approval_id")
})

/** Console sign-in with a wrong and a right key, and the pages behind it. */
export const consoleSession = Effect.fnUntraced(function* (
  { ask, hunt }: Scene,
  url: string,
  key: Redacted.Redacted
) {
  const own = { origin: url.replace("http:", "https:"), "sec-fetch-site": "same-origin" }
  const typo = {
    key: hunt.secret("rejected sign-in key", `csk_${randomBytes(24).toString("hex")}`)
  }
  yield* Effect.tap(ask("POST", "/console/session", typo, { headers: own }), is(401))
  const signIn = (name: string) =>
    ask("POST", "/console/session", { key: Redacted.value(key) }, { headers: own, but: [name] }).pipe(
      Effect.tap(is(200)),
      Effect.map((answer) => {
        const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""
        hunt.secret(name, cookie.split(".")[1])
        return cookie
      })
    )
  // One session stays signed in while the database is searched, one signs out.
  yield* signIn("cookie that stays")
  const cookie = yield* signIn("cookie")
  const headers = { ...own, cookie, authorization: "" }
  for (const path of [
    "/console/session",
    "/console/inbox",
    "/console/api/v1/audit-log",
    "/console/api/v1/api-keys"
  ]) {
    yield* Effect.tap(ask("GET", path, undefined, { headers }), is(200))
  }
  yield* ask("DELETE", "/console/session", undefined, { headers })
  yield* Effect.tap(ask("GET", "/console/inbox", undefined, { headers }), is(401))
  const cross = { ...headers, origin: "https://evil.example", "sec-fetch-site": "cross-site" }
  yield* Effect.tap(ask("POST", "/console/api/v1/agent-sessions", {}, { headers: cross }), is(403))
})
