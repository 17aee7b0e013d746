import { assert, describe, it } from "@effect/vitest"
import { rebaseTask, restoreTask, toStoredTask } from "../../../../src/console/pages/tasks/keptTask.ts"
import { newTaskDraft, type TaskDraft } from "../../../../src/console/pages/tasks/TaskDraft.ts"

const model: TaskDraft = {
  ...newTaskDraft,
  name: "sort",
  provider: { ...newTaskDraft.provider, kind: "openai", model: "small" }
}

const withProvider = (draft: TaskDraft, change: Partial<TaskDraft["provider"]>): TaskDraft => ({
  ...draft,
  provider: { ...draft.provider, ...change }
})

describe("keptTask", () => {
  it("nothing is kept of a form without changes, also if only a secret was typed", () => {
    assert.isUndefined(toStoredTask(model, model))
    assert.isUndefined(toStoredTask(withProvider(model, { api_key: "sk-1", headers: "X: y" }), model))
  })

  it("what is kept has no secrets, and is restored", () => {
    const typed = withProvider({ ...model, instructions: "long" }, { api_key: "sk-1", headers: "X: y" })
    const stored: unknown = JSON.parse(JSON.stringify(toStoredTask(typed, model)))
    assert.deepStrictEqual(restoreTask(stored), { ...model, instructions: "long" })
  })

  it("what another version of the console stored is not restored", () => {
    for (const stored of [null, "", {}, { ...model, name: 1 }, { ...model, provider: {} }]) {
      assert.isUndefined(restoreTask(stored))
    }
    assert.isUndefined(restoreTask({ ...model, provider: { ...model.provider, kind: "other" } }))
  })

  it("changes are put onto the task as it is now, and fields that changed in both are named", () => {
    const mine = withProvider({ ...model, name: "mine", instructions: "mine" }, { model: "large" })
    const theirs = withProvider(
      { ...model, name: "theirs", review_percent: "5" },
      { model: "large", temperature: "1" }
    )
    const { conflicts, draft } = rebaseTask(model, mine, theirs)
    assert.deepStrictEqual(conflicts, ["name"])
    assert.deepStrictEqual(
      draft,
      withProvider(
        { ...model, name: "mine", instructions: "mine", review_percent: "5" },
        { model: "large", temperature: "1" }
      )
    )
  })
})
