import { assert, beforeAll, describe, it } from "@effect/vitest"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { TaskId } from "../../../src/domain/Ids.ts"

const collectGarbage = (): unknown => {
  setFlagsFromString("--expose-gc")
  return runInNewContext("gc")()
}

const task_id = TaskId.make(`tsk_${"0".repeat(32)}`)

describe("Lists of several parameters", () => {
  beforeAll(() => {
    Object.assign(globalThis, { location: new URL("http://localhost/console/tasks") })
  })

  const lists: ReadonlyArray<readonly [name: string, find: () => Promise<() => object>]> = [
    [
      "runs",
      async () => {
        const { runRowsAtom } = await import("../../../src/console/state/runFilter.ts")
        return () => runRowsAtom(`?task=${task_id}&status=failed&q=a+word`)
      }
    ],
    [
      "feedback",
      async () => {
        const { feedbackAtom } = await import("../../../src/console/state/feedback.ts")
        return () => feedbackAtom({ status: "pending", task: task_id })
      }
    ],
    [
      "results of a search",
      async () => {
        const { foundOfKindAtom } = await import("../../../src/console/state/search.ts")
        return () => foundOfKindAtom({ kind: "run", text: "a word" })
      }
    ]
  ]

  it.each(lists)("%s in use are the same after a garbage collection", async (_name, find) => {
    const list = await find()
    const used = list()
    collectGarbage()
    await new Promise((resolve) => setTimeout(resolve, 0))
    collectGarbage()
    assert.strictEqual(list(), used)
  })
})
