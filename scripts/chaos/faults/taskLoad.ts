/** Clients that log runs and give feedback while replicas are replaced. */
import { Effect, type Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { persistently } from "../persistently.ts"
import { type Keys, makePersistentClient } from "./load.ts"
import { call } from "./service.ts"

const WORKERS = 2

/** Starts the load. `stop` ends it, and returns a sentence for each kind of acknowledged write that the database lacks. */
export const startTaskLoad = (urls: () => ReadonlyArray<string>, admin: Redacted.Redacted, keys: Keys) =>
  Effect.gen(function* () {
    const created = yield* Effect.promise(() =>
      call({
        url: urls()[0] ?? "",
        key: admin,
        path: "/v1/tasks",
        body: {
          name: "sort messages",
          input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
          answer_schema: {
            type: "object",
            properties: { category: { type: "string" } },
            required: ["category"]
          }
        }
      })
    )
    if (created._tag !== "Accepted") return yield* Effect.die(new Error(JSON.stringify(created)))
    const task = String(created.body["id"])
    const runs = new Set<string>()
    const feedback = new Set<string>()
    const ending = new AbortController()
    const { insist, replies, wrong } = makePersistentClient(urls, ending.signal)
    const work = async (worker: number) => {
      for (let number = 0; !ending.signal.aborted; number++) {
        const run = await insist(worker, keys.agent, `/v1/tasks/${task}/run`, {
          input: { text: `message ${worker} ${number}` },
          answer: { category: "shipping" }
        })
        if (run === undefined) return
        const trace = String(run["trace_id"])
        runs.add(trace)
        const given = await insist(worker, admin, "/v1/feedback", { inference_log_id: trace, score: 1 })
        if (given === undefined) return
        feedback.add(String(given["id"]))
      }
    }
    const workers = Array.from({ length: WORKERS }, (_, worker) => work(worker))
    const end = Effect.promise(async () => {
      ending.abort()
      await Promise.all(workers)
    })
    yield* Effect.addFinalizer(() => end)
    return {
      replies,
      wrong,
      stop: Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
        yield* end
        const storedRuns = yield* persistently(sql<{ readonly id: string }>`SELECT trace_id AS id FROM runs`)
        const storedFeedback = yield* persistently(
          sql<{ readonly id: string }>`SELECT feedback_id AS id FROM feedback`
        )
        const missing = (what: string, acknowledged: ReadonlySet<string>, stored: typeof storedRuns) => {
          const present = new Set(stored.map(({ id }) => id))
          const lost = [...acknowledged].filter((id) => !present.has(id))
          return acknowledged.size === 0
            ? [`no ${what} was acknowledged`]
            : lost.length === 0
              ? []
              : [`${lost.length} of ${acknowledged.size} acknowledged ${what} were lost, such as ${lost[0]}`]
        }
        return [...missing("runs", runs, storedRuns), ...missing("feedback", feedback, storedFeedback)]
      })
    }
  })
