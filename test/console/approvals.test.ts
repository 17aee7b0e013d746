import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import type { Page } from "playwright-core"
import { INBOX_FIRST_PAGE } from "../../src/api/Console.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import {
  accessibilityViolations,
  Browser,
  holdRequest,
  skipWithoutBrowser,
  horizontalOverflow,
  openSignedIn,
  signInBy
} from "../support/browser.ts"
import { eventually } from "../adapters/mcp/eventually.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** More pending approvals than the first page of the inbox holds. */
const MANY = INBOX_FIRST_PAGE + 20

/** Starts an agent that requests a step and waits for the decision. */
const startWaitingAgent = (
  step: { readonly id: string; readonly tool: string; readonly arguments?: unknown },
  organization: string
) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const agent = yield* client({ preset: "runtime", name: "agent" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const waiting = yield* Effect.forkChild(
      agent.govern(session_id, {
        step_id: StepId.make(step.id),
        tool: step.tool,
        action_class: "write",
        arguments: JSON.parse(JSON.stringify(step.arguments ?? { order: "4711" }))
      })
    )
    return { agent, session_id, waiting }
  })

/** Creates an API key in an organization. Each test uses its own organization, so that tests do not see each other's approvals. */
const keyIn = (organization: string, input: Parameters<Countersign["Service"]["key"]>[0]) =>
  Effect.flatMap(Countersign, ({ key }) => key(input, organization))

/** Makes a page visible or hidden, as switching tabs does. */
const setVisible = (page: Page, isVisible: boolean): Promise<unknown> =>
  page.evaluate(
    `Object.defineProperty(document, "hidden", { value: ${!isVisible}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`
  )

/** Hides a page, which closes its event stream, lets Grace approve the pending step of its organization, and shows the page again. */
const approveWhileHidden = (page: Page, organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    yield* Effect.promise(async () => {
      const closed = page.waitForEvent("requestfailed", (request) => request.url().includes("/inbox/stream"))
      await setVisible(page, false)
      await closed
    })
    const grace = yield* client({ preset: "reviewer", name: "Grace" }, organization)
    const { approvals } = yield* grace.approvals.list({ query: { status: "pending" } })
    yield* grace.approvals.decide({
      params: { id: approvals[0]!.approval_id },
      payload: { decision: "approve" }
    })
    yield* Effect.promise(() => setVisible(page, true))
  })

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("Approvals page", (it) => {
  const test = skipWithoutBrowser(it)

  describe("reviewing", () => {
    test("a reviewer approves a step by keyboard, and the waiting agent continues with the comment", () =>
      Effect.gen(function* () {
        const { pageErrors, page } = yield* openSignedIn(
          yield* keyIn("keyboard", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* startWaitingAgent({ id: "refund-1", tool: "payments.refund" }, "keyboard")
        yield* Effect.promise(async () => {
          // The approval appears without reloading the page.
          await page.getByRole("option", { name: /payments\.refund/ }).waitFor()
          await page.keyboard.press("j")
          await page.getByRole("heading", { name: "payments.refund" }).waitFor()
          await page.locator("[aria-keyshortcuts=a]").waitFor()
          await page.keyboard.press("a")
          await page.keyboard.type("The order was checked")
          await page.keyboard.press("Enter")
        })
        const { approval, decision } = yield* Fiber.join(waiting)
        assert.strictEqual(decision, "allow")
        assert.strictEqual(approval?.comment, "The order was checked")
        assert.strictEqual(approval?.decided_by?.name, "Ada")
        yield* Effect.promise(async () => {
          await page.getByText("Approved by Ada").waitFor()
          await page.getByText("No pending approvals").waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a step that needs two groups shows its progress, and the badge counts what the key can still approve", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({ name: "Root" }, "quorum")
        const ben = yield* client({ preset: "reviewer", name: "Ben", groups: ["legal"] }, "quorum")
        const ada = yield* keyIn("quorum", { preset: "reviewer", name: "Ada", groups: ["finance"] })
        yield* admin.approvalRules.replace({
          payload: {
            rules: [
              { tool: "secrets.*", effect: "require_approval", quorum: [{ group: "legal" }] },
              { effect: "require_approval", quorum: [{ group: "finance" }, { group: "legal" }] }
            ]
          }
        })
        const { pageErrors, page } = yield* openSignedIn(ada, "/approvals?show=all")
        yield* startWaitingAgent({ id: "other", tool: "secrets.read" }, "quorum")
        const { waiting } = yield* startWaitingAgent({ id: "pay", tool: "payments.pay" }, "quorum")
        yield* Effect.promise(async () => {
          // Of two pending approvals, one waits for others.
          await page
            .getByRole("option", { name: /secrets\.read/ })
            .getByText("0 of 1, waiting for legal")
            .waitFor()
          const pay = page.getByRole("option", { name: /payments\.pay/ })
          await pay.getByText("0 of 2, waiting for finance or legal").waitFor()
          await page.getByRole("link", { name: /Approvals 1/ }).waitFor()
          await page.getByRole("option", { name: /secrets\.read/ }).click()
          await page.getByText("waiting for legal. This API key is in none of these groups").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Reject" }).count(), 0)
          await pay.click()
          await page.getByText("Yours is vote 1 of 2").first().waitFor()
          await page.getByRole("button", { name: "Approve" }).click()
          await page.getByRole("button", { name: "Approve" }).click()
          await pay.getByText("You approved").waitFor()
          await page.getByText("Your approval is recorded. Others must approve too").first().waitFor()
          await page.getByRole("link", { name: "Approvals", exact: true }).waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
          assert.strictEqual(await page.getByRole("button", { name: "Reject" }).count(), 1)
          await page.getByRole("article").getByText("1 of 2, waiting for legal").first().waitFor()
        })
        const { approvals } = yield* ben.approvals.list({ query: { status: "pending" } })
        const approval = approvals.find(({ tool }) => tool === "payments.pay") ?? assert.fail("it waits")
        yield* ben.approvals.decide({
          params: { id: approval.approval_id },
          payload: { decision: "approve" }
        })
        yield* Effect.promise(() => page.getByText("Approved by Ben").first().waitFor())
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a reviewer rejects with other arguments, sees what differs, and later which step used them", () =>
      Effect.gen(function* () {
        const { pageErrors, page } = yield* openSignedIn(
          yield* keyIn("proposals", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { agent, session_id, waiting } = yield* startWaitingAgent(
          { id: "refund", tool: "payments.refund", arguments: { order: "4711", amount: 500 } },
          "proposals"
        )
        const editor = page.getByRole("textbox", { name: "Proposed arguments" })
        const reject = page.getByRole("button", { name: "Reject", exact: true })
        const differs = page.getByRole("rowheader", { name: /amount.*differs/ })
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /payments\.refund/ }).click()
          await page.getByRole("button", { name: "Approve" }).click()
          // Only a rejection proposes.
          assert.strictEqual(await page.getByRole("button", { name: "Propose other arguments" }).count(), 0)
          await page.keyboard.press("Escape")
          await page.getByRole("button", { name: "Reject" }).click()
          await page.getByRole("button", { name: "Propose other arguments" }).click()
          assert.deepStrictEqual(JSON.parse(await editor.inputValue()), { order: "4711", amount: 500 })
          await page.getByText("Change something").waitFor()
          assert.isTrue(await reject.isDisabled())
          await editor.fill('{"order": "4711", "amount": 20')
          await editor.blur()
          await page.getByText("Invalid JSON").waitFor()
          assert.isTrue(await reject.isDisabled())
          await editor.fill('{"order": "4711", "amount": 20}')
          await differs.waitFor()
          assert.strictEqual(await page.getByRole("rowheader", { name: "order" }).count(), 0)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await page.setViewportSize({ width: 390, height: 844 })
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await page.setViewportSize({ width: 1280, height: 720 })
          await page.getByRole("textbox", { name: "Comment" }).fill("At most 20")
          await reject.click()
          await page.getByText("Rejected by Ada").waitFor()
          await page.getByText("Not used yet").waitFor()
          await differs.waitFor()
        })
        const { decision, proposal, ...rejected } = yield* Fiber.join(waiting)
        assert.strictEqual(decision, "reject")
        assert.deepStrictEqual(proposal?.arguments, { order: "4711", amount: 20 })
        const again = yield* agent.govern(session_id, {
          step_id: StepId.make("refund of 20"),
          tool: "payments.refund",
          action_class: "write",
          arguments: { order: "4711", amount: 20 }
        })
        assert.deepInclude(again, { decision: "allow", approval_id: rejected.approval_id })
        yield* Effect.promise(async () => {
          await page.reload()
          await page.getByText("Used by step refund of 20").waitFor()
          await page.getByRole("link", { name: "View session" }).click()
          await page.getByRole("link", { name: "Rejected approval with the proposal" }).waitFor()
          await page.getByText("proposing other arguments").waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a reviewer asks the agent, reads its answer as it comes, and requests changes", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { pageErrors, page } = yield* openSignedIn(
          yield* keyIn("talk", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const agent = yield* client({ preset: "runtime", name: "agent" }, "talk")
        const { session_id } = yield* agent.sessions.create({})
        const waiting = yield* Effect.forkChild(
          agent.govern(
            session_id,
            {
              step_id: StepId.make("refund"),
              tool: "payments.refund",
              action_class: "write",
              arguments: { amount: 500 }
            },
            { onMessage: ({ text }) => `<b id=injected>You asked</b> \u{202e}${text}` }
          )
        )
        const message = page.getByRole("textbox", { name: "Message to the agent" })
        const messages = page.getByRole("region", { name: "Messages" })
        const option = page.getByRole("option", { name: /payments\.refund/ })
        yield* Effect.promise(async () => {
          await option.click()
          await message.waitFor()
          assert.isTrue(await page.getByRole("button", { name: "Send" }).isDisabled())
          await message.fill("Why 500?")
          const sending = await holdRequest(page, "**/messages")
          await page.getByRole("button", { name: "Send" }).click()
          await sending.asked
          // What is typed while a message is sent would be lost when the field is emptied.
          await message.focus()
          await page.keyboard.type(" Or 50?")
          assert.strictEqual(await message.inputValue(), "Why 500?")
          sending.answer()
          await messages.getByText("Why 500?").first().waitFor()
          await eventually(async () => assert.strictEqual(await message.inputValue(), ""))
          // The answer arrives without reloading the page.
          await messages.getByText("<b id=injected>You asked</b>").waitFor()
          await messages.getByText("U+202E").waitFor()
          assert.strictEqual(await page.locator("#injected").count(), 0)
          await option.getByText("Agent wrote").waitFor()
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          await page.setViewportSize({ width: 390, height: 844 })
          assert.strictEqual(await horizontalOverflow(page), 0)
          await page.setViewportSize({ width: 1280, height: 720 })
          // A message that was typed and not sent survives a reload.
          await message.fill("not sent")
          await page.reload()
          await message.waitFor()
          assert.strictEqual(await message.inputValue(), "not sent")
          await page.locator("[aria-keyshortcuts=c]").waitFor()
          await page.getByRole("heading", { name: "payments.refund" }).click()
          await page.keyboard.press("c")
          const submit = page.getByRole("button", { name: "Request changes", exact: true })
          assert.isTrue(await submit.isDisabled())
          await page.keyboard.press("Enter")
          await page.getByRole("textbox", { name: "What the agent has to change" }).fill("At most 20")
        })
        assert.deepStrictEqual(yield* accessibilityViolations(page), [])
        yield* Effect.promise(async () => {
          const deciding = await holdRequest(page, "**/decide")
          await page.keyboard.press("Enter")
          await deciding.asked
          await page.keyboard.type("0 or 30")
          const comment = page.getByRole("textbox", { name: "What the agent has to change" })
          assert.strictEqual(await comment.inputValue(), "At most 20")
          deciding.answer()
          await page.getByText("Changes requested by Ada").first().waitFor()
          await messages.getByText("Why 500?").first().waitFor()
          assert.strictEqual(await message.count(), 0)
        })
        assert.deepInclude(yield* Fiber.join(waiting), {
          decision: "reject",
          changes_requested: true,
          comment: "At most 20"
        })
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "View session" }).click()
          await page.getByText("Changes requested by").first().waitFor()
          await page.getByText("Why 500?").first().waitFor()
        })
        assert.deepStrictEqual(pageErrors, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("a reviewer sees when another reviewer decides the open approval first, and who it was", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { page } = yield* openSignedIn(
          yield* keyIn("race", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "mail.send" }, "race")
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /mail\.send/ }).click()
          await page.getByRole("button", { name: "Reject" }).waitFor()
        })
        const grace = yield* client({ preset: "reviewer", name: "Grace" }, "race")
        const { approvals } = yield* grace.approvals.list({ query: { status: "pending" } })
        yield* grace.approvals.decide({
          params: { id: approvals[0]!.approval_id },
          payload: { decision: "approve", comment: "I was quicker" }
        })
        yield* Effect.promise(async () => {
          await page.getByText("Approved by Grace").waitFor()
          await page.getByText("I was quicker").waitFor()
          await page.getByRole("button", { name: "Reject" }).waitFor({ state: "detached" })
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
      }).pipe(Effect.scoped, Effect.orDie))

    test("a late decision shows the earlier one from the API response, even without the event stream", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { agent, session_id, waiting } = yield* startWaitingAgent(
          { id: "one", tool: "mail.send" },
          "late"
        )
        const grace = yield* client({ preset: "reviewer", name: "Grace" }, "late")
        // Submitting the same step again returns the id of its approval.
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make("one"),
            tool: "mail.send",
            action_class: "write",
            arguments: { order: "4711" }
          }
        })
        if (approval_id === null) return yield* Effect.die("the step should require approval")
        const { page } = yield* openSignedIn(yield* keyIn("late", { preset: "reviewer" }), "/feedback")
        yield* Effect.promise(async () => {
          await page.route("**/console/inbox/stream?*", (route) => route.abort())
          await page.goto(`/console/approvals/${approval_id}`)
          await page.getByText(/Due in \d+ min/).waitFor()
          await page.getByRole("button", { name: "Approve" }).click()
        })
        yield* grace.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
        yield* Effect.promise(async () => {
          await page.getByLabel("Comment").press("Enter")
          await page.getByText("Closed before your decision: Rejected by Grace").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "reject")
      }).pipe(Effect.scoped, Effect.orDie))

    test("the countdown of a pending approval decreases", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "running")
        yield* admin.approvalRules.replace({
          payload: { rules: [{ effect: "require_approval", review_seconds: 50 }] }
        })
        const { page } = yield* openSignedIn(yield* keyIn("running", { preset: "reviewer" }), "/approvals")
        yield* startWaitingAgent({ id: "one", tool: "cache.clear" }, "running")
        yield* Effect.promise(async () => {
          const left = page.locator("time.countdown").first()
          const before = Number.parseInt(await left.innerText(), 10)
          assert.isAtMost(before, 51)
          await page.waitForFunction(
            (then) =>
              Number.parseInt(document.querySelector("time.countdown")?.textContent ?? "", 10) <= then - 2,
            before
          )
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("an expired approval shows that nobody decided in time and the decision returned to the agent", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "silence")
        yield* admin.approvalRules.replace({
          payload: { rules: [{ effect: "require_approval", review_seconds: 2, timeout_action: "allow" }] }
        })
        const { page } = yield* openSignedIn(yield* keyIn("silence", { preset: "reviewer" }), "/approvals")
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "cache.clear" }, "silence")
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Effect.promise(async () => {
          await page.getByText("No pending approvals").waitFor()
          await page.getByRole("button", { name: "Closed" }).click()
          await page.getByRole("button", { name: /cache\.clear/ }).click()
          await page.getByText("Expired before anyone decided").waitFor()
          await page.getByText("Returned to the agent: allow").waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("a list longer than one page scrolls to its end and renders only the visible rows", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const agent = yield* client({ preset: "runtime" }, "many")
        const { session_id } = yield* agent.sessions.create({})
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("before"), tool: "mail.before", action_class: "write" }
        })
        if (approval_id === null) return yield* Effect.die("the step should require approval")
        const reviewer = yield* client({ preset: "reviewer" }, "many")
        yield* reviewer.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
        yield* Effect.forEach(
          Array.from({ length: MANY }, (_, index) => index),
          (index) =>
            agent.sessions.step({
              params: { id: session_id },
              payload: { step_id: StepId.make(`step-${index}`), tool: "mail.send", action_class: "write" }
            }),
          { concurrency: 8, discard: true }
        )
        const { page } = yield* openSignedIn(yield* keyIn("many", { preset: "reviewer" }), "/approvals")
        yield* Effect.promise(async () => {
          await page.getByText(`Pending ${MANY}`).waitFor()
          const last = page.locator(`[role=option][aria-posinset="${MANY}"]`)
          assert.strictEqual(await last.count(), 0)
          assert.isBelow(await page.getByRole("listbox").getByRole("option").count(), MANY / 3)
          await page.evaluate(
            "{ const list = document.querySelector('[role=listbox]'); list.scrollTop = list.scrollHeight }"
          )
          await last.click()
          await page.getByText(/Due in/).waitFor()
          assert.isBelow(await page.getByRole("listbox").getByRole("option").count(), MANY / 3)
          // The closed approval is older than all pending ones and still listed.
          await page.getByRole("button", { name: "Closed" }).click()
          await page.getByRole("button", { name: /mail\.before/ }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("without locks, a hidden page closes its event stream and catches up when it becomes visible", () =>
      Effect.gen(function* () {
        const { page } = yield* openSignedIn(yield* keyIn("away", { preset: "reviewer" }), "/approvals")
        yield* Effect.promise(async () => {
          await page.addInitScript(() => Reflect.deleteProperty(Navigator.prototype, "locks"))
          await page.reload()
        })
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "mail.send" }, "away")
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /mail\.send/ }).click()
          await page.getByRole("button", { name: "Approve" }).waitFor()
        })
        yield* approveWhileHidden(page, "away")
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Effect.promise(async () => {
          await page.getByText("Approved by Grace").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("what closed while a page was away is in its list of closed approvals", () =>
      Effect.gen(function* () {
        const { page } = yield* openSignedIn(
          yield* keyIn("missed", { preset: "reviewer" }),
          "/approvals?tab=closed"
        )
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "mail.send" }, "missed")
        yield* Effect.promise(async () => {
          await page.addInitScript(() => Reflect.deleteProperty(Navigator.prototype, "locks"))
          await page.reload()
          await page.getByText("No closed approvals").waitFor()
          await page.getByRole("button", { name: "Pending 1" }).waitFor()
        })
        yield* approveWhileHidden(page, "missed")
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: /mail\.send/ }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("a reviewer cannot decide an escalated step, an admin can", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "escalated")
        yield* admin.approvalRules.replace({
          payload: {
            rules: [{ effect: "require_approval", review_seconds: 1, escalation_seconds: 600 }]
          }
        })
        const reviewerPage = yield* openSignedIn(
          yield* keyIn("escalated", { preset: "reviewer" }),
          "/approvals?show=all"
        )
        const adminPage = yield* openSignedIn(
          yield* keyIn("escalated", { preset: "admin", name: "Boss" }),
          "/approvals"
        )
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "deploy.release" }, "escalated")
        yield* Effect.promise(async () => {
          await reviewerPage.page.getByRole("option", { name: /deploy\.release/ }).click()
          await reviewerPage.page.getByText("Only an admin can decide now").waitFor()
          assert.strictEqual(
            await reviewerPage.page.getByRole("button", { name: /^(Approve|Reject)/ }).count(),
            0
          )
          await adminPage.page.getByRole("option", { name: /deploy\.release/ }).click()
          await adminPage.page.getByText("Escalated", { exact: false }).first().waitFor()
          await adminPage.page.getByRole("button", { name: "Reject" }).click()
          await adminPage.page.getByRole("button", { name: "Reject" }).click()
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "reject")
      }).pipe(Effect.scoped, Effect.orDie))

    test("the key that requested a step is not offered to decide it without self-approval", () =>
      Effect.gen(function* () {
        const { clientWith } = yield* Countersign
        const key = yield* keyIn("self", { preset: "admin", name: "Both" })
        const calls = yield* clientWith(key)
        const { session_id } = yield* calls.sessions.create({})
        yield* calls.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("one"), tool: "crm.update", action_class: "write" }
        })
        const { page } = yield* openSignedIn(key, "/approvals?show=all")
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /crm\.update/ }).click()
          await page.getByText("the rule does not allow self-approval").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: /^(Approve|Reject)/ }).count(), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))
  })

  describe("signing out", () => {
    test("signing out removes all data before the next sign-in, in every tab, and a failed sign-out changes nothing", () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const { page } = yield* openSignedIn(
          yield* keyIn("leaving", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* startWaitingAgent({ id: "one", tool: "secret.tool" }, "leaving")
        const next = yield* keyIn("coming", { preset: "reviewer", name: "Bea" })
        const later = yield* keyIn("later", { preset: "reviewer", name: "Cleo" })
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /secret\.tool/ }).waitFor()
          await page.route("**/console/session", (route) => route.abort())
          await page.getByRole("button", { name: "Sign out" }).click()
          await page.getByRole("alert").getByText("No response from the service").waitFor()
          await page.getByRole("option", { name: /secret\.tool/ }).waitFor()
          await page.unroute("**/console/session")
          await page.getByRole("button", { name: "Sign out" }).click()
          await page.getByLabel("API key").fill(Redacted.value(next))
          await page.getByRole("button", { name: "Sign in" }).click()
          await page.getByText("Bea").waitFor()
          await page
            .getByRole("navigation")
            .getByRole("link", { name: /^Approvals/ })
            .click()
          await page
            .getByText(/No pending approvals|secret\.tool/)
            .first()
            .waitFor()
          assert.strictEqual(await page.getByText("secret.tool").count(), 0)
          // Another tab signs in with a different key: this one notices when it becomes visible again.
          await setVisible(page, false)
          const tab = await page.context().newPage()
          await tab.goto("/healthz")
          await signInBy(tab, url, later)
          await setVisible(page, true)
          await page.getByText("Cleo").waitFor()
        })
        yield* Fiber.interrupt(waiting)
      }).pipe(Effect.scoped, Effect.orDie))
  })

  describe("untrusted content", () => {
    test("markup, bidirectional controls and invisible characters of an agent are shown as text", () =>
      Effect.gen(function* () {
        const { pageErrors, page } = yield* openSignedIn(
          yield* keyIn("hostile", { preset: "reviewer" }),
          "/approvals"
        )
        const { waiting } = yield* startWaitingAgent(
          {
            id: "<script>document.title='owned'</script>",
            tool: "pay.<img src=x onerror=alert(1)>",
            arguments: {
              "<svg onload=alert(2)>": "<b id=injected>bold</b>",
              turned: "invoice\u202efdp.exe",
              unseen: "pay\u200bpal",
              arabic: "مرحبا بالعالم",
              long: "W".repeat(5_000),
              link: "javascript:alert(3)"
            }
          },
          "hostile"
        )
        yield* Effect.promise(async () => {
          await page.getByRole("listbox").getByRole("option").first().click()
          const shown = page.getByRole("group", { name: "Arguments" })
          await shown.getByText("<b id=injected>bold</b>").waitFor()
          await shown.getByText("U+202E").waitFor()
          await shown.getByText("U+200B").waitFor()
          assert.strictEqual(await page.locator("#injected, img, svg[onload], [onerror]").count(), 0)
          // Scripts have not changed it: the tool is text in it. The count of pending approvals may have arrived already.
          assert.match(await page.title(), /^(?:\(\d+\) )?pay\.<img.+ · Approvals · Countersign$/u)
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
        assert.deepStrictEqual(pageErrors, [])
        yield* Fiber.interrupt(waiting)
      }).pipe(Effect.scoped, Effect.orDie))
  })
})
