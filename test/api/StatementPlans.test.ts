import { assert, describe, it } from "@effect/vitest"
import type { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { writeFile } from "node:fs/promises"
import path from "node:path"
import { createCluster, findPrograms, makeServer } from "../../scripts/chaos/faults/postgresServer.ts"
import { temporaryDirectory } from "../../scripts/chaos/faults/temporaryDirectory.ts"
import { Api } from "../../src/api/Api.ts"
import { ConsoleApi } from "../../src/api/Console.ts"
import { OrgId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { consoleHeaders } from "../support/consoleCookie.ts"
import { eventually } from "../support/eventually.ts"
import { fewestRows, growingTables, idOfCopy, multiplyRows } from "../support/plans/multiplyRows.ts"
import {
  type ExecutedStatement,
  type PlanNode,
  planSettings,
  type PlanProxy,
  startPlanProxy
} from "../support/plans/startPlanProxy.ts"
import { operations, type Request, targetOf } from "../support/seedOneOfEach/operations.ts"
import { requestOf, requests } from "../support/seedOneOfEach/requests.ts"
import {
  type SeededOrganization,
  seedEnvironment,
  seedOneOfEach
} from "../support/seedOneOfEach/seedOneOfEach.ts"

/**
 * Rows of each table that grows. `npm run verify` makes a million, and asks with every value of every parameter, also by generic plans. With
 * fewer, the planner's statistics stand for a million.
 */
const { COUNTERSIGN_PLAN_ROWS } = process.env
const isThorough = COUNTERSIGN_PLAN_ROWS !== undefined
const ROWS = Number(COUNTERSIGN_PLAN_ROWS ?? 10_000)
const PLANNED_ROWS = 1_000_000

/** Rows of a growing table that one node of a plan may read, with those that its filter removes. */
const MAX_READ = 2_100

/** Statements that may read more, by a text that they contain: the limit that bounds each, whatever the size of the table. */
const larger: ReadonlyArray<{ readonly text: string; readonly rows: number; readonly limit: string }> = [
  { text: "AS row_text", rows: 5_000, limit: "MAX_EXAMINED_ROWS of a search" },
  { text: "AS new_ids FROM scanned", rows: 4_000, limit: "SCANNED_RECORDS of the index of the search" },
  { text: "SELECT approval_id, decided_at, tool", rows: 10_000, limit: "MAX_EXAMINED_APPROVALS" },
  { text: "WITH endpoints AS MATERIALIZED", rows: 50_000, limit: "MAX_EXAMINED_DELIVERIES" },
  {
    text: "AS failed, count(*)::int AS examined",
    rows: PLANNED_ROWS,
    limit: "MAX_EXAMINED_DELIVERIES, and those within MAX_CLOCK_SKEW around the period"
  },
  {
    text: "SELECT count(*)::int AS count FROM deliveries WHERE",
    rows: PLANNED_ROWS,
    limit: "the window of a replay, whose deliveries are counted exactly"
  },
  { text: "date_trunc('hour', started_at)", rows: 50_000, limit: "MAX_ATTEMPTS of an endpoint's health" },
  { text: "counted.steps FROM unnest", rows: 20_000, limit: "MAX_COUNTED_STEPS of each pair of decisions" },
  { text: "AND status = 'staged'", rows: 10_000, limit: "MAX_STAGED" },
  { text: "JOIN unnest($1) AS digest", rows: 10_000, limit: "MAX_STAGED" },
  { text: "UPDATE feedback SET status = $1, dataset_id", rows: 10_000, limit: "MAX_STAGED" },
  { text: "SELECT count(*)::int AS counters", rows: 100_000, limit: "MAX_COUNTERS of an organization" },
  { text: "AS matches FROM", rows: 10_000, limit: "SCANNED_ROWS of a deletion" },
  { text: "SELECT delivery_id FROM deliveries WHERE", rows: 10_000, limit: "MAX_REPLAYED" },
  { text: "WITH reset AS ( UPDATE deliveries", rows: 10_000, limit: "MAX_REPLAYED" },
  {
    text: "WITH locked AS MATERIALIZED ( SELECT shard, seq FROM delivery_queue",
    rows: 10_100,
    limit: "NOTIFY_QUEUE_LIMIT of an endpoint"
  },
  { text: "DELETE FROM telemetry_batches", rows: 10_100, limit: "TELEMETRY_QUEUE_LIMIT of an organization" }
]

/** The database of the service, with the settings and statistics of a large one. */
interface GrownService {
  readonly admin: PgConnection.PgConnection
  readonly proxy: PlanProxy
}

const startDatabase = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const server = yield* makeServer(yield* findPrograms(directory), path.join(directory, "grown"))
  yield* createCluster(yield* findPrograms(directory), server.directory)
  yield* server.start({
    ...planSettings,
    fsync: "off",
    full_page_writes: "off",
    wal_level: "minimal",
    max_wal_senders: "0",
    max_wal_size: "4GB",
    shared_buffers: "128MB",
    // Its plans would be those of a table without statistics.
    autovacuum: "off"
  })
  const url = new URL("postgres:///countersign?user=countersign")
  url.searchParams.set("host", server.directory)
  const service: GrownService = {
    admin: yield* server.session,
    proxy: yield* startPlanProxy(Redacted.make(url.href))
  }
  return service
})

/** A request, by an API key or by a session of the console. */
interface SentRequest {
  readonly name: string
  readonly method: string
  readonly target: string
  readonly body?: unknown
  readonly isOfConsole: boolean
}

/**
 * How much of a response is read, and for how long: an export of a million rows takes a minute, also if nothing matches, and each page of it
 * executes the same statements.
 */
const MAX_RESPONSE_CHARACTERS = 50_000
const MAX_RESPONSE_MILLIS = 3_000

/** The headers of both kinds of request. */
const headersOf = Effect.fnUntraced(function* (key: Redacted.Redacted) {
  const ofConsole = yield* consoleHeaders(key)
  const ofKey = { authorization: `Bearer ${Redacted.value(key)}` }
  return ({ isOfConsole }: SentRequest) => (isOfConsole ? ofConsole : ofKey)
})

const send = (
  headers: Readonly<Record<string, string>>,
  { body, method, name, target }: SentRequest,
  { faults }: Pick<Report, "faults">
) =>
  Effect.flatMap(Countersign, ({ url }) =>
    Effect.promise(async () => {
      const answer = await fetch(url + target, {
        method,
        headers: { "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      let text = ""
      const decoder = new TextDecoder()
      const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true
      const reader = answer.body?.getReader()
      const deadline = setTimeout(() => void reader?.cancel(), MAX_RESPONSE_MILLIS)
      for (;;) {
        const { done = true, value } = (await reader?.read()) ?? {}
        if (done) break
        text += decoder.decode(value, { stream: true })
        if (isStream || text.length > MAX_RESPONSE_CHARACTERS) break
      }
      clearTimeout(deadline)
      await reader?.cancel()
      // A few operations fail because their receiver is missing.
      const hasFailed = method === "GET" ? answer.status !== 200 : [400, 404, 500].includes(answer.status)
      if (hasFailed) faults.set(target, `${name} ${target}: ${answer.status} ${text}`)
      return text
    })
  )

/** Values to ask with, by the parameter's name. Without one here, a parameter has the members of its enumeration. */
const valuesOf = (
  ids: SeededOrganization["ids"],
  middle: string
): Readonly<Record<string, ReadonlyArray<string>>> => ({
  limit: ["100"],
  console_session: [],
  // Keyset cursors of two parts, and lists without copies.
  after: [],
  before: [],
  before_id: [],
  after_id: [],
  days: ["30"],
  max_error: ["0.2"],
  created_after: [middle],
  created_before: [middle],
  occurred_after: [middle],
  occurred_before: [middle],
  since: [middle],
  until: [middle],
  text: ["zebra", "hello"],
  name: ["spare"],
  tool: ["nothing", "pay"],
  code: ["500"],
  end_user: [`eu_${"0".repeat(32)}`],
  score_label: ["good"],
  decided_by: [ids.spare_key],
  metadata: ['{"customer":"acme"}'],
  min_duration_ms: ["60000", "1"],
  release_id: [ids.release],
  task_id: [ids.task],
  session_id: [ids.session],
  endpoint_id: [ids.endpoint],
  inference_log_id: [ids.trace],
  actor_id: [ids.spare_key],
  target_id: [ids.task]
})

/** Members of an enumeration that are asked with. */
const MAX_MEMBERS = isThorough ? 8 : 1

const decodeParameters = Schema.decodeUnknownSync(
  Schema.Array(
    Schema.Struct({
      name: Schema.String,
      in: Schema.String,
      required: Schema.Boolean,
      schema: Schema.Struct({ enum: Schema.optional(Schema.Array(Schema.Unknown)) })
    })
  )
)

/** Paths and queries of the console's reads that need them. */
const consoleRequests = ({ ids }: SeededOrganization): Readonly<Record<string, Request>> => ({
  "inbox.get": { params: { id: ids.approval } },
  "inbox.context": { params: { id: ids.approval } },
  "health.get": { params: { id: ids.endpoint } },
  "deliveries.get": { params: { endpoint_id: ids.endpoint, delivery_id: ids.delivery } },
  "deliveries.countFailed": {
    params: { endpoint_id: ids.endpoint },
    query: { since: new Date(Date.now() - 3_600_000).toISOString() }
  },
  "dataset_changes.get": { params: { id: ids.dataset }, query: { since: ids.dataset } },
  "exports.runs": { params: { id: ids.task } },
  "agreement.history": { params: { id: ids.task } },
  "reviewer_answers.list": { params: { task_id: ids.reviewer } }
})

/** Every read of the API and of the console: without optional parameters, and with each of them. */
const readsOf = Effect.fnUntraced(function* (seeded: SeededOrganization, middle: string) {
  const values = valuesOf(seeded.ids, middle)
  const reads: Array<SentRequest> = []
  for (const [isOfConsole, { paths }] of [
    [false, OpenApi.fromApi(Api)],
    [true, OpenApi.fromApi(ConsoleApi)]
  ] as const) {
    for (const [template, { get }] of Object.entries(paths)) {
      // No person signs in by an identity provider here.
      if (get === undefined || get.operationId === "people.get") continue
      const pattern = template.replaceAll(/\{(\w+)\}/g, ":$1")
      const operation = operations.find(({ method, path }) => method === "GET" && path === pattern)
      const request: Request = isOfConsole
        ? (consoleRequests(seeded)[get.operationId] ?? {})
        : yield* requestOf(operation?.name ?? get.operationId, seeded)
      const parameters = decodeParameters(get.parameters).filter((one) => one.in === "query")
      const required: Record<string, string> = {}
      for (const { name, schema, ...parameter } of parameters)
        if (parameter.required)
          required[name] = request.query?.[name] ?? schema.enum?.map(String)[0] ?? values[name]?.[0] ?? ""
      const add = (query: Readonly<Record<string, string>>) =>
        reads.push({
          name: operation?.name ?? get.operationId,
          method: "GET",
          target: targetOf(
            { name: get.operationId, method: "GET", path: pattern },
            { ...request, query: { ...required, ...query } }
          ),
          isOfConsole
        })
      add({})
      if (request.query !== undefined) add(request.query)
      for (const { name, schema } of parameters) {
        if (Object.hasOwn(required, name)) continue
        const members = request.query?.[name] ?? values[name] ?? schema.enum?.map(String) ?? []
        for (const value of [members].flat().slice(0, MAX_MEMBERS)) add({ [name]: value })
      }
    }
  }
  return reads
})

/** Statements by operation, each with the plans that it had. */
const makeReport = (proxy: PlanProxy) => {
  const lines = new Set<string>()
  const faults = new Map<string, string>()
  const describeNode = (node: PlanNode, text: string, operation: string): ReadonlyArray<string> => {
    const inner = (node.Plans ?? []).flatMap((one) => describeNode(one, text, operation))
    // A day of a partitioned table.
    const table = node["Relation Name"]?.replace(/_\d{8}$/, "")
    if (table === undefined) return inner
    const removed = (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0)
    const read = Math.round((node["Actual Rows"] + removed) * node["Actual Loops"])
    const name = [node["Node Type"], table, node["Index Name"]].filter((one) => one !== undefined).join(" ")
    const limit = larger.find((one) => text.includes(one.text))?.rows ?? MAX_READ
    if (growingTables.has(table) && (read > limit || (node["Node Type"] === "Seq Scan" && read > 0)))
      faults.set(name + text, `${operation}: ${name} reads ${read} rows, at most ${limit}: ${text}`)
    return [`${name} (${read})`, ...inner]
  }
  const add = (operation: string, { Plan, "Query Text": query }: ExecutedStatement) => {
    const text = query.replaceAll(/\s+/g, " ").trim()
    lines.add(`${operation}\t${describeNode(Plan, text, operation).join(", ")}\t${text}`)
  }
  return {
    faults,
    lines,
    /** Assigns the statements since the last call to an operation. */
    take: (operation: string) => {
      for (const statement of proxy.take()) add(operation, statement)
    }
  }
}
type Report = ReturnType<typeof makeReport>

/** Sends reads, and of each list a page in the middle. */
const sendReads = Effect.fnUntraced(function* (
  reads: ReadonlyArray<SentRequest>,
  key: Redacted.Redacted,
  report: Report
) {
  const headers = yield* headersOf(key)
  report.take("start")
  for (const request of reads) {
    const text = yield* send(headers(request), request, report)
    report.take(request.name)
    const next = /"next_cursor":"([^"]+)"/.exec(text)?.[1]
    if (next === undefined) continue
    const cursor = encodeURIComponent(idOfCopy(next, Math.floor(ROWS / 20)))
    const target = `${request.target}${request.target.includes("?") ? "&" : "?"}cursor=${cursor}`
    yield* send(headers(request), { ...request, target }, report)
    report.take(request.name)
  }
})

/** Sends one request of every operation, in an order in which each succeeds. */
const sendAll = Effect.fnUntraced(function* (seeded: SeededOrganization, report: Report) {
  const headers = yield* headersOf(seeded.key)
  report.take("start")
  for (const name of Object.keys(requests)) {
    const operation = operations.find((one) => one.name === name) ?? assert.fail(name)
    const request = yield* requestOf(name, seeded)
    report.take(name)
    const sent = { name, method: operation.method, target: targetOf(operation, request), isOfConsole: false }
    yield* send(headers(sent), { ...sent, body: request.body }, report)
    report.take(name)
  }
})

/** Makes rows of the kinds that `seedOneOfEach` leaves out, and waits until all records are in the index of the search. */
const seedRest = Effect.fnUntraced(function* (
  seeded: SeededOrganization,
  admin: PgConnection.PgConnection,
  report: Pick<Report, "faults">
) {
  const headers = yield* headersOf(seeded.key)
  yield* seeded.agent.tasks
    .run({
      params: { id: seeded.ids.task },
      payload: { input: { text: "hello" }, answer: { category: "other" }, metadata: { customer: "acme" } }
    })
    .pipe(Effect.orDie)
  const request = yield* requestOf("hooks.claudeCode", seeded)
  const hook = operations.find(({ name }) => name === "hooks.claudeCode") ?? assert.fail("the hook")
  const sent = { name: hook.name, method: hook.method, target: targetOf(hook, request), isOfConsole: false }
  yield* send(headers(sent), { ...sent, body: request.body }, report)
  const find = { name: "search.find", method: "GET", target: "/console/find?text=pay", isOfConsole: true }
  yield* eventually(
    Effect.andThen(send(headers(find), find, report), admin.query("SELECT FROM search_documents LIMIT 1")),
    ({ rows }) => rows.length > 0
  )
})

/** Makes the service's connections plan in a way. They are opened again. */
const setPlans = Effect.fnUntraced(function* (
  admin: PgConnection.PgConnection,
  mode: "auto" | "force_generic_plan"
) {
  yield* admin.query(`ALTER ROLE countersign SET plan_cache_mode = ${mode}`)
  yield* admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'countersign'")
  const { url } = yield* Countersign
  yield* eventually(
    Effect.promise(async () => (await fetch(`${url}/readyz`)).status),
    (status) => status === 200
  )
})

/** The tables with about as many rows as were asked for; the planner takes them for tables of a million rows. */
const readGrown = Effect.fnUntraced(function* (admin: PgConnection.PgConnection) {
  const { rows } = yield* admin.query(`
    UPDATE pg_class
    SET reltuples = greatest(reltuples, reltuples * ${PLANNED_ROWS / ROWS}::float4)
    WHERE relkind IN ('r', 'p')
      AND relnamespace = 'public'::regnamespace
      AND reltuples > ${fewestRows(ROWS) / 2}
    RETURNING regexp_replace(relname::text, '_[0-9]{8}$', '') AS name
  `)
  return new Set(rows.map(({ name }) => String(name)))
})

const isLinux = process.platform === "linux"
if (!isLinux) process.stderr.write("StatementPlans is skipped: its server's processes are found in /proc\n")

const observe = Effect.fnUntraced(function* ({ admin, proxy }: GrownService) {
  const seeded = yield* seedOneOfEach("grown")
  const report = makeReport(proxy)
  yield* seedRest(seeded, admin, report)
  const { rows } = yield* admin.query(
    "SELECT org_id, now()::text AS now FROM organizations WHERE name = 'grown'"
  )
  yield* multiplyRows(admin, OrgId.make(String(rows[0]?.["org_id"])), ROWS)
  const grown = yield* readGrown(admin)
  assert.deepStrictEqual(
    [...growingTables].filter((table) => !grown.has(table)),
    []
  )
  // Statements that were planned while the tables grew, before the planner knew about it, say nothing about large ones.
  yield* setPlans(admin, "auto")
  proxy.take()
  // In the middle of the copies, which are a millisecond apart.
  const middle = new Date(Date.parse(String(rows[0]?.["now"])) - ROWS / 20).toISOString()
  const reads = yield* readsOf(seeded, middle)
  if (isThorough) {
    yield* setPlans(admin, "force_generic_plan")
    yield* sendReads(reads, seeded.key, report)
    yield* setPlans(admin, "auto")
  }
  yield* sendReads(reads, seeded.key, report)
  yield* sendAll(seeded, report)
  const file = process.env["COUNTERSIGN_PLAN_REPORT"]
  if (file !== undefined) yield* Effect.promise(() => writeFile(file, [...report.lines].join("\n")))
  return report.faults
})

const run = Effect.gen(function* () {
  const database = yield* startDatabase
  return yield* observe(database).pipe(
    Effect.provide(Countersign.layer({ databaseUrl: database.proxy.url, environment: seedEnvironment }))
  )
})

describe.skipIf(!isLinux)("the statements of every operation", () => {
  it(
    "read no more rows of a large table than a page needs, and none of them scans one",
    { timeout: isThorough ? 3_600_000 : 300_000 },
    () =>
      Effect.runPromise(
        Effect.scoped(Effect.map(run, (faults) => assert.deepStrictEqual([...faults.values()], [])))
      )
  )
})
