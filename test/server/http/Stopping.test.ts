import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { Agent, get, type IncomingMessage } from "node:http"
import { cloneDatabase } from "../../support/postgres.ts"
import { spawnCli } from "../../support/process.ts"

/** Requests at a time, each on a connection that it reuses. */
const CLIENTS = 4

/** Between two checks of the load balancer. */
const CHECK_MILLIS = 300

const respond = (url: string, agent: Agent, key: string) =>
  new Promise<IncomingMessage>((done, fail) => {
    const request = get(url, { agent, headers: { authorization: `Bearer ${key}` } }, (response) => {
      response.resume().once("end", () => done(response))
    })
    request.once("error", fail)
  })

describe("Stopping", () => {
  it.live(
    "clients behind a load balancer lose no request on their reused connections when a replica is replaced",
    () =>
      Effect.gen(function* () {
        const environment = {
          DATABASE_URL: Redacted.value(yield* cloneDatabase),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
          PORT: "0"
        }
        const start = Effect.fnUntraced(function* (delay: string) {
          const running = yield* spawnCli(["serve"], {
            ...environment,
            COUNTERSIGN_STOP_DELAY_SECONDS: delay,
            COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
            COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0"
          })
          const out = yield* running.waitForStdout(/database .*\n[^]*\n/)
          return { running, out, url: /address +(http:\S+)/.exec(out)?.[1] ?? "" }
        })
        const old = yield* start("2")
        const key = /csk_\w+/.exec(old.out)?.[0] ?? ""
        const replacement = yield* start("0")
        const agent = yield* Effect.acquireRelease(
          Effect.sync(() => new Agent({ keepAlive: true, maxSockets: CLIENTS })),
          (opened) => Effect.sync(() => opened.destroy())
        )

        let target = old.url
        const load = { hasEnded: false }
        const statuses: Array<number | undefined> = []
        const closing: Array<string | undefined> = []
        const client = async () => {
          while (!load.hasEnded) {
            const from = target
            const { headers, statusCode } = await respond(`${from}/v1/tasks`, agent, key)
            statuses.push(statusCode)
            if (from === old.url) closing.push(headers.connection)
          }
        }
        /** Sends to the replacement once the old replica is not ready, as a load balancer does at its next check. */
        const balance = async () => {
          while (target === old.url) {
            const { body, status } = await fetch(`${old.url}/readyz`)
            await body?.cancel()
            if (status === 503) target = replacement.url
            await new Promise((next) => setTimeout(next, CHECK_MILLIS))
          }
        }
        const clients = Promise.all([balance(), ...Array.from({ length: CLIENTS }, client)])
        yield* Effect.promise(() => respond(`${old.url}/v1/tasks`, agent, key))
        yield* old.running.kill("SIGTERM")
        const ended = yield* old.running.ended
        load.hasEnded = true
        yield* Effect.promise(() => clients)
        assert.strictEqual(ended.code, 0, ended.err)
        assert.deepStrictEqual([...new Set(statuses)], [200])
        assert.strictEqual(target, replacement.url)
        assert.include(closing, "keep-alive")
        assert.strictEqual(closing.at(-1), "close")
      }),
    { timeout: 120_000 }
  )
})
