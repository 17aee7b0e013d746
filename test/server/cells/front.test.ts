import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import path from "node:path"
import { connect, type CountersignClient, isProblem } from "../../../src/client/connect/index.ts"
import { eventually } from "../../support/eventually.ts"
import { frontDirectory } from "../../support/fronts/Front.ts"
import { fronts } from "../../support/fronts/fronts.ts"
import { startCell } from "../../support/fronts/startCell.ts"
import { createSortingTask } from "../../support/tasks.ts"

/** In place of the host names of the configurations: names that this machine resolves by itself. */
const HOSTS = { acme: "localhost", others: "127.0.0.1" }

/** Retries until the move is over: the default of three is for shorter pauses. */
const RETRIES = 1_000

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

describe.for(fronts)("cells behind $name", ({ missing, name, start }) => {
  it.live.skipIf(missing !== undefined)(
    "an organization moves under load: nothing is lost or doubled, and its neighbour notices nothing",
    () =>
      Effect.gen(function* () {
        const one = yield* startCell()
        const two = yield* startCell()
        const front = yield* start({
          cells: { cell1: one.countersign.url, cell2: two.countersign.url },
          hosts: HOSTS
        })
        const acmeUrl = `http://${HOSTS.acme}:${front.port}`
        const neighbourUrl = `http://${HOSTS.others}:${front.port}`
        const key = yield* one.countersign.key({}, "acme")
        const receiver = yield* one.countersign.receiver(undefined, "acme")
        const client = connect({ url: acmeUrl, key, retries: RETRIES })
        const neighbourKey = yield* one.countersign.key({}, "neighbour")
        const neighbour = connect({ url: neighbourUrl, key: neighbourKey, retries: 0 })
        const reviewers = {
          acme: connect({ url: acmeUrl, key: yield* one.countersign.key({}, "acme") }),
          neighbour: connect({
            url: neighbourUrl,
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
        const file = path.join(yield* frontDirectory, "acme.move")
        const transferKey = yield* two.run("org", "prepare")
        yield* one.run("org", "export", "acme", "--for", transferKey, "--to", file)
        const receipt = yield* two.run("org", "import", file)
        yield* front.routeAcme("cell2")
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
        yield* Effect.logInfo(`a move under load behind ${name}`, {
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
