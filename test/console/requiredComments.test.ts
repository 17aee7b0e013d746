import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { accessibilityViolations, Browser, openSignedIn, skipWithoutBrowser } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Requests an approval of each tool, under a rule that asks for comments. Returns their ids and a reader of all. */
const request = Effect.fnUntraced(function* (
  organization: string,
  require_comment: "always" | "reject",
  tools: ReadonlyArray<string>
) {
  const { client, key } = yield* Countersign
  const admin = yield* client({}, organization)
  yield* admin.approvalRules.replace({
    payload: {
      rules: [
        { tool: "free.*", effect: "require_approval" },
        { effect: "require_approval", require_comment }
      ]
    }
  })
  const agent = yield* client({ preset: "runtime" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  const ids = yield* Effect.forEach(tools, (tool) =>
    Effect.map(
      agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make(tool), tool, action_class: "write", arguments: { order: "4711" } }
      }),
      ({ approval_id }) => approval_id ?? assert.fail("the step waits")
    )
  )
  const states = Effect.forEach(ids, (id) =>
    Effect.map(admin.approvals.get({ params: { id } }), ({ comment, status }) => [status, comment])
  )
  return { ids, states, ada: yield* key({ preset: "reviewer", name: "Ada" }, organization) }
})

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Required comments", (it) => {
  const test = skipWithoutBrowser(it)

  test("the form asks for the comment that the rule requires, and sends nothing without it", () =>
    Effect.gen(function* () {
      const { ada, ids, states } = yield* request("one", "always", ["pay"])
      const { page, pageErrors } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Approve/ }).click()
        const comment = page.getByLabel("Comment (required by the rule)")
        await comment.waitFor()
        const submit = page.getByRole("button", { name: "Approve" })
        assert.isTrue(await submit.isDisabled())
        await comment.press("Enter")
        await comment.fill("  ")
        await comment.press("Enter")
        assert.isTrue(await submit.isDisabled())
        await comment.fill("The receipt is there")
      })
      assert.deepStrictEqual(yield* accessibilityViolations(page), [])
      yield* Effect.promise(async () => {
        await page.keyboard.press("Enter")
        await page.getByText("Approved by Ada").first().waitFor()
      })
      assert.deepStrictEqual(yield* states, [["approved", "The receipt is there"]])
      assert.deepStrictEqual(pageErrors, [])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the form for an approval stays optional if only rejections need a comment", () =>
    Effect.gen(function* () {
      const { ada, ids, states } = yield* request("rejections", "reject", ["pay"])
      const { page } = yield* openSignedIn(ada, `/approvals/${ids[0]}`)
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: /^Reject/ }).click()
        await page.getByLabel("Comment (required by the rule)").waitFor()
        assert.isTrue(await page.getByRole("button", { name: "Reject" }).isDisabled())
        await page.keyboard.press("Escape")
        await page.getByRole("button", { name: /^Approve/ }).click()
        await page.getByLabel("Comment (optional)").press("Enter")
        await page.getByText("Approved by Ada").first().waitFor()
      })
      assert.deepStrictEqual(yield* states, [["approved", null]])
    }).pipe(Effect.scoped, Effect.orDie))

  test("the sheet for several approvals rejects none without a comment if a rule of one requires it", () =>
    Effect.gen(function* () {
      const { ada, states } = yield* request("several", "reject", ["free.one", "pay", "free.two"])
      const { page } = yield* openSignedIn(ada, "/approvals")
      yield* Effect.promise(async () => {
        const check = (tool: string) => page.getByRole("option", { name: tool }).locator(".row-check").click()
        await check("free.one")
        await check("free.two")
        await page.getByRole("button", { name: "Review and decide" }).click()
        const sheet = page.getByRole("dialog")
        await sheet.getByLabel("Comment (optional)").waitFor()
        assert.isFalse(await sheet.getByRole("button", { name: "Reject 2" }).isDisabled())
        await page.keyboard.press("Escape")
        await check("pay")
        await page.getByRole("button", { name: "Review and decide" }).click()
        const comment = sheet.getByLabel("Comment (required by a rule to reject)")
        await comment.waitFor()
        const reject = sheet.getByRole("button", { name: "Reject 3" })
        assert.isTrue(await reject.isDisabled())
        await comment.fill("Budget is used up")
        await reject.click()
        await sheet.getByText("3 decided").waitFor()
      })
      const comment = "Budget is used up"
      assert.deepStrictEqual(yield* states, [
        ["rejected", comment],
        ["rejected", comment],
        ["rejected", comment]
      ])
    }).pipe(Effect.scoped, Effect.orDie))

  test("an admin sets in the rule's dialog which decisions need a comment", () =>
    Effect.gen(function* () {
      const { client, key } = yield* Countersign
      const admin = yield* client({}, "dialog")
      const { page } = yield* openSignedIn(yield* key({}, "dialog"), "/rules?new=rule")
      yield* Effect.promise(async () => {
        await page.getByLabel("Comment of the decision").selectOption("Required with every decision")
        await page.getByRole("button", { name: "Add rule" }).click()
        await page.getByText("comment required").waitFor()
        await page.getByRole("button", { name: "Save rules" }).click()
        await page.getByText("Rules saved").waitFor()
      })
      const { rules } = yield* admin.approvalRules.get({})
      assert.deepStrictEqual(
        rules.map(({ require_comment }) => require_comment),
        ["always"]
      )
    }).pipe(Effect.scoped, Effect.orDie))
})
