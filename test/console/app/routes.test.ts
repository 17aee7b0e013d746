import { assert, describe, it } from "@effect/vitest"
import { canOpen, matchRoute } from "../../../src/console/app/routes.ts"

describe("matchRoute", () => {
  it.each([
    ["/overview", "Overview", {}],
    ["/approvals", "Approvals", {}],
    ["/approvals/apr_1", "Approvals", { id: "apr_1" }],
    ["/tasks/new", "New task", {}],
    ["/tasks/tsk_1", "Task", { id: "tsk_1" }],
    ["/tasks/tsk_1/edit", "Working copy", { id: "tsk_1" }],
    ["/tasks/tsk_1/releases", "Task", { id: "tsk_1", tab: "releases" }],
    ["/reviewers/new", "New reviewer", {}],
    ["/reviewers/tsk_1", "Reviewer", { id: "tsk_1" }],
    ["/reviewers/tsk_1/review", "Reviewer", { id: "tsk_1", tab: "review" }],
    ["/feedback/task/tsk_1", "Feedback", { task: "tsk_1" }],
    ["/approvals/a%2Fb", "Approvals", { id: "a/b" }],
    ["/approvals/%E0%A4%A", "Approvals", { id: "%E0%A4%A" }]
  ])("the path %s is matched to the page %s", (path, title, params) => {
    const found = matchRoute(path)
    assert.strictEqual(found?.route.title, title)
    assert.deepStrictEqual(found?.params, params)
  })

  it.each(["/", "/nowhere", "/approvals/a/b", "/tasks/a/b/c"])("the path %s has no page", (path) => {
    assert.isUndefined(matchRoute(path))
  })

  it("the overview opens for a key that can read one of its sections, and for no other", () => {
    const route = matchRoute("/overview")?.route
    assert.isDefined(route)
    if (route === undefined) return
    assert.isTrue(canOpen(route, ["feedback.read"]))
    assert.isTrue(canOpen(route, ["approvals.read", "tasks.read"]))
    assert.isFalse(canOpen(route, ["tasks.read"]))
  })
})
