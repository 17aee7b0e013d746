/**
 * What a run takes, end to end over HTTP: for an organization whose collector never answers, and for the same one with none, in rounds that
 * alternate, so that whatever disturbs the machine disturbs both. The runs log an answer made elsewhere, so that no model is in the figure.
 */
import { Schema } from "effect"
import { Pool } from "undici"
import { alternate, machine, median, quantile } from "../measure.ts"
import { startService, startStore } from "../service.ts"
import { startCollector } from "./stub.ts"

const ROUNDS = 16
const RUNS = 800
const CLIENTS = 4

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))

export const latency = async (): Promise<void> => {
  const store = await startStore()
  const collector = await startCollector()
  const service = await startService(await store.database("bench_latency"), {
    NODE_ENV: "test",
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
    COUNTERSIGN_EGRESS_HTTP: "true"
  })
  const pool = new Pool(`http://127.0.0.1:${service.port}`, { connections: CLIENTS })
  const call = async (method: "POST" | "DELETE", path: string, body?: object): Promise<unknown> => {
    const answer = await pool.request({
      method,
      path,
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`)
    return text === "" ? undefined : JSON.parse(text)
  }
  const shape = { type: "object", properties: { text: { type: "string" } } }
  const task = decodeId(
    await call("POST", "/v1/tasks", {
      name: "bench",
      instructions: "",
      input_schema: shape,
      answer_schema: shape
    })
  )
  const run = () => call("POST", `/v1/tasks/${task.id}/run`, { input: { text: "a" }, answer: { text: "b" } })

  /** The 99th percentile of a round, in milliseconds; the medians beside. */
  const round = async (medians: Array<number>): Promise<number> => {
    const taken: Array<number> = []
    let left = RUNS
    await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        while (left-- > 0) {
          const begin = performance.now()
          await run()
          taken.push(performance.now() - begin)
        }
      })
    )
    medians.push(quantile(taken, 0.5))
    return quantile(taken, 0.99)
  }
  const medians: readonly [Array<number>, Array<number>] = [[], []]
  const [without = [], hanging = []] = await alternate(
    [
      () => round(medians[0]),
      async () => {
        const { id } = decodeId(
          await call("POST", "/v1/telemetry-destinations", { url: `${collector.url}/hang` })
        )
        const result = await round(medians[1])
        await call("DELETE", `/v1/telemetry-destinations/${id}`)
        return result
      }
    ],
    { warmUp: 4, rounds: ROUNDS }
  )
  out(machine())
  out(
    `p50 ${median(medians[0]).toFixed(2)} ms without a destination, ${median(medians[1]).toFixed(2)} ms with one that hangs`
  )
  out(
    `p99 ${median(without).toFixed(2)} ms without, ${median(hanging).toFixed(2)} ms with: ratio ${(median(hanging) / median(without)).toFixed(3)}`
  )
  await pool.close()
  service.child.kill("SIGTERM")
  await service.ended
  collector.stop()
  await store.dispose()
}
