import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import type { Page } from "playwright-core"
import { INBOX_FIRST_PAGE } from "../../src/api/Console.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { Browser, skipWithoutBrowser, horizontalOverflow, openSignedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

const environment = Layer.provideMerge(Browser.layer, service())

/** Approvals that wait: more than the inbox is told at first. */
const MANY = INBOX_FIRST_PAGE + 20

/** An agent that asks for a step and waits for the decision. */
const agentWaits = (
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

/** Each test has an organization of its own: what others ask for does not show. */
const as = (organization: string, input: Parameters<Countersign["Service"]["key"]>[0]) =>
  Effect.flatMap(Countersign, ({ key }) => key(input, organization))

/** Has a page believe that it is seen, or not. */
const look = (page: Page, seen: boolean): Promise<unknown> =>
  page.evaluate(
    `Object.defineProperty(document, "hidden", { value: ${!seen}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`
  )

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("the inbox in a browser", (it) => {
  const test = skipWithoutBrowser(it)

  describe("a reviewer", () => {
    test("approves by keyboard what a real agent waits for, and it goes on with the comment", () =>
      Effect.gen(function* () {
        const { faults, page } = yield* openSignedIn(
          yield* as("keyboard", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* agentWaits({ id: "refund-1", tool: "payments.refund" }, "keyboard")
        yield* Effect.promise(async () => {
          // Live: nobody loads the page again.
          await page.getByRole("option", { name: /payments\.refund/ }).waitFor()
          await page.keyboard.press("j")
          await page.getByRole("heading", { name: "payments.refund" }).waitFor()
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
          await page.getByText("Nothing waits for you").waitFor()
        })
        assert.deepStrictEqual(faults, [])
      }).pipe(Effect.scoped, Effect.orDie))

    test("is told when an approval closes under their hand, and by whom", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { page } = yield* openSignedIn(
          yield* as("race", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* agentWaits({ id: "one", tool: "mail.send" }, "race")
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

    test("who decides too late is told so, by the answer where the stream is away", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { agent, session_id, waiting } = yield* agentWaits({ id: "one", tool: "mail.send" }, "late")
        const grace = yield* client({ preset: "reviewer", name: "Grace" }, "late")
        // The same step again tells which approval it waits for.
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: {
            step_id: StepId.make("one"),
            tool: "mail.send",
            action_class: "write",
            arguments: { order: "4711" }
          }
        })
        if (approval_id === null) return yield* Effect.die("a person should be asked")
        const { page } = yield* openSignedIn(yield* as("late", { preset: "reviewer" }), "/feedback")
        yield* Effect.promise(async () => {
          await page.route("**/console/inbox/stream", (route) => route.abort())
          await page.goto(`/console/approvals/${approval_id}`)
          await page.getByText(/closes in \d+ min/).waitFor()
          await page.getByRole("button", { name: "Approve" }).click()
        })
        yield* grace.approvals.decide({ params: { id: approval_id }, payload: { decision: "reject" } })
        yield* Effect.promise(async () => {
          await page.getByLabel("Comment").press("Enter")
          await page.getByText("It closed under your hand: Rejected by Grace").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "reject")
      }).pipe(Effect.scoped, Effect.orDie))

    test("sees the time run out", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "running")
        yield* admin.approval_rules.replace({
          payload: { rules: [{ effect: "require_approval", review_seconds: 50 }] }
        })
        const { page } = yield* openSignedIn(yield* as("running", { preset: "reviewer" }), "/approvals")
        yield* agentWaits({ id: "one", tool: "cache.clear" }, "running")
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

    test("sees that nobody decided in time, and what the agent was answered", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "silence")
        yield* admin.approval_rules.replace({
          payload: { rules: [{ effect: "require_approval", review_seconds: 2, timeout_action: "allow" }] }
        })
        const { page } = yield* openSignedIn(yield* as("silence", { preset: "reviewer" }), "/approvals")
        const { waiting } = yield* agentWaits({ id: "one", tool: "cache.clear" }, "silence")
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Effect.promise(async () => {
          await page.getByText("Nothing waits for you").waitFor()
          await page.getByRole("button", { name: "Closed" }).click()
          await page.getByRole("button", { name: /cache\.clear/ }).click()
          await page.getByText("Nobody decided in time").waitFor()
          await page.getByText("The agent is answered allow").waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("scrolls through more than one page of them, of which only those in sight are there", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const agent = yield* client({ preset: "runtime" }, "many")
        const { session_id } = yield* agent.sessions.create({})
        const { approval_id } = yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("before"), tool: "mail.before", action_class: "write" }
        })
        if (approval_id === null) return yield* Effect.die("a person should be asked")
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
        const { page } = yield* openSignedIn(yield* as("many", { preset: "reviewer" }), "/approvals")
        yield* Effect.promise(async () => {
          await page.getByText(`Waiting ${MANY}`).waitFor()
          const last = page.locator(`[role=option][aria-posinset="${MANY}"]`)
          assert.strictEqual(await last.count(), 0)
          assert.isBelow(await page.getByRole("option").count(), MANY / 3)
          await page.evaluate(
            "{ const list = document.querySelector('[role=listbox]'); list.scrollTop = list.scrollHeight }"
          )
          await last.click()
          await page.getByText(/closes in/).waitFor()
          assert.isBelow(await page.getByRole("option").count(), MANY / 3)
          // What was decided is older than all that waits, and found all the same.
          await page.getByRole("button", { name: "Closed" }).click()
          await page.getByRole("button", { name: /mail\.before/ }).waitFor()
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("has no connection while nobody sees the page, and learns what was missed on return", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const { page } = yield* openSignedIn(yield* as("away", { preset: "reviewer" }), "/approvals")
        const { waiting } = yield* agentWaits({ id: "one", tool: "mail.send" }, "away")
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /mail\.send/ }).click()
          await page.getByRole("button", { name: "Approve" }).waitFor()
          const closed = page.waitForEvent("requestfailed", (request) =>
            request.url().endsWith("/inbox/stream")
          )
          await look(page, false)
          await closed
        })
        const grace = yield* client({ preset: "reviewer", name: "Grace" }, "away")
        const { approvals } = yield* grace.approvals.list({ query: { status: "pending" } })
        yield* grace.approvals.decide({
          params: { id: approvals[0]!.approval_id },
          payload: { decision: "approve" }
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "allow")
        yield* Effect.promise(async () => {
          await look(page, true)
          await page.getByText("Approved by Grace").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Approve" }).count(), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))

    test("is offered no decision that would be refused: an escalated step is an admin's", () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const admin = yield* client({}, "escalated")
        yield* admin.approval_rules.replace({
          payload: {
            rules: [{ effect: "require_approval", review_seconds: 1, escalation_seconds: 600 }]
          }
        })
        const reviewer = yield* openSignedIn(yield* as("escalated", { preset: "reviewer" }), "/approvals")
        const boss = yield* openSignedIn(
          yield* as("escalated", { preset: "admin", name: "Boss" }),
          "/approvals"
        )
        const { waiting } = yield* agentWaits({ id: "one", tool: "deploy.release" }, "escalated")
        yield* Effect.promise(async () => {
          await reviewer.page.getByRole("option", { name: /deploy\.release/ }).click()
          await reviewer.page.getByText("An admin decides now").waitFor()
          assert.strictEqual(
            await reviewer.page.getByRole("button", { name: /^(Approve|Reject)/ }).count(),
            0
          )
          await boss.page.getByRole("option", { name: /deploy\.release/ }).click()
          await boss.page.getByText("admins", { exact: false }).first().waitFor()
          await boss.page.getByRole("button", { name: "Reject" }).click()
          await boss.page.getByRole("button", { name: "Reject" }).click()
        })
        assert.strictEqual((yield* Fiber.join(waiting)).decision, "reject")
      }).pipe(Effect.scoped, Effect.orDie))

    test("who asked for a step is not offered to decide it", () =>
      Effect.gen(function* () {
        const { clientWith } = yield* Countersign
        const key = yield* as("self", { preset: "admin", name: "Both" })
        const calls = yield* clientWith(key)
        const { session_id } = yield* calls.sessions.create({})
        yield* calls.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("one"), tool: "crm.update", action_class: "write" }
        })
        const { page } = yield* openSignedIn(key, "/approvals")
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /crm\.update/ }).click()
          await page.getByText("wants another person to decide").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: /^(Approve|Reject)/ }).count(), 0)
        })
      }).pipe(Effect.scoped, Effect.orDie))
  })

  describe("who signs out", () => {
    test("leaves nothing to who signs in next, in this tab and in others, and stays where it failed", () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const { page } = yield* openSignedIn(
          yield* as("leaving", { preset: "reviewer", name: "Ada" }),
          "/approvals"
        )
        const { waiting } = yield* agentWaits({ id: "one", tool: "secret.tool" }, "leaving")
        const next = yield* as("coming", { preset: "reviewer", name: "Bea" })
        const later = yield* as("later", { preset: "reviewer", name: "Cleo" })
        yield* Effect.promise(async () => {
          await page.getByRole("option", { name: /secret\.tool/ }).waitFor()
          await page.route("**/console/session", (route) => route.abort())
          await page.getByRole("button", { name: "Sign out" }).click()
          await page.getByRole("alert").getByText("The service did not answer").waitFor()
          await page.getByRole("option", { name: /secret\.tool/ }).waitFor()
          await page.unroute("**/console/session")
          await page.getByRole("button", { name: "Sign out" }).click()
          await page.getByLabel("API key").fill(Redacted.value(next))
          await page.getByRole("button", { name: "Sign in" }).click()
          await page.getByText("Bea").waitFor()
          await page
            .getByText(/Nothing waits for you|secret\.tool/)
            .first()
            .waitFor()
          assert.strictEqual(await page.getByText("secret.tool").count(), 0)
          // Another tab of the browser signs in: this one is told when it is looked at again.
          await look(page, false)
          await page.request.post("/console/session", {
            data: { key: Redacted.value(later) },
            headers: { origin: url, "sec-fetch-site": "same-origin" }
          })
          await look(page, true)
          await page.getByText("Cleo").waitFor()
        })
        yield* Fiber.interrupt(waiting)
      }).pipe(Effect.scoped, Effect.orDie))
  })

  describe("content of others", () => {
    test("is text, whatever it holds", () =>
      Effect.gen(function* () {
        const { faults, page } = yield* openSignedIn(
          yield* as("hostile", { preset: "reviewer" }),
          "/approvals"
        )
        const { waiting } = yield* agentWaits(
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
          await page.getByRole("option").first().click()
          const shown = page.getByRole("group", { name: "Arguments" })
          await shown.getByText("<b id=injected>bold</b>").waitFor()
          await shown.getByText("U+202E").waitFor()
          await shown.getByText("U+200B").waitFor()
          assert.strictEqual(await page.locator("#injected, img, svg[onload], [onerror]").count(), 0)
          assert.strictEqual(await page.title(), "Approvals · Countersign")
          assert.strictEqual(await horizontalOverflow(page), 0)
        })
        assert.deepStrictEqual(faults, [])
        yield* Fiber.interrupt(waiting)
      }).pipe(Effect.scoped, Effect.orDie))
  })
})
