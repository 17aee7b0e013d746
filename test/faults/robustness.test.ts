import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Pool } from "undici"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { openApiDocument } from "../../src/api/openApiDocument.ts"
import { generateApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import { Countersign } from "../../src/testing/index.ts"
import { nameServer } from "../support/dns.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { randomFrom } from "../support/robustness/random.ts"
import {
  definitionsOf,
  operationsOf,
  requestFor,
  type Sent,
  withExtremes
} from "../support/robustness/requests.ts"

/*
 * Fuzzes the API from its OpenAPI document with malformed, extreme and mostly almost valid requests. Runs are reproducible:
 * COUNTERSIGN_ROBUSTNESS_SEED is printed with every failure; COUNTERSIGN_ROBUSTNESS_REQUESTS is the number of requests,
 * 20,000 in `npm run verify`.
 */
const SEED = Number(process.env["COUNTERSIGN_ROBUSTNESS_SEED"] ?? 20_261_121)
const REQUESTS = Number(process.env["COUNTERSIGN_ROBUSTNESS_REQUESTS"] ?? 5_000)
/** Concurrent requests, each on a connection that is kept open. */
const AT_ONCE = 16
/** Remembered ids of each kind: the newest, so that requests refer to resources that others have just created. */
const REMEMBERED = 40
/** Allowed heap growth in the second half of the run, in bytes. With 20,000 requests, a leak of one small object per request exceeds it. */
const HEAP_GROWTH = 24 * 2 ** 20

/** Statuses that any request may get: unknown path or method, and rejections before routing. */
const ANYWHERE = new Set([404, 405, 408, 431])
/** 502 is declared for failures of peers. No peer is reachable in this test. */
const PEERS_FAULT = 502

/** Used heap after garbage collection. */
const heapUsed = (): number => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect()
  return process.memoryUsage().heapUsed
}

interface Seen {
  readonly status: number
  readonly type: string
  readonly requestId: string | undefined
  readonly text: string
}

/** A description of the fault in a response, or `undefined`. */
const faultOf = (
  { operation, method }: Sent,
  { requestId, status, text, type }: Seen
): string | undefined => {
  const own = method === operation.method
  const declared = ANYWHERE.has(status) || (own ? operation.statuses.has(status) : true)
  if (status >= 500 && !(status === PEERS_FAULT && declared)) return "a fault of the service"
  if (!declared) return "a status that the document does not declare"
  if (!/^req_[0-9a-f]{32}$/.test(requestId ?? "")) return "no request id"
  if (status < 400 || method === "HEAD") return undefined
  if (type !== "application/problem+json") return "no problem"
  const problem: unknown = JSON.parse(text)
  if (typeof problem !== "object" || problem === null) return "a problem that is no object"
  if (!("code" in problem) || !/^[A-Z_]+$/.test(String(problem.code))) return "a problem without a code"
  if (!("request_id" in problem) || problem.request_id !== requestId) return "another request's id"
  return "status" in problem && problem.status === status ? undefined : "another status within"
}

const show = ({ body, headers, method, path }: Sent): string => {
  const text = body === undefined ? "" : Buffer.from(body).toString("latin1").slice(0, 600)
  return `${method} ${path}\n${JSON.stringify({ ...headers, authorization: "…" })}\n${text}`
}

it.live(
  `HTTP API › ${REQUESTS} malformed or extreme requests get declared statuses and problems, and the heap does not grow`,
  () =>
    Effect.gen(function* () {
      const dns = yield* nameServer(() => "NXDOMAIN")
      const databaseUrl = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const countersign = yield* Countersign
        const keys = {
          admin: Redacted.value(yield* countersign.key()),
          others: [
            Redacted.value(yield* countersign.key({ preset: "reviewer" })),
            Redacted.value(yield* countersign.key({}, "another")),
            Redacted.value((yield* generateApiKey).key),
            "csk_",
            "x".repeat(4_000)
          ] as const
        }
        const document = openApiDocument()
        const definitions = definitionsOf(document)
        // The admin key must stay valid: the last admin key of an organization cannot be revoked.
        const operations = operationsOf(document).filter(({ id }) => id !== "revokeApiKey")
        const [firstOperation, ...otherOperations] = operations
        if (firstOperation === undefined) return assert.fail("The document has operations")

        const ids = new Map<string, Array<string>>()
        const random = randomFrom(SEED)
        const known = {
          ids: (prefix: string) => {
            const there = ids.get(prefix) ?? []
            return there[random.below(there.length)]
          }
        }
        const harvest = (text: string) => {
          for (const [id] of text.slice(0, 4_000).matchAll(/\b[a-z]{3}_[0-9a-f]{32}\b/g)) {
            const prefix = id.slice(0, 3)
            const there = ids.get(prefix) ?? []
            if (there.includes(id)) continue
            there.push(id)
            if (there.length > REMEMBERED) there.shift()
            ids.set(prefix, there)
          }
        }

        const pool = yield* Effect.acquireRelease(
          Effect.sync(() => new Pool(countersign.url, { connections: AT_ONCE, headersTimeout: 20_000 })),
          (pool) => Effect.promise(() => pool.destroy())
        )
        const ask = async (sent: Sent): Promise<Seen> => {
          const { body, headers, statusCode } = await pool.request({
            method: sent.method,
            path: sent.path,
            headers: sent.headers,
            body: sent.body ?? null
          })
          const type = String(headers["content-type"] ?? "")
          // A stream does not end. Its response head is enough.
          if (type.startsWith("text/event-stream")) body.on("error", () => undefined).destroy()
          const text = body.destroyed ? "" : await body.text()
          const requestId = headers["x-request-id"]
          return { status: statusCode, type, requestId: requestId?.toString(), text }
        }

        const statuses = new Map<number, number>()
        const faults: Array<string> = []
        const judge = async (sent: Sent) => {
          const seen = await ask(sent)
          statuses.set(seen.status, (statuses.get(seen.status) ?? 0) + 1)
          if (seen.status < 300) harvest(seen.text)
          const fault = faultOf(sent, seen)
          if (fault !== undefined && faults.length < 10)
            faults.push(`${seen.status}: ${fault}\n${show(sent)}\n${seen.text}`)
        }
        const one = Effect.promise(() =>
          judge(
            requestFor(random, known, keys, definitions, random.pick([firstOperation, ...otherOperations]))
          )
        )
        const send = (count: number) =>
          Effect.forEach(Array.from({ length: count }), () => one, { concurrency: AT_ONCE, discard: true })

        yield* send(Math.floor(REQUESTS / 2))
        const before = heapUsed()
        yield* send(REQUESTS - Math.floor(REQUESTS / 2))
        const grown = heapUsed() - before
        yield* Effect.forEach(
          operations.flatMap((operation) => withExtremes(random, known, keys, definitions, operation)),
          (sent) => Effect.promise(() => judge(sent)),
          { concurrency: AT_ONCE, discard: true }
        )

        assert.deepStrictEqual(faults, [], `seed ${SEED}`)
        // A run in which every request is rejected early would find nothing.
        assert.isAbove((statuses.get(200) ?? 0) + (statuses.get(201) ?? 0), REQUESTS / 20)
        assert.isAbove(statuses.get(400) ?? 0, REQUESTS / 20)
        assert.isBelow(grown, HEAP_GROWTH)

        const { sessions } = yield* countersign.clientWith(Redacted.make(keys.admin))
        const { session_id } = yield* sessions.create({ payload: {} })
        assert.strictEqual((yield* sessions.get({ params: { id: session_id } })).status, "open")
      }).pipe(
        Effect.provide(
          Countersign.layer({
            databaseUrl,
            environment: {
              // A closed port: attempts fail immediately, and no name resolves to a public address.
              COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1:9",
              COUNTERSIGN_DNS_SERVERS: `127.0.0.1:${dns.address.port}`
            }
          })
        )
      )
    }),
  600_000
)
