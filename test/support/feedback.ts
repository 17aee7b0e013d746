import { Effect } from "effect"
import type { JsonObject } from "../../src/domain/tasks/Dataset.ts"
import type { FeedbackId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { createSortingTask, sortingTask } from "./tasks.ts"

/** Creates a task in an organization of its own, clients by role, and functions that log a run, correct it and stage the correction. */
export const createDesk = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ name: "Ada" }, organization)
    const integration = yield* countersign.client({ preset: "integration", name: "bot" }, organization)
    const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ben" }, organization)
    const { dataset, params, task } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
    const run = (text: string) =>
      Effect.map(
        admin.tasks.run({ params, payload: { input: { text }, answer: { category: "other" } } }),
        ({ trace_id }) => trace_id
      )
    const correct = (inference_log_id: string, correction: JsonObject) =>
      integration.feedback.create({ payload: { inference_log_id, score: -1, correction } })
    const stage = (id: FeedbackId) => reviewer.feedback.stage({ params: { id } })
    return { admin, correct, dataset, integration, params, reviewer, run, stage, task }
  })

/** Like `createDesk`, with one logged run of a task whose answers have a note and any other fields. */
export const createNotesDesk = (organization: string) =>
  Effect.gen(function* () {
    const { admin, ...rest } = yield* createDesk(organization)
    const task = yield* admin.tasks.create({
      payload: {
        ...sortingTask,
        answer_schema: {
          type: "object",
          required: ["note"],
          properties: { note: { type: "string" }, code: { type: "string", pattern: "^[a-zA-Z0-9_]+$" } }
        }
      }
    })
    const { trace_id } = yield* admin.tasks.run({
      params: { id: task.id },
      payload: { input: { text: "a" }, answer: { note: "b" } }
    })
    return { ...rest, admin, task, trace_id }
  })

/** The tag of a call's failure. */
export const tagOf = <A, E extends { readonly _tag: string }, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), ({ _tag }) => _tag)
