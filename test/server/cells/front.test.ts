import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect as connectSocket, createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { connect, type CountersignClient, isProblem } from "../../../src/client/connect/index.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { cli } from "../../support/cli.ts"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { createSortingTask } from "../../support/tasks.ts"

const hasHaproxy = (() => {
  try {
    execFileSync("haproxy", ["-v"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

/** The map and the backends of the configuration name organizations and cells: names that this machine resolves by itself. */
const ACME = "localhost"
const NEIGHBOUR = "127.0.0.1"

/** Retries until the move is over: the default of three is for shorter pauses. */
const RETRIES = 1_000

const startCell = Effect.gen(function* () {
  const databaseUrl = yield* cloneDatabase
  const environment = { COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64") }
  const context = yield* Layer.build(Layer.fresh(Countersign.layer({ databaseUrl, environment })))
  return {
    countersign: Context.get(context, Countersign),
    run: (...args: ReadonlyArray<string>) =>
      Effect.map(
        cli(args, { ...environment, DATABASE_URL: Redacted.value(databaseUrl) }),
        ({ err, ok, out }) => {
          assert.isTrue(ok, err)
          return out.trim()
        }
      )
  }
})

const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() =>
      resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
    )
  })
})

/** HAProxy with the configuration of `scripts/deploy`, in front of two services on this machine. */
const startFront = Effect.fnUntraced(function* (cells: { readonly cell1: string; readonly cell2: string }) {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-front-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true }))
  )
  const port = yield* freePort
  const map = path.join(directory, "organizations.map")
  const socket = path.join(directory, "admin.sock")
  writeFileSync(map, "")
  const config = readFileSync(new URL("../../../scripts/deploy/haproxy.cfg", import.meta.url), "utf8")
    .replaceAll("/etc/haproxy/organizations.map", map)
    .replaceAll("/run/haproxy/admin.sock", socket)
    .replace("bind :8080", `bind 127.0.0.1:${port}`)
    .replaceAll(/^ *server replica2 .*$/gm, "")
    .replace("cell1-replica1.internal:8080", new URL(cells.cell1).host)
    .replace("cell2-replica1.internal:8080", new URL(cells.cell2).host)
  const file = path.join(directory, "haproxy.cfg")
  writeFileSync(file, config)
  yield* Effect.acquireRelease(
    Effect.sync(() => spawn("haproxy", ["-db", "-f", file], { stdio: ["ignore", "ignore", "inherit"] })),
    (child: ChildProcess) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const url = (host: string) => `http://${host}:${port}`
  yield* eventually(
    Effect.promise(() =>
      fetch(`${url(NEIGHBOUR)}/readyz`).then(
        ({ status }) => status,
        () => 0
      )
    ),
    (status) => status === 200
  )
  return {
    url,
    /** Sends a command to the socket of the administrator. */
    command: (line: string) =>
      Effect.callback<string>((resume) => {
        let answer = ""
        const client = connectSocket(socket, () => client.write(`${line}\n`))
        client.on("data", (text) => (answer += text.toString()))
        client.on("close", () => resume(Effect.succeed(answer)))
      }),
    map
  }
})

/** Repeats a call until it is stopped; collects what it returns. */
const startLoop = <A>(call: (index: number) => Promise<A>) => {
  const results: Array<A> = []
  const stop = new AbortController()
  const done = (async () => {
    for (let index = 0; !stop.signal.aborted; index++) {
      results.push(await call(index))
    }
  })()
  // Reported by `stop`.
  done.catch(() => undefined)
  return {
    results,
    stop: async () => {
      stop.abort()
      await done
      return results
    }
  }
}

/** Repeats a call that changes nothing when it is repeated, while the service is unavailable. */
const patiently = async <A>(call: () => Promise<A>): Promise<A> => {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!isProblem(error, "UNAVAILABLE")) throw error
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

const quantile = (values: ReadonlyArray<number>, share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0

/** A session's steps, its event stream, and people who decide, of one organization behind the front. */
const startLoad = Effect.fnUntraced(function* (
  client: CountersignClient,
  reviewer: CountersignClient,
  name: string
) {
  yield* Effect.promise(() =>
    client.approval_rules.replace({
      payload: { rules: [{ effect: "allow", tool: "read" }, { effect: "require_approval" }] }
    })
  )
  const { session_id } = yield* Effect.promise(() => client.sessions.create({ payload: {} }))
  const params = { id: session_id }
  const numbers: Array<number> = []
  const streaming = (async () => {
    for await (const { id } of client.stream(session_id)) numbers.push(id)
  })()
  streaming.catch(() => undefined)
  const latencies: Array<{ readonly at: number; readonly millis: number }> = []
  const steps = startLoop(async (index) => {
    const began = performance.now()
    const step_id = `${name}-read-${index}`
    await patiently(() =>
      client.sessions.step({ params, payload: { step_id, tool: "read", action_class: "read" } })
    )
    const at = performance.now()
    latencies.push({ at, millis: at - began })
    await new Promise((resolve) => setTimeout(resolve, 10))
    return step_id
  })
  const approvals = startLoop(async (index) => {
    const step_id = `${name}-pay-${index}`
    const { approval_id } = await patiently(() =>
      client.sessions.step({ params, payload: { step_id, tool: "pay", action_class: "write" } })
    )
    const id = approval_id ?? assert.fail("an approval")
    await patiently(() => reviewer.approvals.decide({ params: { id }, payload: { decision: "approve" } }))
    await new Promise((resolve) => setTimeout(resolve, 30))
    return id
  })
  return { session_id, numbers, streaming, steps, approvals, latencies }
})

describe.skipIf(!hasHaproxy)("cells behind HAProxy (skipped without the program haproxy)", () => {
  it.live(
    "an organization moves under load: nothing is lost or doubled, and its neighbour notices nothing",
    () =>
      Effect.gen(function* () {
        const one = yield* startCell
        const two = yield* startCell
        const front = yield* startFront({ cell1: one.countersign.url, cell2: two.countersign.url })
        const key = yield* one.countersign.key({}, "acme")
        const receiver = yield* one.countersign.receiver(undefined, "acme")
        const client = connect({ url: front.url(ACME), key, retries: RETRIES })
        const neighbourKey = yield* one.countersign.key({}, "neighbour")
        const neighbour = connect({ url: front.url(NEIGHBOUR), key: neighbourKey, retries: 0 })
        const reviewers = {
          acme: connect({ url: front.url(ACME), key: yield* one.countersign.key({}, "acme") }),
          neighbour: connect({
            url: front.url(NEIGHBOUR),
            key: yield* one.countersign.key({}, "neighbour")
          })
        }
        const { params } = yield* createSortingTask(yield* one.countersign.clientWith(key), [
          "pay",
          "billing"
        ])
        const logged = yield* Effect.promise(() =>
          client.tasks.run({ params, payload: { input: { text: "hello" }, answer: { category: "other" } } })
        )

        const acme = yield* startLoad(client, reviewers.acme, "acme")
        const feedback = startLoop(async () => {
          const { id } = await client.feedback.create({
            payload: { inference_log_id: logged.trace_id, score: 1 }
          })
          await new Promise((resolve) => setTimeout(resolve, 20))
          return id
        })
        const other = yield* startLoad(neighbour, reviewers.neighbour, "neighbour")
        yield* Effect.sleep("3 seconds")

        const movedAt = performance.now()
        const directory = path.dirname(front.map)
        const file = path.join(directory, "acme.move")
        const transferKey = yield* two.run("org", "prepare")
        yield* one.run("org", "export", "acme", "--for", transferKey, "--to", file)
        const receipt = yield* two.run("org", "import", file)
        yield* front.command(`add map ${front.map} ${ACME} cell2`)
        const release = yield* one.run("org", "commit", "acme", "--receipt", receipt)
        const activation = yield* two.run("org", "activate", "acme", "--release", release)
        const activeAt = performance.now()
        yield* one.run("org", "finish", "acme", "--activation", activation)
        yield* Effect.sleep("3 seconds")

        const [steps, approvals, given] = yield* Effect.promise(() =>
          Promise.all([acme.steps.stop(), acme.approvals.stop(), feedback.stop()])
        )
        yield* Effect.promise(() => Promise.all([other.steps.stop(), other.approvals.stop()]))

        // Work went on after the move.
        const pauses = acme.latencies.filter(({ millis }) => millis > 1_000)
        assert.isTrue(acme.latencies.some(({ at }) => at > activeAt))
        const moving = other.latencies.filter(({ at }) => at > movedAt && at < activeAt)
        const calm = other.latencies.filter(({ at }) => at <= movedAt)
        yield* Effect.logInfo("a move under load", {
          without_writes_ms: Math.round(Math.max(0, ...pauses.map(({ millis }) => millis))),
          steps: steps.length,
          approvals: approvals.length,
          feedback: given.length,
          neighbour_p99_ms: {
            before: Math.round(
              quantile(
                calm.map(({ millis }) => millis),
                0.99
              )
            ),
            meanwhile: Math.round(
              quantile(
                moving.map(({ millis }) => millis),
                0.99
              )
            ),
            requests: moving.length
          }
        })

        // The stream has every event once, in order, across the reconnection.
        yield* Effect.promise(() => client.sessions.close({ params: { id: acme.session_id } }))
        yield* Effect.promise(() => acme.streaming)
        assert.deepStrictEqual(
          acme.numbers,
          acme.numbers.map((_, index) => index + 1)
        )
        assert.isAtLeast(acme.numbers.length, steps.length + approvals.length)

        // Every approval was announced and its decision too, once each.
        const expected = new Set(approvals)
        const events = yield* eventually(
          Effect.sync(() => receiver.events),
          (list) => list.filter(({ type }) => type === "approval.approved").length >= expected.size
        )
        assert.deepStrictEqual(
          receiver.requests.filter(({ refusal }) => refusal !== null),
          []
        )
        const ids = events.map(({ id }) => id)
        assert.strictEqual(new Set(ids).size, ids.length, "an event was delivered twice")
        for (const type of ["approval.requested", "approval.approved"]) {
          const about = events
            .filter((event) => event.type === type)
            .map(({ approval }) => approval?.approval_id)
          assert.deepStrictEqual(new Set(about), expected)
          assert.strictEqual(about.length, expected.size)
        }

        // All feedback is there, once.
        const found = new Set<string>()
        let cursor: string | undefined
        do {
          const page = yield* Effect.promise(() =>
            client.feedback.list({ query: { limit: 100, ...(cursor === undefined ? {} : { cursor }) } })
          )
          for (const { id } of page.feedback) found.add(id)
          cursor = page.next_cursor ?? undefined
        } while (cursor !== undefined)
        assert.deepStrictEqual([...found].toSorted(), given.toSorted())
        assert.isAbove(moving.length, 0)
        yield* Effect.promise(() => Promise.all([client.close(), neighbour.close()]))
      }).pipe(Effect.scoped),
    240_000
  )
})
