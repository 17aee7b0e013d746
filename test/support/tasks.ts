import { Effect } from "effect"
import type { NewTask } from "../../src/api/Tasks.ts"
import type { ClientCalls } from "../../src/client/Client.ts"
import { Countersign } from "../../src/testing/index.ts"

/** A task that sorts messages into categories. */
export const sortingTask = {
  name: "sort messages",
  instructions: "Sort the message.",
  input_schema: {
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
    additionalProperties: false
  },
  answer_schema: {
    type: "object",
    properties: { category: { enum: ["billing", "shipping", "other"] }, confidence: { type: "number" } },
    required: ["category"],
    additionalProperties: false
  }
} satisfies NewTask

/** Makes examples of `sortingTask` from messages and their categories. */
export const sortingExamples = (...pairs: ReadonlyArray<readonly [text: string, category: string]>) =>
  pairs.map(([text, category]) => ({ input: { text }, answer: { category } }))

/** Creates an organization and a client for each role. */
export const createTeamClients = (organization: string) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ name: "Ada" }, organization)
    const runtime = yield* countersign.client({ preset: "runtime" }, organization)
    const reviewer = yield* countersign.client({ preset: "reviewer" }, organization)
    return { admin, runtime, reviewer }
  })

/** Creates a sorting task and its first dataset version with these examples. */
export const createSortingTask = Effect.fnUntraced(function* (
  admin: ClientCalls,
  ...pairs: ReadonlyArray<readonly [text: string, category: string]>
) {
  const task = yield* admin.tasks.create({ payload: sortingTask })
  const params = { id: task.id }
  const [first, ...others] = sortingExamples(...pairs)
  if (first === undefined) throw new Error("a dataset needs an example")
  const dataset = yield* admin.datasets.create({ params, payload: { examples: [first, ...others] } })
  return { task, params, dataset }
})
